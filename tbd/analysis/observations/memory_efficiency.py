"""Observation 12: to fill the memory by a larger batch can gain little."""

import math

from tbd.analysis.charts import Chart
from tbd.analysis.curves import Curve, gain_a_doubling
from tbd.analysis.evidence import Evidence, times
from tbd.analysis.finding import FAILS, HOLDS, UNKNOWN, Case, Finding, Missing, rows, summary
from tbd.analysis.missing import sweep
from tbd.analysis.pictures import over_batches
from tbd.analysis.suite import FIXED_BATCH, SUITE
from tbd.analysis.values import above, both

CLAIM = "Filling memory by a larger batch can be inefficient: throughput saturates while feature maps grow linearly."
PAPER = "From its abstract: for many models, exhausting memory by a larger batch gains little."
METRIC = "memory/feature_maps_highest_mb"
LINEAR, LITTLE = 0.8, 1.1  # this project's lines
CRITERION = (
    "For each curve of two batches or more, at its last doubling: feature maps grow with the batch to the power 0.8 or "
    "more, and throughput is multiplied by less than 1.1, beyond the interval. The claim, which speaks of many models, "
    "holds where half of the curves are so, and fails where more than half are not."
)


def finding(evidence: Evidence) -> Finding:
    curves = [
        curve
        for curve in evidence.single
        if curve.model not in FIXED_BATCH and len(curve.values(METRIC).keys() & curve.values("throughput").keys()) > 1
    ]
    cases = [_case(curve) for curve in curves]
    votes = [case.holds for case in cases]
    verdict = UNKNOWN
    if votes and votes.count(True) * 2 >= len(votes):
        verdict = HOLDS
    elif votes.count(False) * 2 > len(votes):
        verdict = FAILS
    charts: list[Chart] = [*over_batches("Feature maps at their highest, over the batch", curves, METRIC)]
    return Finding(
        12, CLAIM, PAPER, CRITERION, verdict,
        summary(cases, "No model has throughput and feature maps at two batches."), rows(cases), charts,
        [
            Missing(f"{model} at several batches, with its memory", sweep(model, evidence.runs))
            for model in SUITE
            if model not in FIXED_BATCH and model not in {curve.model for curve in curves}
        ],
    )  # fmt: skip


def _case(curve: Curve) -> Case:
    rates, maps = curve.values("throughput"), curve.values(METRIC)
    small, large = sorted(rates.keys() & maps.keys())[-2:]
    gain = gain_a_doubling((small, rates[small]), (large, rates[large]))
    growth = math.log2(gain_a_doubling((small, maps[small]), (large, maps[large])).value)
    little = above(gain, LITTLE)
    row = {
        "last doubling": f"{small} to {large}",
        "throughput a doubling": times(gain),
        "feature maps": f"batch to the power {growth:.2f}",
    }
    return Case(curve.label, both(growth >= LINEAR, None if little is None else not little), row)
