"""Observation 5: GPU compute utilisation is low for LSTM models."""

from tbd.analysis.evidence import Evidence, percent
from tbd.analysis.finding import Case, Finding, of_all, rows, summary
from tbd.analysis.observations import families
from tbd.analysis.pictures import bars
from tbd.analysis.suite import CLASSIFIERS, LSTM

CLAIM = "GPU compute utilisation is low for LSTM models."
METRIC = "gpu_compute_utilization"
CRITERION = (
    "In every framework and place that has both: kernels of the LSTM model, at its largest batch, are active for a "
    "smaller share of the time than those of each image classifier at its own."
)


def finding(evidence: Evidence) -> Finding:
    found = families.pairs(evidence.gpu, LSTM, lambda _: METRIC)
    cases = [
        Case(
            pair.curve.label,
            all(pair.figure.value < other.value for other in pair.classifiers.values()),
            {
                "kernels active": percent(pair.figure),
                **{model: percent(pair.classifiers.get(model)) for model in CLASSIFIERS},
            },
        )
        for pair in found
    ]
    shares = [
        (curve.label, 100 * largest[1].value)
        for curve in evidence.gpu
        if curve.model in (*LSTM, *CLASSIFIERS) and (largest := curve.largest(METRIC))
    ]
    return Finding(
        5, CLAIM, "", CRITERION, of_all(cases),
        summary(cases, "No LSTM model has been run on a GPU beside an image classifier."), rows(cases),
        bars("GPU compute utilisation at the largest batch", "%", shares),
        families.missing(evidence, LSTM, found, on="single_gpu"),
    )  # fmt: skip
