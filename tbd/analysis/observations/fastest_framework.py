"""Observation 3: which framework is fastest depends on the application."""

from collections import defaultdict

from tbd.analysis.curves import Curve
from tbd.analysis.evidence import Evidence, shown, times
from tbd.analysis.finding import FAILS, HOLDS, UNKNOWN, Case, Finding, Missing
from tbd.analysis.missing import frameworks, hardware, sweep
from tbd.analysis.pictures import bars, unit_of
from tbd.analysis.suite import SUITE
from tbd.analysis.values import Value, above, ratio

CLAIM = "Which framework is fastest depends on the application."
CRITERION = (
    "For each model, at the largest batch that most frameworks share in the same size, precision and hardware, each "
    "framework's fastest way of compiling is taken; the first must be ahead of the second beyond the intervals. The "
    "claim holds where two models have different winners, and fails where one framework wins them all."
)
OF_A_FRAMEWORK = ("framework.", "framework_version", "compile")
Rates = dict[str, tuple[Value, Curve]]


def finding(evidence: Evidence) -> Finding:
    races = _races(evidence)
    cases = [_case(model, size, rates) for model, (size, rates) in races.items()]
    winners = {case.row["fastest"] for case in cases if case.holds}
    undecided = [case.name for case in cases if not case.holds]
    verdict, text = UNKNOWN, "It takes two models, each in two frameworks at the same batch and settings."
    if len(winners) > 1:
        verdict, text = HOLDS, f"{' and '.join(sorted(winners))} are each the fastest in some model."
    elif len(cases) > 1 and winners:
        alone = not undecided
        verdict = FAILS if alone else UNKNOWN
        text = f"{next(iter(winners))} is the fastest in every model that can be told."
    if undecided:
        text += f" Too close to tell, by their intervals: {', '.join(undecided)}."
    best = [
        (f"{model} {name}", value.value / max(other.value for other, _ in rates.values()))
        for model, (_, rates) in races.items()
        for name, (value, _) in rates.items()
    ]
    return Finding(
        3, CLAIM, "", CRITERION, verdict, text, [{"model": case.name, **case.row} for case in cases],
        bars("Each framework's throughput, of the model's fastest", "of the fastest", best),
        [Missing(f"{model} in two frameworks", _command(model, evidence)) for model in SUITE if model not in races],
    )  # fmt: skip


def _command(model: str, evidence: Evidence) -> str:
    own = frameworks(model, evidence.runs, hardware(evidence.runs))
    return sweep(model, evidence.runs, among=[*own, *(n for n in ("pytorch", "tensorflow", "jax") if n not in own)][:3])


def _races(evidence: Evidence) -> dict[str, tuple[int, Rates]]:
    """{model: (batch, {framework: (its best throughput, the curve)})} of models in two frameworks or more."""
    tracks: dict[tuple[str, int, tuple[tuple[str, str], ...]], Rates] = defaultdict(dict)
    for curve in evidence.single:
        same = tuple(sorted(item for item in curve.settings.items() if not item[0].startswith(OF_A_FRAMEWORK)))
        for size, value in curve.values("throughput").items():
            rates = tracks[curve.model, size, same]
            if curve.framework not in rates or value.value > rates[curve.framework][0].value:
                rates[curve.framework] = value, curve
    found: dict[str, tuple[int, Rates]] = {}
    for (model, size, _), rates in sorted(tracks.items(), key=lambda track: (len(track[1]), track[0][1])):
        if len(rates) > 1:
            found[model] = size, rates
    return dict(sorted(found.items()))


def _case(model: str, size: int, rates: Rates) -> Case:
    ordered = sorted(rates.items(), key=lambda item: -item[1][0].value)
    (first, (best, curve)), (second, (next_best, _)) = ordered[:2]
    lead = ratio(best, next_best)
    all_of_them = "; ".join(f"{name} {shown(value)}" for name, (value, _) in ordered)
    row = {
        "batch": size, "fastest": first, "ahead of": second, "by": times(lead),
        unit_of(curve, "throughput"): all_of_them,
    }  # fmt: skip
    row = {"throughput" if "/s" in key else key: text for key, text in row.items()}
    return Case(model, above(lead, 1) or None, row)
