"""Observation 2: recurrent models are not yet saturated when memory runs out."""

from tbd.analysis.curves import Curve, gain_a_doubling
from tbd.analysis.evidence import Evidence, times
from tbd.analysis.finding import Case, Finding, Missing, of_all, rows, summary
from tbd.analysis.missing import batches, sweep
from tbd.analysis.pictures import over_batches
from tbd.analysis.suite import RECURRENT
from tbd.analysis.values import above

CLAIM = "The throughput of recurrent models is not yet saturated when memory runs out."
SATURATED = 1.1  # a doubling that gives less than a tenth more; this project's line, the paper draws none
CRITERION = (
    "For every curve of a recurrent model with a batch that ended out of memory: the last doubling that fitted still "
    "multiplied the throughput by more than 1.1, beyond the interval."
)


def finding(evidence: Evidence) -> Finding:
    curves = [curve for curve in evidence.single if curve.model in RECURRENT]
    full = [curve for curve in curves if len(curve.values("throughput")) >= 2 and _ran_out(curve)]
    cases = [_case(curve) for curve in full]
    return Finding(
        2, CLAIM, "", CRITERION, of_all(cases),
        summary(cases, "No recurrent model has been swept until a batch ended out of memory."), rows(cases),
        over_batches("Throughput of recurrent models over the batch", curves, "throughput"),
        [
            Missing(f"{model}, until a batch ends out of memory", _until_full(model, evidence))
            for model in RECURRENT
            if model not in {curve.model for curve in full}
        ],
    )  # fmt: skip


def _ran_out(curve: Curve) -> bool:
    return any(size > max(curve.points) for size in curve.out_of_memory)


def _until_full(model: str, evidence: Evidence) -> str:
    """On a GPU, whose memory ends before one's patience does."""
    begin = batches(model, "gpu")[-1]
    return sweep(model, evidence.runs, on="single_gpu", batch_sizes=[begin * 2**n for n in range(7)])


def _case(curve: Curve) -> Case:
    found = list(curve.values("throughput").items())
    gain = gain_a_doubling(*found[-2:])
    too_large = min(size for size in curve.out_of_memory if size > max(curve.points))
    row = {"largest batch": found[-1][0], "out of memory at": too_large, "last doubling": times(gain)}
    return Case(curve.label, above(gain, SATURATED), row)
