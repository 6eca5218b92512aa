"""Observation 4: the batch must be large enough to keep the GPU busy."""

from tbd.analysis.evidence import Evidence
from tbd.analysis.finding import Finding, Missing, of_all, rows, summary
from tbd.analysis.missing import sweep
from tbd.analysis.observations import rising
from tbd.analysis.suite import FIXED_BATCH, SUITE

CLAIM = "The batch must be large enough to keep the GPU busy."
METRIC = "gpu_compute_utilization"
CRITERION = (
    "For every curve of two batches or more on a GPU: kernels are active for a larger share of the time at the largest "
    "batch than at the smallest, by more than a percentage point."
)


def finding(evidence: Evidence) -> Finding:
    curves = [curve for curve in evidence.gpu if len(curve.values(METRIC)) >= rising.LEAST]
    cases = [rising.case(curve, lambda _: METRIC) for curve in curves]
    told = {curve.model for curve in curves}
    return Finding(
        4, CLAIM, "", CRITERION, of_all(cases),
        summary(cases, "No model has been run on a GPU at two batches."), rows(cases),
        rising.picture("GPU compute utilisation at the smallest and the largest batch", curves, lambda _: METRIC),
        [
            Missing(f"{model} at several batches on a GPU", sweep(model, evidence.runs, on="single_gpu"))
            for model in SUITE
            if model not in told and model not in FIXED_BATCH
        ],
    )  # fmt: skip
