"""Observation 11: feature maps dominate memory."""

from tbd.analysis.evidence import Evidence, percent
from tbd.analysis.finding import Case, Finding, Missing, of_all, rows, summary
from tbd.analysis.missing import sweep
from tbd.analysis.pictures import bars
from tbd.analysis.suite import SUITE

CLAIM = "Feature maps dominate the memory of training."
PAPER = "From its abstract: feature maps take 70 to 90 % of training memory, of the five structures named below."
METRIC = "memory/feature_maps_share_of_structures"
HALF = 0.5
CRITERION = (
    "For every model, framework and setting, at its largest batch: feature maps take more than half of weights, weight "
    "gradients, optimizer state, feature maps and workspace together, at the moment when memory is highest."
)


def finding(evidence: Evidence) -> Finding:
    largest = [(curve, found) for curve in evidence.single if (found := curve.largest(METRIC))]
    cases = [
        Case(curve.label, share.value > HALF, {"batch": size, "of the five structures": percent(share)})
        for curve, (size, share) in largest
    ]
    shares = [(curve.label, 100 * share.value) for curve, (_, share) in largest]
    told = {curve.model for curve, _ in largest}
    return Finding(
        11, CLAIM, PAPER, CRITERION, of_all(cases), summary(cases, "No run has recorded its memory."), rows(cases),
        bars("Feature maps at the largest batch", "% of the five structures", shares, 100 * HALF),
        [
            Missing(f"{model} with its memory", sweep(model, evidence.runs, batch_sizes=()))
            for model in SUITE
            if model not in told
        ],
    )  # fmt: skip
