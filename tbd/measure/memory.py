"""Where the memory of a training step went, from memory.json (docs/memory.md). MB are 10^6 bytes.

The allocator's peak is the truth; the recorded buffers say what was alive then. What they don't account for is shown,
and goes into `other`, so that the categories sum to the allocator's peak.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tbd.measure.events import Absent, Array, Model
from tbd.measure.jsonl import read_object

CATEGORIES = (
    "weights", "weight_gradients", "optimizer_state", "feature_maps", "workspace", "input", "communication", "other",
)  # fmt: skip
# The structures that the TBD paper sums; its shares of feature maps leave out everything else.
STRUCTURES = ("weights", "weight_gradients", "optimizer_state", "feature_maps", "workspace")
OF_PARAMETERS = ("weights", "weight_gradients", "optimizer_state")  # these bear the parameters' names
SCHEMA = 1
MAX_UNTRACKED_SHARE = 0.01  # of the allocator's peak
TIMELINE_POINTS = 1000
LARGEST = 20


@dataclass(frozen=True)
class Record:
    """memory.json as columns: one value a buffer. `died` is inf for what outlives the step."""

    size: Array
    born: Array
    died: Array
    category: NDArray[np.int64]  # index into CATEGORIES
    names: list[str]
    layers: list[str]  # "" where a buffer is of no layer, or it is not known
    begin: float
    end: float
    peak_bytes: float | None
    peak_at: float | None  # where the allocator's peak was; None where only its height is known
    slack_bytes: float
    method: str
    allocator: str
    phases: dict[str, tuple[float, float]]

    def phase(self, position: float) -> str:
        """The phase that a position of the step lies in; "" where phases are not known."""
        return next((name for name, (begin, end) in self.phases.items() if begin <= position < end), "")


def read(path: Path) -> Record:
    """Raises Absent where the file is missing, torn or of another form."""
    content = read_object(path)
    if not content:
        raise Absent(f"{path.name} is missing or damaged")
    if content.get("schema") != SCHEMA:
        raise Absent(f"{path.name} has schema {content.get('schema')!r}; this version reads schema {SCHEMA}")
    try:
        return _record(content)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Absent(f"{path.name} is not as docs/memory.md says: {error!r}") from error


def _record(content: dict[str, Any]) -> Record:
    buffers = content["buffers"]
    index = {name: number for number, name in enumerate(CATEGORIES)}
    begin, end = content["steps"]
    allocator = content.get("allocator") or {}
    peak, peak_at = allocator.get("peak_bytes"), allocator.get("peak_at")
    record = Record(
        size=np.array([b["bytes"] for b in buffers], dtype=np.float64),
        born=np.array([b["born"] for b in buffers], dtype=np.float64),
        died=np.array([math.inf if b["died"] is None else b["died"] for b in buffers], dtype=np.float64),
        category=np.array([index[b["category"]] for b in buffers], dtype=np.int64),
        names=[str(b.get("name") or "") for b in buffers],
        layers=[_layer(b) for b in buffers],
        begin=float(begin),
        end=float(end),
        peak_bytes=None if peak is None else float(peak),
        peak_at=None if peak_at is None else float(peak_at),
        slack_bytes=float(allocator.get("slack_bytes") or 0),
        method=str(content.get("method", "")),
        allocator=str(allocator.get("name", "")),
        phases={str(name): (float(a), float(b)) for name, (a, b) in (content.get("phases") or {}).items()},
    )
    if not np.isfinite(record.size).all() or (record.size < 0).any() or not np.isfinite(record.born).all():
        raise ValueError("a buffer's bytes or birth is not a number")
    if np.isnan(record.died).any() or (record.died < record.born).any():
        raise ValueError("a buffer died before it was born")
    return record


def _layer(buffer: dict[str, Any]) -> str:
    """As the worker says; of what bears a parameter's name, its layer: the name without its last part."""
    parameter = str(buffer.get("name") or "").split(" ")[0]  # optimizer state: NAME, or NAME and what it is of it
    own = parameter.rpartition(".")[0] or parameter if buffer["category"] in OF_PARAMETERS else ""
    return str(buffer.get("layer") or own)


