"""Observation 6: the batch must be large enough to exploit the arithmetic units."""

from tbd.analysis.evidence import Evidence, units_metric
from tbd.analysis.finding import Finding, Missing, of_all, rows, summary
from tbd.analysis.missing import sweep
from tbd.analysis.observations import rising
from tbd.analysis.suite import FIXED_BATCH, SUITE

CLAIM = "The batch must be large enough to exploit the FP32 units."
CRITERION = (
    "For every curve of two batches or more: the units that the precision works on are used more at the largest batch "
    "than at the smallest, by more than a percentage point. Used: by the hardware's counter (fp32_utilization, or "
    "tensor_utilization in another precision) where one was read, else model FLOPs by the measured peak (mfu)."
)


def finding(evidence: Evidence) -> Finding:
    curves = [curve for curve in evidence.single if len(curve.values(units_metric(curve))) >= rising.LEAST]
    cases = [rising.case(curve, units_metric) for curve in curves]
    told = {curve.model for curve in curves}
    return Finding(
        6, CLAIM, "", CRITERION, of_all(cases),
        summary(cases, "No model with a figure of its units' use has been run at two batches."), rows(cases),
        rising.picture("Use of the arithmetic units at the smallest and the largest batch", curves, units_metric),
        [
            Missing(f"{model} at several batches", sweep(model, evidence.runs))
            for model in SUITE
            if model not in told and model not in FIXED_BATCH
        ],
    )  # fmt: skip
