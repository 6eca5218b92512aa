"""A spool's events.jsonl and controller.jsonl (docs/events.md) as typed records.

Reading never fails: a file that is not there is empty, a line that is torn, no JSON or not of its event's form is
dropped and counted, unknown events and keys are skipped. Times `t` are seconds on the machine's monotonic clock, the
same for the worker and the controller.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tbd.measure import jsonl

Array = NDArray[np.float64]
SCHEMA = 1
COLUMNS = ("flops", "data_wait_s", "exchange_wait_s", "exchange_s")  # of steps, each a number a step where given


class Absent(Exception):
    """A figure can't be had; the message is the reason, in the user's words."""


@dataclass(frozen=True)
class Header:
    """`wall_time`: Unix seconds at `t`. `cores`: that the run may use, as the controller says; `boot_id`: of the
    machine's start, by which two processes know that their clocks are the same."""

    t: float
    wall_time: float
    cores: float | None
    boot_id: str = ""

    def wall(self, t: float) -> float:
        """Unix seconds at the monotonic time `t`."""
        return self.wall_time + (t - self.t)


@dataclass(frozen=True)
class Phase:
    name: str
    t: float


@dataclass(frozen=True)
class Clock:
    """Rank 0's monotonic clock is `offset_s` ahead of this rank's, give or take `error_s`."""

    offset_s: float
    error_s: float


@dataclass(frozen=True)
class Link:
    """Bytes a second that one TCP connection gets between rank 0 and the first `rank` of another node, each way."""

    rank: int
    there: float
    back: float


@dataclass(frozen=True)
class Model:
    """`exchanged_bytes`: of all gradients that the ranks exchange in a step; None with one rank."""

    unit: str
    weights_bytes: float | None
    optimizer_state_bytes: float | None
    exchanged_bytes: float | None = None


@dataclass(frozen=True)
class Steps:
    """Consecutive steps of one phase, one value a step; what isn't given is None.

    `exchange_wait_s`, `exchange_s`: seconds that the step stood still for an exchange with other ranks, and in which
    any was under way.
    """

    phase: str
    first: int
    end: Array
    items: dict[str, Array]
    flops: Array | None
    data_wait_s: Array | None
    exchange_wait_s: Array | None = None
    exchange_s: Array | None = None

    def __len__(self) -> int:
        return len(self.end)


@dataclass(frozen=True)
class StepEnds:
    """When the device was done with each step of the phase; a device that works asynchronously has them."""

    phase: str
    end: Array


@dataclass(frozen=True)
class Steady:
    steady: bool
    steps: int
    drift: float | None
    variation: float | None


@dataclass(frozen=True)
class Window:
    """The timed steps: `begin` and `end` were taken right after a synchronisation. `cpu_s`: of the worker's process.

    `emulator_s`: seconds that the worker waited for emulators; None where it has none. `sent_bytes`: over TCP, of a
    rank of several.
    """

    begin: float
    end: float
    steps: int
    cpu_s: float | None
    emulator_s: float | None = None
    sent_bytes: float | None = None

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass(frozen=True)
class Losses:
    phase: str
    first: int
    values: Array  # a step each; nan where the loss was no finite number
    t: float
    skipped: float = 0  # updates that fp16's loss scaling left out in these steps


@dataclass(frozen=True)
class MatrixProduct:
    """`age_s`: how long before the run it was timed; 0 in the run itself."""

    size: int
    precision: str
    seconds: Array
    age_s: float = 0.0


@dataclass(frozen=True)
class MemoryCopy:
    """Copies of so many `bytes` within the device's memory."""

    bytes: int
    seconds: Array