def timeline(record: Record) -> tuple[Array, Array]:
    """(positions, live bytes (positions, categories)): the memory alive from each position on, during the step.

    A buffer is alive at t where born <= t < died. The first position is the step's begin. O(n log n) in the buffers.
    """
    births, deaths = record.born, record.died
    ended = np.isfinite(deaths)
    at = np.concatenate((births, deaths[ended]))
    change = np.concatenate((record.size, -record.size[ended]))
    category = np.concatenate((record.category, record.category[ended]))
    # what happened before the step is its starting point
    positions, group = np.unique(np.concatenate((np.maximum(at, record.begin), [record.begin])), return_inverse=True)
    changes = np.zeros((len(positions), len(CATEGORIES)))
    np.add.at(changes, (group[:-1], category), change)
    within = positions <= record.end
    return positions[within], np.cumsum(changes, axis=0)[within]


@dataclass(frozen=True)
class Breakdown:
    """`tracked_bytes`: what the buffers sum to at `position`, the peak; by category in `live`."""

    position: float
    live: dict[str, float]
    tracked_bytes: float
    untracked_bytes: float | None


def breakdown(record: Record) -> Breakdown:
    """The live set at the allocator's peak, by category, and what that peak has beyond it.

    Where the record does not say when the allocator's peak was, it is taken to be when the buffers' own was.

    untracked = allocator's peak - slack - tracked. Slack and untracked bytes are added to `other`, so that the
    categories sum to the allocator's peak; where the buffers sum to more than the peak, nothing is taken away from any.
    """
    positions, live = timeline(record)
    if not live.sum():
        raise Absent("no buffer was recorded")
    if record.peak_at is None:
        at = int(live.sum(axis=1).argmax())
    else:
        at = max(0, int(np.searchsorted(positions, record.peak_at, side="right")) - 1)
    by_category = dict(zip(CATEGORIES, (float(n) for n in live[at]), strict=True))
    tracked = float(live[at].sum())
    untracked = None
    if record.peak_bytes is not None:
        untracked = record.peak_bytes - record.slack_bytes - tracked
        by_category["other"] += max(0.0, record.peak_bytes - tracked)
    return Breakdown(float(positions[at]), by_category, tracked, untracked)


def feature_maps_highest_mb(record: Record) -> float:
    """The most that feature maps alone hold at any moment of the step, in MB.

    What they hold at the peak of all depends on which of two near-equal peaks wins: one at the end of the forward pass,
    full of them, or one late in the backward pass, when they are gone.
    """
    _, live = timeline(record)
    return float(live[:, CATEGORIES.index("feature_maps")].max()) / 1e6


def figures(record: Record, found: Breakdown) -> dict[str, float]:
    """memory/peak_mb (the allocator's), memory/<category>_mb at the peak, what of `other` is no
    buffer (memory/untracked_mb, memory/slack_mb), and two shares.

    memory/feature_maps_share = feature_maps / the allocator's peak.
    memory/feature_maps_share_of_structures = feature_maps / (weights + weight_gradients + optimizer_state +
    feature_maps + workspace), the TBD paper's denominator.
    What needs the allocator's peak is left out where that is not known.
    """
    metrics = {f"memory/{name}_mb": size / 1e6 for name, size in found.live.items()}
    structures = sum(found.live[name] for name in STRUCTURES)
    if structures:
        metrics["memory/feature_maps_share_of_structures"] = found.live["feature_maps"] / structures
    if record.peak_bytes and found.untracked_bytes is not None:
        metrics["memory/peak_mb"] = record.peak_bytes / 1e6
        metrics["memory/untracked_mb"] = found.untracked_bytes / 1e6
        metrics["memory/slack_mb"] = record.slack_bytes / 1e6
        metrics["memory/feature_maps_share"] = found.live["feature_maps"] / record.peak_bytes
    return metrics


