"""Operators and kernels of the traced steps, from a Chrome trace (docs/trace.md; the Trace Event Format)."""

import gzip
import json
import math
import zlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tbd.measure.events import Absent, Trace

MAX_BYTES = 512 * 2**20  # uncompressed; a trace of a few steps has a few MB, and parsing takes about six times its size
OPERATORS = "cpu_op"
KERNELS = "kernel"
COPIES = ("gpu_memcpy", "gpu_memset")
CATEGORIES = (OPERATORS, KERNELS, *COPIES)


class Event(NamedTuple):
    """A complete event. `begin` and `end` in microseconds; `lane`: its process and thread (a GPU's stream)."""

    name: str
    category: str
    begin: float
    end: float
    lane: tuple[str, str]


@dataclass
class Operator:
    name: str
    category: str
    count: int = 0
    self_us: float = 0.0


def read(path: Path, max_bytes: int = MAX_BYTES) -> list[Event]:
    """The complete events (ph "X") of the categories above. Raises Absent where the file is no whole Chrome trace."""
    try:
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if zipped else path.open("rb") as file:
            text = file.read(max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise Absent(f"{path.name} can't be read: {error}") from error
    if len(text) > max_bytes:
        raise Absent(f"{path.name} has more than {max_bytes // 2**20} MiB: lower measure.trace_steps")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Absent(f"{path.name} is no JSON: it was cut off or is no trace") from error
    events = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(events, list):
        raise Absent(f"{path.name} is no Chrome trace: it has no traceEvents")
    return [event for thing in events if (event := _event(thing)) is not None]


def _event(thing: Any) -> Event | None:
    if not isinstance(thing, dict) or thing.get("ph") != "X" or thing.get("cat") not in CATEGORIES:
        return None
    try:
        begin, duration = float(thing["ts"]), float(thing["dur"])
    except (KeyError, TypeError, ValueError):
        return None
    if not math.isfinite(begin) or not math.isfinite(duration) or duration < 0:
        return None
    lane = (str(thing.get("pid")), str(thing.get("tid")))
    return Event(str(thing.get("name", "")), thing["cat"], begin, begin + duration, lane)


def self_times_us(events: list[Event]) -> list[float]:
    """For each event, the time in which it was the innermost one of its lane: its own, without what it called.

    So the self times of one lane sum to the union of its events, even where their ends overhang by rounding.
    """
    own = [0.0] * len(events)
    lanes = defaultdict(list)
    for number, event in enumerate(events):
        lanes[event.lane].append(number)
    for numbers in lanes.values():
        numbers.sort(key=lambda n: (events[n].begin, -events[n].end))
        stack: list[int] = []
        now = -math.inf  # everything before it is assigned

        def close(until: float, stack: list[int] = stack) -> None:
            """Assign the time up to `until` to the events that are open by then."""
            nonlocal now
            while stack and events[stack[-1]].end <= until:
                done = stack.pop()
                own[done] += max(0.0, events[done].end - now)
                now = max(now, events[done].end)
            if stack and until > now:
                own[stack[-1]] += until - now
            now = max(now, until)

        for number in numbers:
            close(events[number].begin)
            stack.append(number)
        close(max(event.end for event in (events[n] for n in numbers)))
    return own


def operators(events: list[Event]) -> list[Operator]:
    """Each name's calls and time, longest first: self time by nesting for operators, else the duration."""
    found: dict[tuple[str, str], Operator] = {}
    on_cpu = [event for event in events if event.category == OPERATORS]
    on_device = [event for event in events if event.category != OPERATORS]
    times = self_times_us(on_cpu) + [event.end - event.begin for event in on_device]
    for event, time in zip(on_cpu + on_device, times, strict=True):
        key = (event.category, event.name)
        operator = found.setdefault(key, Operator(event.name, event.category))
        operator.count += 1
        operator.self_us += time
    return sorted(found.values(), key=lambda operator: (-operator.self_us, operator.name))


def active_us(events: list[Event], *categories: str) -> float:
    """The time in which at least one event of the categories ran on any lane: the union of their intervals."""
    spans = np.array(sorted((e.begin, e.end) for e in events if e.category in categories), dtype=np.float64)
    if not len(spans):
        return 0.0
    ends = np.maximum.accumulate(spans[:, 1])
    gaps = np.maximum(0.0, spans[1:, 0] - ends[:-1]).sum()
    return float(ends[-1] - spans[0, 0] - gaps)


def table(found: list[Operator], steps: int) -> list[dict[str, Any]]:
    """Rows: name, category, count and self_ms a step, and its share of all self time of its category."""
    total: dict[str, float] = defaultdict(float)
    for operator in found:
        total[operator.category] += operator.self_us
    return [
        {
            "name": operator.name,
            "category": operator.category,
            "count_per_step": operator.count / steps,
            "self_ms_per_step": operator.self_us / steps / 1e3,
            "share": operator.self_us / total[operator.category] if total[operator.category] else 0.0,
        }
        for operator in found
    ]


def gpu_compute_utilization(events: list[Event], unprofiled_s: float | None) -> float:
    """Kernel-active time of the traced steps (union of intervals) / time of the same steps without the profiler.

    As in the TBD paper. By the unprofiled time, since the profiler stretches the time between kernels, not the kernels.
    """
    active = active_us(events, KERNELS)
    if not active:
        raise Absent("no GPU kernel is in the trace")
    share = active / 1e6 / _known(unprofiled_s)
    if share > 1:
        raise Absent(
            f"kernels are active for {share:.2f} times the unprofiled time of the same steps: one of them is wrong"
        )
    return share


def disturbance(record: Trace) -> float:
    """Time of the traced steps / time of the same steps without the profiler: 1 where the profiler costs nothing."""
    if record.seconds is None or not record.seconds > 0:
        raise Absent("the time of the traced steps is not known")
    return record.seconds / _known(record.unprofiled_s)


def _known(unprofiled_s: float | None) -> float:
    if unprofiled_s is None or not unprofiled_s > 0:
        raise Absent("the worker did not time the traced steps without the profiler (unprofiled_s)")
    return unprofiled_s