@dataclass(frozen=True)
class Devices:
    """What the run computes on, as the framework names it."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    """Whether a training at this batch size `fits`, and what it took; None where that is not known."""

    batch_size: int
    fits: bool
    rss_peak_bytes: float | None


@dataclass(frozen=True)
class MaxBatch:
    """The largest batch that was found to fit, and the smallest found not to; None where there was none."""

    fits: int | None
    too_large: int | None
    limit_bytes: float | None


@dataclass(frozen=True)
class Trace:
    """`steps` traced ones took `seconds`; on the same batches without the profiler, `unprofiled_s`. None: not known."""

    path: str
    steps: int
    seconds: float | None
    unprofiled_s: float | None


@dataclass(frozen=True)
class Memory:
    """`rss_peak_bytes`: the process's highest resident memory during the warm steps, before anything was recorded."""

    path: str
    rss_peak_bytes: float | None


@dataclass(frozen=True)
class Missing:
    """A part of the record, `what` (peak, trace or memory), that could not be had while the run went on."""

    what: str
    reason: str


@dataclass(frozen=True)
class Warned:
    """Something that whoever reads the figures must know, in the words of the process that saw it."""

    message: str


@dataclass(frozen=True)
class End:
    status: str
    cause: str
    t: float


@dataclass(frozen=True)
class Sample:
    """CPU seconds so far: `cpu_s` of the worker's process tree, `controller_cpu_s` of the controller, `host_cpu_s` of
    everything on this machine."""

    t: float
    cpu_s: float | None
    controller_cpu_s: float | None
    host_cpu_s: float | None
    metrics: dict[str, float]


T = TypeVar("T")
Record = (
    Header | Phase | Clock | Link | Model | Steps | StepEnds | Steady | Window | Losses | MatrixProduct | MemoryCopy
    | Devices | Trial | MaxBatch | Trace | Memory | Missing | Warned | End | Sample
)  # fmt: skip


@dataclass
class Log:
    """What one process wrote: a pass of the worker, or the controller. `records` are in the order of the file.

    `ranks`: of the processes that wrote it. Where they are several, their records are mixed.
    """

    records: list[Record] = field(default_factory=list)
    schema: Any = SCHEMA
    ranks: frozenset[str] = frozenset()

    def all(self, kind: type[T]) -> list[T]:
        return [record for record in self.records if isinstance(record, kind)]

    def last(self, kind: type[T]) -> T | None:
        found = self.all(kind)
        return found[-1] if found else None

    def steps(self, phase: str) -> Steps | None:
        """All steps of `phase`, from its first on for as long as none is missing; None where there are none.

        Their ends are the device's own times where it told them of all these steps, else the worker's loop's.
        """
        steps = _joined([chunk for chunk in self.all(Steps) if chunk.phase == phase])
        device = [ends.end for ends in self.all(StepEnds) if ends.phase == phase]
        if steps is None or not device or len(device[-1]) != len(steps):
            return steps
        return replace(steps, end=device[-1])


@dataclass
class Logs:
    """What the processes of one run wrote. `passes`: timing (timing.2, ... its repeats), trace, memory.

    Of a run of several ranks, `ranks` has each rank's own passes, `nodes` what each node's agent wrote.
    """

    passes: dict[str, Log] = field(default_factory=dict)
    controller: Log = field(default_factory=Log)
    ranks: dict[int, dict[str, Log]] = field(default_factory=dict)
    nodes: dict[int, Log] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def read(spool: Path) -> Logs:
    """The events of the folder `spool`. A pass that began more than once is what its last process wrote.

    What was written in another schema is left out, with a warning: its numbers could mean something else.
    """
    found = Logs()
    found.passes = _logs(spool, "events.jsonl", found.warnings)
    found.controller = _whole(_logs(spool, "controller.jsonl", found.warnings))
    for number in _numbered(spool / "ranks"):
        found.ranks[number] = _logs(spool, f"ranks/{number}/events.jsonl", found.warnings)
    for number in _numbered(spool / "nodes"):
        found.nodes[number] = _whole(_logs(spool, f"nodes/{number}/agent.jsonl", found.warnings))
    return found