def warnings(record: Record, found: Breakdown, model: Model | None) -> list[str]:
    """What is suspicious: buffers that don't add up to the allocator's peak, or weights of the wrong size."""
    told = []
    if record.peak_bytes and found.untracked_bytes is not None:
        share = found.untracked_bytes / record.peak_bytes
        if abs(share) > MAX_UNTRACKED_SHARE:
            relation = "less" if share > 0 else "more"
            and_slack = " and the allocator's slack" if record.slack_bytes else ""
            told.append(
                f"the recorded buffers{and_slack} sum to {abs(share):.1%} {relation} than the allocator's peak memory"
            )
    for name in ("weights", "optimizer_state"):
        expected = getattr(model, f"{name}_bytes", None)
        if expected is not None and expected != found.live[name]:
            told.append(f"{name} take {found.live[name]:.0f} bytes in memory, by the specification {expected:.0f}")
    return told


def outside_allocator_mb(rss_peak_bytes: float | None, peak_bytes: float | None) -> float:
    """(the process's highest resident memory in the warm steps - the allocator's peak) / 10^6.

    Code, libraries, caches, unused pools. Only where the allocator's memory is the host's.
    Raises Absent where either is unknown, or where the allocator counts memory that never became resident.
    """
    if rss_peak_bytes is None:
        raise Absent("the worker's highest resident memory in the warm steps is not known")
    if peak_bytes is None:
        raise Absent("the framework's allocator told no peak")
    if rss_peak_bytes < peak_bytes:
        raise Absent("the allocator's peak is above the resident memory: some of it was never touched")
    return (rss_peak_bytes - peak_bytes) / 1e6


def timeline_table(record: Record) -> list[dict[str, float]]:
    """Live MB by category along the step, at most about TIMELINE_POINTS rows; the highest of each stretch is kept."""
    positions, live = timeline(record)
    total = live.sum(axis=1)
    edges = np.unique(np.linspace(0, len(positions), min(TIMELINE_POINTS, len(positions)) + 1).astype(int))
    rows = [first + int(total[first:after].argmax()) for first, after in zip(edges[:-1], edges[1:], strict=True)]
    return [
        {"position": float(positions[row]), **dict(zip(CATEGORIES, (live[row] / 1e6).tolist(), strict=True))}
        for row in rows
    ]


def largest_table(record: Record, position: float) -> list[dict[str, Any]]:
    """The largest buffers alive at `position`: name, layer, category, MB."""
    alive = np.flatnonzero((record.born <= position) & (position < record.died))
    largest = alive[np.argsort(-record.size[alive], kind="stable")][:LARGEST]
    return [
        {
            "name": record.names[number],
            "layer": record.layers[number],
            "category": CATEGORIES[record.category[number]],
            "mb": float(record.size[number]) / 1e6,
        }
        for number in largest
    ]


def layers_table(record: Record) -> list[dict[str, Any]]:
    """A row a layer, the one with the most bytes first: what it holds of weights, their gradients, optimizer state and
    feature maps, in MB, each category at the moment of the step when there is most of it in all layers together.

    "" is the row of what is of no layer, or whose layer the framework doesn't tell.
    """
    positions, live = timeline(record)
    named = (*OF_PARAMETERS, "feature_maps")
    found: dict[str, dict[str, float]] = {}
    for category in named:
        index = CATEGORIES.index(category)
        at = positions[int(live[:, index].argmax())]
        alive = (record.category == index) & (record.born <= at) & (at < record.died)
        for number in np.flatnonzero(alive):
            row = found.setdefault(record.layers[number], dict.fromkeys(named, 0.0))
            row[category] += float(record.size[number]) / 1e6
    rows = [{"layer": layer, **{f"{name}_mb": row[name] for name in named}} for layer, row in found.items()]
    return sorted(rows, key=lambda row: -sum(value for name, value in row.items() if name != "layer"))
