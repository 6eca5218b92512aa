"""Compares runs, or groups of runs that are repeats of one another: what they give, how they differ, and why."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tbd.analysis import differing, moved
from tbd.analysis.runs import Run
from tbd.measure import difference, steps
from tbd.measure.difference import Difference, Windows
from tbd.measure.events import Absent
from tbd.measure.metrics import METRICS, Metric, find
from tbd.measure.throughput import MIN_REPEATS

RATES = ("throughput", "achieved_tflops", "mfu")  # proportional to a timing pass's own throughput
PERCENTILE = re.compile(r"step_time_p(\d+)_ms")
NOT_COMPARED = re.compile(
    r"throughput_ci_.*|throughput_repeats_.*|steady|loss_.*|skipped_updates|warmup_steps|peak_age_s|.*_(low|high)"
)
MORE_IS_BETTER = re.compile(
    r"throughput.*|mfu|achieved_tflops|peak_tflops_measured|.*_utilization|sm_occupancy|scaling_.*"
)
LESS_IS_BETTER = re.compile(
    r"step_time_.*|startup_.*|memory/.*_mb|energy_.*|power_.*|.*_wait_share|copy_share|communi.*"
)


@dataclass(frozen=True)
class Side:
    """The runs that one word of the command line means: one run, or several that did the same."""

    word: str
    runs: Sequence[Run]

    @property
    def label(self) -> str:
        """What the side is called: its run's name and the beginning of its id, or how many runs there are."""
        names = list(dict.fromkeys(run.name for run in self.runs))
        name = names[0] if len(names) == 1 else self.word
        return f"{name} ({len(self.runs)} runs)" if len(self.runs) > 1 else f"{name} {self.runs[0].id[:8]}"

    @property
    def units(self) -> set[str]:
        return {run.unit for run in self.runs if "throughput" in run.metrics}

    def value(self, metric: str) -> float | None:
        """The metric: the mean over those runs that have it."""
        values = self.of_runs(metric)
        return math.fsum(values) / len(values) if values else None

    @property
    def typical(self) -> Run:
        """The run whose throughput is nearest to the side's: its operators and memory stand for the side's."""
        middle = self.value("throughput") or 0.0
        return min(self.runs, key=lambda run: abs(run.metrics.get("throughput", math.inf) - middle))

    def of_runs(self, metric: str) -> list[float]:
        """Each run's value of the metric."""
        return [run.metrics[metric] for run in self.runs if metric in run.metrics]

    def of_passes(self, metric: str) -> list[float]:
        """Each timing pass's own value of the metric, of all runs; [] where it is not a pass's."""
        found: list[float] = []
        for run in self.runs:
            make = _of_pass(run, metric)
            try:
                found += [make(timing) for timing in run.timings] if make and metric in run.metrics else []
            except Absent:
                continue
        return found

    @cached_property
    def windows(self) -> Windows:
        """All timed steps. Raises Absent where a run has none."""
        timings = [timing for run in self.runs for timing in run.timings]
        items, seconds = (np.concatenate([getattr(one, key) for one in timings]) for key in ("items", "seconds"))
        return Windows(items, seconds, sum(timing.window_s for timing in timings))


@dataclass(frozen=True)
class Row:
    """One figure: each side's value, None where it has none, and each later side's change against the first."""

    metric: str
    values: list[float | None]
    changes: list[Difference | None]

    @property
    def about(self) -> Metric:
        return find(self.metric)


@dataclass
class Comparison:
    """`moved`: of each later side against the first, what moved. `differing`: by kind, what the sides don't share."""

    sides: list[Side]
    rows: list[Row]
    differing: dict[str, list[differing.Row]]
    moved: list[moved.Moved]
    warnings: list[str] = field(default_factory=list)

    @property
    def unit(self) -> str:
        return next((unit for side in self.sides for unit in sorted(side.units)), "items")

    def to_json(self) -> dict[str, Any]:
        """All of it, in plain objects."""
        runs = ("id", "name", "spool_id", "run_id", "status", "start")
        return {
            "sides": [
                {
                    "label": side.label,
                    "word": side.word,
                    "runs": [{k: getattr(run, k) for k in runs} for run in side.runs],
                }
                for side in self.sides
            ],
            "unit": self.unit,
            "figures": [
                {
                    "metric": row.metric,
                    "unit": row.about.unit_shown(self.unit) if row.about.unit != "share" else "share",
                    "values": row.values,
                    "changes": [change._asdict() if change else None for change in row.changes],
                }
                for row in self.rows
            ],
            "differing": {kind: [asdict(row) for row in rows] for kind, rows in self.differing.items()},
            "moved": [asdict(one) for one in self.moved],
            "warnings": self.warnings,
        }


