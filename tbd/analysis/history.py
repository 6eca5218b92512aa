"""How one configuration's throughput went over framework versions and time: the levels, and what changed with them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from packaging.version import InvalidVersion, Version

from tbd.analysis import differing
from tbd.analysis.runs import Run
from tbd.measure import difference
from tbd.measure.changes import change_points
from tbd.measure.difference import Difference
from tbd.measure.events import Absent


@dataclass(frozen=True)
class Change:
    """A step in the level: `at` is the index of the first run after it, `name` what else changed there."""

    at: int
    name: str
    change: Difference


@dataclass(frozen=True)
class History:
    """Runs of one configuration that have a throughput, by framework version, then by time."""

    runs: Sequence[Run]
    changes: Sequence[Change]


def of_runs(runs: Sequence[Run]) -> History:
    """The history of runs of one configuration."""
    ordered = sorted((run for run in runs if run.metrics.get("throughput", 0) > 0), key=_order)
    rates = [run.metrics["throughput"] for run in ordered]
    points = change_points(np.log(rates)) if len(rates) > 1 else []
    edges = [0, *points, len(rates)]
    changes = []
    for begin, at, end in zip(edges, edges[1:], edges[2:], strict=False):
        try:
            step = difference.of_values(rates[begin:at], rates[at:end])
        except Absent:
            continue
        changes.append(Change(at, named(ordered[at - 1], ordered[at]), step))
    return History(ordered, changes)


def version(run: Run) -> str:
    return run.tags.get("framework_version", "")


def named(before: Run, after: Run) -> str:
    """What changed between two neighbours: the framework's version, else the rest that is known to differ."""
    if version(before) != version(after):
        return f"{after.framework} {version(before) or '?'} to {version(after) or '?'}"
    found = differing.between([[before], [after]])
    keys = [row for kind in ("environment", "code", "hardware") for row in found.get(kind, [])]
    if not keys:
        return "nothing that is recorded changed"
    shown = ", ".join(f"{row.key} {row.values[0] or 'none'} to {row.values[1] or 'none'}" for row in keys[:2])
    return shown + (f" and {len(keys) - 2} more" if len(keys) > 2 else "")


def _order(run: Run) -> tuple[bool, Version, float]:
    """Versions by their own rules; what is none comes first."""
    try:
        return True, Version(version(run)), run.start
    except InvalidVersion:
        return False, Version("0"), run.start
