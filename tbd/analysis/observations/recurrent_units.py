"""Observation 7: recurrent models use the arithmetic units two to three times less than image classification."""

import math

from tbd.analysis.evidence import Evidence, percent, units_metric
from tbd.analysis.finding import Case, Finding, of_all, rows, summary
from tbd.analysis.observations import families
from tbd.analysis.pictures import bars
from tbd.analysis.suite import CLASSIFIERS, RECURRENT

CLAIM = (
    "Recurrent models have low FP32 utilisation, two to three times below convolutional ones, at their largest batch."
)
PAPER = "From its abstract: RNN training uses the GPU two to three times less efficiently than image classification."
LEAST = 2.0
CRITERION = (
    "In every framework and place that has both: the mean use of the units by the image classifiers, each at its "
    "largest batch, is at least twice that by the recurrent model at its own. Use as in observation 6."
)


def finding(evidence: Evidence) -> Finding:
    found = families.pairs(evidence.single, RECURRENT, units_metric)
    cases = []
    for pair in found:
        mean = math.fsum(other.value for other in pair.classifiers.values()) / len(pair.classifiers)
        times = mean / pair.figure.value if pair.figure.value > 0 else math.inf
        cases.append(
            Case(
                pair.curve.label,
                times >= LEAST,
                {
                    "metric": units_metric(pair.curve),
                    "its own": percent(pair.figure),
                    **{model: percent(pair.classifiers.get(model)) for model in CLASSIFIERS},
                    "classifiers by it": f"{times:.2f} times",
                },
            )
        )
    shares = [
        (curve.label, 100 * largest[1].value)
        for curve in evidence.single
        if curve.model in (*RECURRENT, *CLASSIFIERS) and (largest := curve.largest(units_metric(curve)))
    ]
    return Finding(
        7, CLAIM, PAPER, CRITERION, of_all(cases),
        summary(cases, "No recurrent model has been run beside an image classifier with a figure of the units' use."),
        rows(cases), bars("Use of the arithmetic units at the largest batch", "%", shares),
        families.missing(evidence, RECURRENT, found),
    )  # fmt: skip
