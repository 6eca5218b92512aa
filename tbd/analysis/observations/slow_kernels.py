"""Observation 8: long kernels that leave the arithmetic units idle exist even in tuned convolutional networks."""

from collections.abc import Sequence

from tbd.analysis.curves import Curve
from tbd.analysis.evidence import Evidence
from tbd.analysis.finding import Case, Finding, Missing, of_all, rows, summary
from tbd.analysis.missing import sweep
from tbd.analysis.operators import Operator, operators, share_of_few
from tbd.analysis.pictures import bars
from tbd.analysis.suite import CLASSIFIERS

CLAIM = "Long kernels with low FP32 utilisation exist even in tuned convolutional networks."
PAPER = "Recalled: batch normalisation, pooling, activations and biases were among them."
LONG = 0.02  # of the time in all kernels; this project's line
CRITERION = (
    "For every image classifier, at its largest batch: a kernel (on a CPU, an operator) that takes 2 % or more of all "
    "kernels' time is of a kind that does a few operations for each number it reads (normalisation, pooling, "
    "activation, sums, copies), by its name."
)


def finding(evidence: Evidence) -> Finding:
    cases, shares, told = [], [], set()
    for curve in evidence.single:
        found = operators(curve.points[max(curve.points)][-1]) if curve.model in CLASSIFIERS else []
        if found:
            told.add(curve.model)
            cases.append(_case(curve, found))
            shares.append((curve.label, 100 * share_of_few(found)))
    return Finding(
        8, CLAIM, PAPER, CRITERION, of_all(cases), summary(cases, "No image classifier has been traced."), rows(cases),
        bars("Time in kernels of few operations a number", "% of all kernels' time", shares),
        [
            Missing(f"{model} with a trace", sweep(model, evidence.runs, batch_sizes=()))
            for model in CLASSIFIERS
            if model not in told
        ],
    )  # fmt: skip


def _case(curve: Curve, found: Sequence[Operator]) -> Case:
    long = [operator for operator in found if operator.share >= LONG and operator.few_operations]
    row = {
        "batch": max(curve.points),
        "longest of them": f"{long[0].name[:60]}, {long[0].share:.1%}" if long else "none",
        "all of their kinds": f"{share_of_few(found):.1%}",
    }
    return Case(curve.label, bool(long), row)
