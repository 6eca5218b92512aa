"""Observation 9: CPU utilisation is low beside a GPU, and highest in reinforcement learning."""

from tbd.analysis.evidence import Evidence, percent
from tbd.analysis.finding import FAILS, HOLDS, UNKNOWN, Finding, Missing
from tbd.analysis.missing import sweep
from tbd.analysis.pictures import bars
from tbd.analysis.suite import SUITE
from tbd.analysis.values import Value, both

CLAIM = "CPU utilisation is low, mostly below 15 %, and highest for A3C."
PAPER = "Recalled: the 15 %."
LOW = 0.15
METRIC = "cpu_utilization"
CRITERION = (
    "Of runs on a GPU, each model's highest CPU utilisation: more than half of the models stay below 15 %, and A3C's "
    "is the highest."
)


def finding(evidence: Evidence) -> Finding:
    highest: dict[str, tuple[Value, str]] = {}
    for curve in evidence.gpu:
        for value in curve.values(METRIC).values():
            if curve.model not in highest or value.value > highest[curve.model][0].value:
                highest[curve.model] = value, curve.label
    values = {model: value.value for model, (value, _) in highest.items()}
    low = sum(value < LOW for value in values.values())
    mostly = low > len(values) / 2 if len(values) > 1 else None
    first = max(values, key=lambda model: values[model]) if "a3c" in values and len(values) > 1 else None
    told = both(mostly, first == "a3c" if first else None)
    text = (
        f"{low} of {len(values)} models stay below 15 %; " if values else "No run on a GPU says how busy the CPU was."
    )
    if values:
        text += f"{first} has the highest." if first else "without a3c beside others, which is highest can't be told."
    shares = [(model, 100 * share) for model, share in values.items()]
    return Finding(
        9, CLAIM, PAPER, CRITERION, {True: HOLDS, False: FAILS, None: UNKNOWN}[told], text,
        [{"model": model, "highest": percent(value), "in": label} for model, (value, label) in highest.items()],
        bars("Highest CPU utilisation of each model on a GPU", "%", shares, 100 * LOW),
        [
            Missing(f"{model} on a GPU", sweep(model, evidence.runs, on="single_gpu", batch_sizes=()))
            for model in SUITE
            if model not in values
        ],
    )  # fmt: skip
