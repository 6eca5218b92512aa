"""The traced steps' time by phase, layer, operator and kernel.

An event's time is, on a GPU, its duration; where nothing ran on a GPU, an operator's self time (trace.self_times_us).
What runs at once on several streams or threads counts each for itself.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from tbd.measure.events import Absent
from tbd.measure.places import PHASES
from tbd.measure.trace import OPERATORS, Event, self_times_us

LONGEST = 30
Timed = list[tuple[Event, float]]


def timed(events: Sequence[Event]) -> Timed:
    """What computes, copies and communicates on the run's device, with each event's time in microseconds."""
    on_gpu = [(event, event.end - event.begin) for event in events if event.on_gpu]
    if on_gpu:
        return on_gpu
    on_cpu = [event for event in events if event.category == OPERATORS]
    return list(zip(on_cpu, self_times_us(on_cpu), strict=True))


def phase_share(found: Timed, phase: str) -> float:
    """The phase's part of the time of all events whose phase is known. Raises Absent where none is of it."""
    times = _summed(found, lambda event: event.phase)
    times.pop("", None)
    whole = sum(times.values())
    if not whole:
        raise Absent("the trace doesn't tell forward, backward and update apart")
    if phase not in times:
        raise Absent(f"the trace doesn't tell what is of the {phase}")
    return times[phase] / whole


def by_layer(found: Timed, steps: int) -> list[dict[str, Any]]:
    """A row a layer, the longest first: its time a step in ms, in all and by phase. "" is what is of no known layer."""
    times: dict[str, dict[str, float]] = {}
    for event, time in found:
        row = times.setdefault(event.layer, dict.fromkeys((*PHASES, ""), 0.0))
        row[event.phase] += time / steps / 1e3
    rows: list[dict[str, Any]] = [
        {"layer": layer, "ms": sum(row.values()), **{f"{phase}_ms": row[phase] for phase in PHASES}}
        for layer, row in times.items()
    ]
    return sorted(rows, key=lambda row: (-row["ms"], row["layer"]))


def longest(found: Timed, steps: int) -> list[dict[str, Any]]:
    """The LONGEST kinds of work by their time in all: name, operator that asked for it, layer, phase, calls and ms."""
    groups: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    for event, time in found:
        groups[event.name, event.operator, event.layer, event.phase].append(time)
    whole = sum(time for _, time in found)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "operator": operator,
            "layer": layer,
            "phase": phase,
            "count_per_step": len(times) / steps,
            "ms_per_step": sum(times) / steps / 1e3,
            "share": sum(times) / whole if whole else 0.0,
        }
        for (name, operator, layer, phase), times in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row["ms_per_step"], row["name"]))[:LONGEST]


def by_operator(found: Timed, steps: int) -> list[dict[str, Any]]:
    """A row an operator, the longest first: the time a step of what it had run on the GPU, and how many kernels."""
    times = _summed(found, lambda event: event.operator)
    counts: dict[str, int] = defaultdict(int)
    for event, _ in found:
        counts[event.operator] += 1
    rows = [
        {"operator": name, "ms_per_step": time / steps / 1e3, "kernels_per_step": counts[name] / steps}
        for name, time in times.items()
    ]
    return sorted(rows, key=lambda row: (-row["ms_per_step"], row["operator"]))


def _summed(found: Timed, key: Callable[[Event], str]) -> dict[str, float]:
    times: dict[str, float] = defaultdict(float)
    for event, time in found:
        times[key(event)] += time
    return dict(times)
