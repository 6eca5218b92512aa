"""What ran during the traced steps, from a Chrome trace (docs/trace.md; the Trace Event Format): one table of events
for all frameworks, and what is made of it."""

import functools
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tbd.measure import chrome
from tbd.measure.events import Absent, Trace
from tbd.measure.garbage import without_collecting
from tbd.measure.places import MARK, PHASES, Facts, Mark, place
from tbd.measure.work import FORMULAS, Work, of_operator

MAX_EVENTS = 2_000_000  # of a few steps there are tens of thousands; a million take about half a GB
OPERATORS = "cpu_op"
KERNELS = "kernel"
COPIES = ("gpu_memcpy", "gpu_memset")
CATEGORIES = (OPERATORS, KERNELS, *COPIES)
RUNTIME = ("cuda_runtime", "cuda_driver")  # the host's calls of the driver
READ = frozenset((*CATEGORIES, *RUNTIME))
ON_GPU = frozenset((KERNELS, *COPIES))

COMPUTE, COPY, COMMUNICATION, HOST = "compute", "copy", "communication", "host"
# kernels of NCCL, and operators of torch.distributed, gloo, MPI, ps-lite and XLA's collectives
COLLECTIVE = re.compile(
    r"nccl|^c10d::|^gloo:|^mpi|kvstore|all-?reduce|all-?gather|reduce-?scatter|all-?to-?all", re.IGNORECASE
)


class Event(NamedTuple):
    """A complete event. `begin` and `end` in microseconds; `lane`: its process and thread (a GPU's stream).

    `device`: cpu or gpu:N. `operator`, `layer`, `phase`: what it is of, "" where the trace doesn't tell.
    """

    name: str
    category: str
    begin: float
    end: float
    lane: tuple[str, str]
    device: str = "cpu"
    operator: str = ""
    layer: str = ""
    phase: str = ""

    @property
    def on_gpu(self) -> bool:
        return self.category in ON_GPU


class Call(NamedTuple):
    """An operator whose work is known, with what it called: `us`, its time, on a GPU that of what it launched there."""

    operator: str
    layer: str
    phase: str
    work: Work
    us: float


class Recording(NamedTuple):
    """`cut`: whether the file has more events than MAX_EVENTS, of which these are the first."""

    events: list[Event]
    cut: bool
    calls: list[Call] = []


@dataclass
class Operator:
    name: str
    category: str
    count: int = 0
    self_us: float = 0.0


@without_collecting()
def read(path: Path, max_events: int = MAX_EVENTS) -> Recording:
    """The complete events (ph "X") of the categories above. Raises Absent where the file is no whole Chrome trace."""
    facts, cut = Facts(), False
    rows: list[tuple[Any, ...]] = []
    marks: list[Mark] = []
    words: dict[Any, Any] = {}  # each text and lane once
    for thing in chrome.objects(path):
        event = _event(thing)
        if event is None:
            continue
        category, name, begin, end, args = event
        lane = (str(thing.get("pid")), str(thing.get("tid")))
        lane = words.setdefault(lane, lane)
        if category not in READ:
            marks.append((begin, end, name, lane))
            continue
        index = len(rows)
        if index == max_events:
            cut = True
            continue
        on_gpu, phase = category in ON_GPU, args.get("phase")
        device = f"gpu:{args.get('device', 0)}" if on_gpu else "cpu"
        rows.append(
            (
                words.setdefault(name, name), words.setdefault(category, category), begin, end, lane,
                words.setdefault(device, device), str(args.get("op") or ""), str(args.get("layer") or ""),
                phase if phase in PHASES else "",
            )
        )  # fmt: skip
        for key, ties in (
            ("correlation", facts.correlation), ("External id", facts.external), ("Sequence number", facts.sequence),
        ):  # fmt: skip
            number = args.get(key)
            if type(number) is int and number > 0:
                ties[index] = number
        if name in FORMULAS and category == OPERATORS and (work := of_operator(name, args)):
            facts.work[index] = work
    columns: list[list[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in Event._fields]
    names, categories, begins, ends, lanes, devices, facts.operators, facts.layers, facts.phases = columns
    facts.names, facts.begins, facts.ends, facts.lanes = names, begins, ends, lanes
    facts.host = [category not in ON_GPU for category in categories]
    facts.operator = [category == OPERATORS for category in categories]
    parts = place(facts, marks)
    fields = (names, categories, begins, ends, lanes, devices, facts.operators, facts.layers, facts.phases)
    return Recording(list(map(Event._make, zip(*fields, strict=True))), cut, _calls(facts, parts))


def _event(thing: Any) -> tuple[str, str, float, float, dict[str, Any]] | None:
    """(category, name, begin, end, args) of a complete event of READ or a mark of ours."""
    if type(thing) is not dict or thing.get("ph") != "X":
        return None
    category, name = thing.get("cat"), str(thing.get("name", ""))
    if not isinstance(category, str) or not (category in READ or name.startswith(MARK)):
        return None
    try:
        begin, duration = float(thing["ts"]), float(thing["dur"])
    except (KeyError, TypeError, ValueError):
        return None
    if not (0 <= duration < math.inf and -math.inf < begin < math.inf):
        return None
    args = thing.get("args")
    return category, name, begin, begin + duration, args if type(args) is dict else {}


def _calls(facts: Facts, parts: dict[int, int]) -> list[Call]:
    """The operators with known work that are in no other one with known work."""
    on_gpu = not all(facts.host)
    us: dict[int, float] = defaultdict(float)
    for index, whole in parts.items():
        if (not facts.host[index]) if on_gpu else (index == whole):
            us[whole] += facts.ends[index] - facts.begins[index]
    return [
        Call(facts.names[n], facts.layers[n], facts.phases[n], facts.work[n], us[n])
        for n, whole in parts.items()
        if n == whole and us[n] > 0
    ]


def collective(name: str) -> bool:
    return COLLECTIVE.search(name) is not None


def kinds(events: Sequence[Event]) -> list[str]:
    """Each event's kind: compute, copy, communication or host.

    Where nothing ran on a GPU, operators are what computes; else what is on the host is the host's part.
    """
    on_host = HOST if any(event.on_gpu for event in events) else COMPUTE
    return [_kind(event.name, event.category, on_host) for event in events]


@functools.cache
def _kind(name: str, category: str, on_host: str) -> str:
    if category in COPIES:
        return COPY
    if category in RUNTIME:
        return HOST
    if collective(name):
        return COMMUNICATION
    return on_host if category == OPERATORS else COMPUTE


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
    on_cpu = [event for event in events if event.category == OPERATORS]  # not the calls of the driver
    on_device = [event for event in events if event.on_gpu]
    times = self_times_us(on_cpu) + [event.end - event.begin for event in on_device]
    for event, time in zip(on_cpu + on_device, times, strict=True):
        key = (event.category, event.name)
        operator = found.get(key)
        if operator is None:
            operator = found[key] = Operator(event.name, event.category)
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
