"""Judges new runs against a baseline: a regression, none, or too noisy to tell, and then how many repeats would tell.

A regression is a loss that is larger than the tolerance with 97.5 % confidence (the 95 % interval lies wholly beyond
it), "no regression" one that is smaller with as much. So a change within the tolerance raises a false alarm in at most
2.5 % of cases, right at the tolerance, and far more rarely where nothing changed.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tbd.analysis.comparison import Side, better, samples
from tbd.analysis.differing import configuration
from tbd.analysis.runs import Run
from tbd.measure import difference
from tbd.measure.difference import Difference
from tbd.measure.throughput import MIN_REPEATS

OK, REGRESSION, UNKNOWN = "ok", "regression", "can't tell"
METRICS = ("throughput", "memory/peak_mb", "mfu", "gpu_compute_utilization", "energy_j_per_item")
COUNTED = re.compile(r"memory/.*")  # counts of one recorded step, not samples of a noisy time
KNOWN = 30  # values of each side that know their spread to 9 % (1 / sqrt(2 (2 KNOWN - 2)))

# what repeats of one thing may differ in
REPEATED = re.compile(r"seed|measure\.(repeats|timeout_s)|framework\.(python|env_manager)|data\.(root|python)")


@dataclass(frozen=True)
class Verdict:
    """One metric of one configuration. `more`: how many more repeats baseline and candidate need, where that is known,
    and `what` a repeat is: "runs" or "timing passes"."""

    metric: str
    verdict: str
    baseline: float | None
    candidate: float | None
    change: Difference | None
    reason: str
    what: str = ""
    more: tuple[int, int] | None = None


@dataclass(frozen=True)
class Cell:
    """One configuration: its runs on both sides and what they say."""

    baseline: Side
    candidate: Side
    verdicts: list[Verdict]


def judge(baseline: Sequence[Run], candidates: Sequence[Run], metrics: Sequence[str], tolerance: float) -> list[Cell]:
    """Every configuration of the candidates that has a baseline. `tolerance`: a share."""
    cells = []
    of_baseline = by_configuration(baseline)
    for which, runs in by_configuration(candidates).items():
        base = of_baseline.get(which, [])
        if base:
            sides = Side("baseline", base), Side("candidate", runs)
            verdicts = [verdict(*sides, metric, tolerance) for metric in metrics]
            cells.append(Cell(*sides, [one for one in verdicts if one is not None]))
    return cells


def by_configuration(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs that are repeats of each other, by `key`."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return found


def key(run: Run) -> str:
    """What the repeats of a run have in common: its configuration, as text."""
    return repr(sorted((name, value) for name, value in configuration(run).items() if not REPEATED.fullmatch(name)))


def verdict(baseline: Side, candidate: Side, metric: str, tolerance: float) -> Verdict | None:
    """What the data say of one metric; None where neither side has it."""
    values = first, second = baseline.value(metric), candidate.value(metric)
    if first is None and second is None:
        return None
    if first is None or second is None:
        side, name = (baseline, "baseline") if first is None else (candidate, "candidate")
        return Verdict(metric, UNKNOWN, *values, None, f"the {name} has none: {_why_none(side, metric)}")
    if first <= 0 or second <= 0:
        return Verdict(metric, UNKNOWN, *values, None, "a value of 0 has no relative change")
    change = second / first - 1
    found = samples(baseline, candidate, metric)
    if found is None:
        return _by_few(baseline, candidate, metric, tolerance, change)
    decided, interval, more = decide(found.a, found.b, better(metric), tolerance, found.what, change)
    spread = difference.spreads(found.a, found.b)
    reason = interval.source + (f": they spread by {100 * spread:.1f} %" if decided == UNKNOWN else "")
    return Verdict(metric, decided, *values, interval, reason, found.what, more)


def decide(
    baseline: Sequence[float],
    candidate: Sequence[float],
    direction: int,
    tolerance: float,
    what: str = "runs",
    change: float | None = None,
) -> tuple[str, Difference, tuple[int, int] | None]:
    """(the verdict, the change with its interval, how many more values each side needs) of values that have a spread.

    `direction`: 1 where more is better, -1 where less is. `what`, `change`: as for difference.of_values.
    """
    interval = difference.of_values(baseline, candidate, what, alike=True, change=change)
    assert interval.low is not None and interval.high is not None
    least, most = (-interval.high, -interval.low) if direction > 0 else (interval.low, interval.high)
    if least > tolerance:
        return REGRESSION, interval, None
    if most < tolerance:
        return OK, interval, None
    spread = difference.spreads(baseline, candidate)
    return UNKNOWN, interval, more_repeats(spread, len(baseline), len(candidate), tolerance)


def more_repeats(spread: float, baseline: int, candidate: int, tolerance: float) -> tuple[int, int] | None:
    """How many more repeats each side needs: first to tell a loss of one and a half tolerances from one, with a power
    of 90 %; where they have those already, and the loss is nearer to the tolerance, to tell one and a quarter, ..."""
    margin = tolerance / 2
    more: tuple[int, int] | None = (0, 0)
    while more == (0, 0):
        more = difference.more_repeats(spread, baseline, candidate, margin)
        margin /= 2
    known = max(0, KNOWN - baseline), max(0, KNOWN - candidate)
    return known if more is None and any(known) else more


def exit_code(cells: Iterable[Cell]) -> int:
    """1 where anything regressed, else 3 where the data can't tell of anything, else 0."""
    verdicts = {one.verdict for cell in cells for one in cell.verdicts}
    return 1 if REGRESSION in verdicts else 3 if UNKNOWN in verdicts else 0


def _by_few(baseline: Side, candidate: Side, metric: str, tolerance: float, change: float) -> Verdict:
    """The verdict where too few values are there to have a spread."""
    values = baseline.value(metric), candidate.value(metric)
    if COUNTED.fullmatch(metric):
        loss = -change if better(metric) > 0 else change
        reason = "one count of each" if len(baseline.runs) == len(candidate.runs) == 1 else "counts"
        return Verdict(
            metric, REGRESSION if loss > tolerance else OK, *values, Difference(change, None, None, reason), reason
        )
    passes = [len(side.of_passes(metric)) for side in (baseline, candidate)]
    what = "timing passes" if all(passes) else "runs"
    have = passes if all(passes) else [len(side.of_runs(metric)) for side in (baseline, candidate)]
    more = max(0, MIN_REPEATS - have[0]), max(0, MIN_REPEATS - have[1])
    reason = f"a verdict needs {MIN_REPEATS} {what} of each, there are {have[0]} and {have[1]}"
    return Verdict(metric, UNKNOWN, *values, Difference(change, None, None, reason), reason, what, more)


def _why_none(side: Side, metric: str) -> str:
    """The reason that a run gives."""
    run = side.runs[-1]
    return run.figures.absent.get(metric) or f"it ended as {run.status}"