def _logs(spool: Path, file: str, warnings: list[str]) -> dict[str, Log]:
    """{pass: its log} of one file of events."""
    objects, dropped = jsonl.read(spool / file)
    logs: dict[str, Log] = {}
    for thing in objects:
        name, event = thing.get("pass", ""), thing.get("event")
        if not isinstance(name, str) or not isinstance(event, str):
            dropped += 1
            continue
        if event == "header":
            logs[name] = _begun(logs.get(name), thing)
        if event in _PARSERS:
            try:
                logs.setdefault(name, Log()).records.append(_PARSERS[event](thing))
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
                dropped += 1
    for name, log in list(logs.items()):
        if log.schema != SCHEMA:
            warnings.append(f"{file} is of schema {log.schema!r}, this version reads {SCHEMA}: left out")
            del logs[name]
    if dropped:
        warnings.append(f"{file}: {dropped} damaged line(s) dropped")
    return logs


def _whole(logs: dict[str, Log]) -> Log:
    """What a process that knows no passes wrote."""
    return Log(records=[record for log in logs.values() for record in log.records])


def _numbered(folder: Path) -> list[int]:
    """The folders within that are called by a number, in order."""
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdecimal())


def _begun(log: Log | None, header: dict[str, Any]) -> Log:
    """The log that a header goes on with: the pass's, where it is of one more rank; a new one where it began again."""
    rank = str(header.get("rank", 0))
    if log is None or rank in log.ranks:
        return Log(schema=header.get("schema"), ranks=frozenset({rank}))
    log.ranks |= {rank}
    return log


def _number(value: Any) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    if not math.isfinite(value):
        raise ValueError(f"{value!r} is not finite")
    return float(value)


def _optional(value: Any) -> float | None:
    return None if value is None else _number(value)


def _count(value: Any) -> int:
    number = _number(value)
    if number < 0 or number != int(number):
        raise ValueError(f"{value!r} is no count")
    return int(number)


def _size(value: Any) -> int | None:
    return None if value is None else _count(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _column(value: Any, length: int) -> Array:
    """`length` finite numbers, none negative."""
    column = np.array([_number(n) for n in value], dtype=np.float64)
    if len(column) != length or (column < 0).any():
        raise ValueError(f"expected {length} numbers that are not negative")
    return column


def _ends(value: Any) -> Array:
    """Times that never go backwards."""
    end = np.array([_number(t) for t in value], dtype=np.float64)
    if (np.diff(end) < 0).any():
        raise ValueError("the ends of steps go backwards")
    return end


def _steps(thing: dict[str, Any]) -> Steps:
    end = _ends(thing["end"])
    columns = {key: thing.get(key) for key in COLUMNS}
    return Steps(
        phase=_text(thing["phase"]),
        first=_count(thing["first"]),
        end=end,
        items={_text(unit): _column(counts, len(end)) for unit, counts in thing["items"].items()},
        **{key: None if value is None else _column(value, len(end)) for key, value in columns.items()},
    )


def _window(thing: dict[str, Any]) -> Window:
    optional = (_optional(thing.get(key)) for key in ("cpu_s", "emulator_s", "sent_bytes"))
    window = Window(_number(thing["begin"]), _number(thing["end"]), _count(thing["steps"]), *optional)
    if window.seconds <= 0:
        raise ValueError("the window ends before it begins")
    return window


def _losses(thing: dict[str, Any]) -> Losses:
    # a diverged loss is NaN or Infinity, which Python's json writes as such and other writers as null
    values = [math.nan if value is None else float(value) for value in thing["values"]]
    array = np.array(values, dtype=np.float64)
    return Losses(
        _text(thing["phase"]),
        _count(thing["first"]),
        np.where(np.isfinite(array), array, np.nan),
        _number(thing["t"]),
        _count(thing.get("skipped", 0)),
    )


def _trace(thing: dict[str, Any]) -> Trace:
    begin, end = _optional(thing.get("begin")), _optional(thing.get("end"))
    seconds = None if begin is None or end is None else end - begin
    return Trace(_text(thing["path"]), _count(thing["steps"]), seconds, _optional(thing.get("unprofiled_s")))


def _sample(thing: dict[str, Any]) -> Sample:
    metrics = {}
    for name, value in thing.get("metrics", {}).items():
        if not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value):
            metrics[name] = float(value)
    cpu_s, controller_cpu_s, host_cpu_s = (
        _optional(thing.get(name)) for name in ("cpu_s", "controller_cpu_s", "host_cpu_s")
    )
    return Sample(_number(thing["t"]), cpu_s, controller_cpu_s, host_cpu_s, metrics)