def compare(sides: Sequence[Side]) -> Comparison:
    """The first side against each of the others."""
    names = dict.fromkeys([*METRICS, *(name for side in sides for run in side.runs for name in run.metrics)])
    rows = [_row(name, sides) for name in names if not NOT_COMPARED.fullmatch(name)]
    return Comparison(
        sides=list(sides),
        rows=[row for row in rows if any(value is not None for value in row.values)],
        differing=differing.between([side.runs for side in sides]),
        moved=[moved.between(sides[0].typical, side.typical) for side in sides[1:]],
        warnings=[*_warnings(sides), *_starts(rows)],
    )


def between(a: Side, b: Side, metric: str, alike: bool = False) -> Difference | None:
    """How b's metric differs from a's; None where either has none, or it isn't a positive number.

    The interval comes from `samples`; where there are too few, that of throughput from the steps within the windows.
    `alike`: take both sides to spread alike, as the same thing measured twice does.
    """
    first, second = a.value(metric), b.value(metric)
    if first is None or second is None or first <= 0 or second <= 0 or _other_units(a, b, metric):
        return None
    change = second / first - 1
    try:
        found = samples(a, b, metric)
        if found:
            return difference.of_values(found.a, found.b, found.what, alike, change)
        if metric == "throughput":
            return difference.of_blocks(a.windows, b.windows)
    except Absent as reason:
        return Difference(change, None, None, str(reason))
    return Difference(change, None, None, f"one value of each: {MIN_REPEATS} runs of a side give an interval")


class Samples(NamedTuple):
    """A metric's values on both sides, each from a process of its own; `what` they are of."""

    what: str
    a: list[float]
    b: list[float]


def samples(a: Side, b: Side, metric: str) -> Samples | None:
    """The runs' own values where a side has at least MIN_REPEATS; else those of the timing passes, where both have as
    many; None where there are too few of either."""
    runs = Samples("runs", a.of_runs(metric), b.of_runs(metric))
    if max(len(runs.a), len(runs.b)) >= MIN_REPEATS and runs.a and runs.b:
        return runs
    passes = Samples("timing passes", a.of_passes(metric), b.of_passes(metric))
    return passes if min(len(passes.a), len(passes.b)) >= MIN_REPEATS else None


def better(metric: str) -> int:
    """1 where more of the metric is better, -1 where less is, 0 where neither is said."""
    return 1 if MORE_IS_BETTER.fullmatch(metric) else -1 if LESS_IS_BETTER.fullmatch(metric) else 0


def _row(metric: str, sides: Sequence[Side]) -> Row:
    changes = [between(sides[0], side, metric) for side in sides[1:]]
    return Row(metric, [side.value(metric) for side in sides], changes)


def _of_pass(run: Run, metric: str) -> "Callable[[Any], float] | None":
    """What gives a timing pass's own value of the metric; None where it has none of its own."""
    if metric in RATES:
        scale = run.metrics.get(metric, 0.0) / run.metrics.get("throughput", math.nan)
        return lambda timing: timing.rate * scale
    percentile = PERCENTILE.fullmatch(metric)
    if percentile:
        return lambda timing: steps.percentile_ms(timing.seconds, float(percentile[1]))
    return None


def _other_units(a: Side, b: Side, metric: str) -> bool:
    """Whether the metric counts different things on the two sides, such as images and tokens."""
    return metric in ("throughput", "energy_j_per_item") and len(a.units | b.units) > 1


def _starts(rows: Sequence[Row]) -> Iterable[str]:
    """That a throughput's interval is of one process of each side."""
    if any(change and change.one_start for row in rows for change in row.changes):
        yield (
            "one timing pass of a side: the same program started again may differ by more than the interval, so no "
            f"difference of throughput is called better or worse; measure.repeats={MIN_REPEATS} and more tell"
        )


def _warnings(sides: Sequence[Side]) -> Iterable[str]:
    """What whoever reads the comparison must know."""
    units = {unit for side in sides for unit in side.units}
    if len(units) > 1:
        yield f"the runs count different things ({', '.join(sorted(units))}): their throughputs can't be compared"
    for side in sides:
        for run in side.runs:
            if run.status != "ok":
                yield f"{run.name} ({run.id}) ended as {run.status}: {run.tags.get('tbd.cause', 'no cause is known')}"
            yield from (f"{run.name} ({run.id}): {text}" for text in run.figures.warnings)
        inner = differing.between([[run] for run in side.runs]).get("configuration", []) if len(side.runs) > 1 else []
        keys = [row.key for row in inner if row.key != "seed"]
        if keys:
            yield f"the {len(side.runs)} runs of {side.label} are no repeats of each other: {', '.join(keys)} differ"
