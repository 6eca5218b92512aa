"""Observation 1: throughput rises with the batch, and by less and less."""

import math
from collections.abc import Sequence

from tbd.analysis.curves import Curve, gain_a_doubling
from tbd.analysis.evidence import Evidence, times
from tbd.analysis.finding import Case, Finding, Missing, of_all, rows, summary
from tbd.analysis.missing import sweep
from tbd.analysis.pictures import bars
from tbd.analysis.suite import FIXED_BATCH, SUITE
from tbd.analysis.values import Value, above, both, product, ratio

CLAIM = "Throughput rises with the batch for all models, with diminishing gains."
CRITERION = (
    "For every model, framework and setting with three batches or more: the largest batch's throughput is above the "
    "smallest's, and a doubling at the largest batches gains less than one at the smallest; both beyond the intervals."
)
LEAST = 3


def finding(evidence: Evidence) -> Finding:
    curves = [curve for curve in evidence.single if curve.model not in FIXED_BATCH]
    cases = [_case(curve) for curve in curves if len(curve.values("throughput")) >= LEAST]
    told = {curve.model for curve in curves if len(curve.values("throughput")) >= LEAST}
    return Finding(
        1, CLAIM, "", CRITERION, of_all(cases),
        summary(cases, "No model has been run at three batches."), rows(cases),
        bars("What the last doubling of the batch multiplied throughput by", "times", _last_gains(curves), 1.0),
        [
            Missing(f"{model} at several batches", sweep(model, evidence.runs))
            for model in SUITE
            if model not in told and model not in FIXED_BATCH
        ],
    )  # fmt: skip


def _last_gains(curves: Sequence[Curve]) -> list[tuple[str, float]]:
    found = [(curve.label, list(curve.values("throughput").items())) for curve in curves]
    return [(label, gain_a_doubling(*rates[-2:]).value) for label, rates in found if len(rates) > 1]


def _case(curve: Curve) -> Case:
    found = list(curve.values("throughput").items())
    whole = ratio(found[-1][1], found[0][1])
    first, last = gain_a_doubling(*found[:2]), gain_a_doubling(*found[-2:])
    row = {
        "batches": ", ".join(str(size) for size, _ in found),
        "largest by smallest": times(whole),
        "first doubling": times(first),
        "last doubling": times(last),
    }
    return Case(curve.label, both(above(whole, 1), above(_first_by_last(found), 1)), row)


def _first_by_last(found: Sequence[tuple[int, Value]]) -> Value:
    """The first doubling's gain by the last one's; a batch that is in both is one factor."""
    powers = [0.0] * len(found)
    for sign, (small, large) in ((1, (0, 1)), (-1, (len(found) - 2, len(found) - 1))):
        power = sign / math.log2(found[large][0] / found[small][0])
        powers[large] += power
        powers[small] -= power
    return product([(value, power) for (_, value), power in zip(found, powers, strict=True) if power])