_PARSERS: dict[str, Callable[[dict[str, Any]], Record]] = {
    "header": lambda e: Header(
        _number(e["t"]), _number(e["wall_time"]), _optional(e.get("cores")), str(e.get("boot_id", ""))
    ),
    "clock": lambda e: Clock(_number(e["offset_s"]), _number(e["error_s"])),
    "link": lambda e: Link(_count(e["rank"]), _number(e["there_bytes_per_s"]), _number(e["back_bytes_per_s"])),
    "phase": lambda e: Phase(_text(e["name"]), _number(e["t"])),
    "model": lambda e: Model(
        _text(e["unit"]),
        *(_optional(e.get(key)) for key in ("weights_bytes", "optimizer_state_bytes", "exchanged_bytes")),
    ),
    "steps": _steps,
    "step_ends": lambda e: StepEnds(_text(e["phase"]), _ends(e["end"])),
    "steady": lambda e: Steady(
        bool(e["steady"]), _count(e["steps"]), _optional(e.get("drift")), _optional(e.get("variation"))
    ),
    "window": _window,
    "losses": _losses,
    "matrix_product": lambda e: MatrixProduct(
        _count(e["size"]), _text(e["precision"]), _column(e["seconds"], len(e["seconds"])), _number(e.get("age_s", 0))
    ),
    "memory_copy": lambda e: MemoryCopy(_count(e["bytes"]), _column(e["seconds"], len(e["seconds"]))),
    "framework": lambda e: Devices(tuple(_text(device["name"]) for device in e["devices"])),
    "trial": lambda e: Trial(_count(e["batch_size"]), _text(e["status"]) == "ok", _optional(e.get("rss_peak_bytes"))),
    "max_batch": lambda e: MaxBatch(_size(e["fits"]), _size(e["too_large"]), _optional(e.get("limit_bytes"))),
    "trace": _trace,
    "absent": lambda e: Missing(_text(e["what"]), _text(e["reason"])),
    "warning": lambda e: Warned(_text(e["message"])),
    "memory": lambda e: Memory(_text(e["path"]), _optional(e.get("rss_peak_bytes"))),
    "end": lambda e: End(_text(e["status"]), str(e.get("cause", "")), _number(e["t"])),
    "sample": _sample,
}


def _joined(chunks: list[Steps]) -> Steps | None:
    """The chunks in order, up to the first gap, repetition or change of what is recorded."""
    kept: list[Steps] = []
    for chunk in sorted(chunks, key=lambda c: c.first):
        expected = sum(len(c) for c in kept)
        ordered = not kept or (len(chunk) and chunk.end[0] >= kept[-1].end[-1])
        if chunk.first != expected or not ordered or (kept and set(chunk.items) != set(kept[0].items)):
            break
        if len(chunk):
            kept.append(chunk)
    if not kept:
        return None

    def column(name: str) -> Array | None:
        parts = [getattr(chunk, name) for chunk in kept]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    return Steps(
        phase=kept[0].phase,
        first=0,
        end=np.concatenate([chunk.end for chunk in kept]),
        items={unit: np.concatenate([chunk.items[unit] for chunk in kept]) for unit in kept[0].items},
        **{name: column(name) for name in COLUMNS},
    )
