"""Why two runs differ: which parts of the step, which operators and kernels, memory and parts of the start moved.

Times of a step are those of the first run's size of step: where the second does more items a step, its times are scaled
down to as many, so that the parts of a step stay what adds up to the difference in throughput.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tbd.analysis.runs import Run
from tbd.measure.events import Absent
from tbd.measure.metrics import number
from tbd.measure.trace import CATEGORIES

STARTUP = ("environment", "import", "data", "build", "compile")
ACTIVE = {"cpu_op": "operators on the CPU", "kernel": "kernels", "gpu_memcpy": "copies", "gpu_memset": "setting memory"}
ROWS = 15  # of operators: what moved less is of no help
NOTABLE = 0.02  # of the whole, from which on a part is worth a sentence
SAME_ITEMS = 0.005  # steps that differ by less are of one size


@dataclass(frozen=True)
class Part:
    """One part of a whole on both sides; None where a side has none of it. `kind`: of operators, their category."""

    name: str
    a: float | None
    b: float | None
    kind: str = ""

    @property
    def change(self) -> float:
        return (self.b or 0.0) - (self.a or 0.0)


@dataclass
class Moved:
    """Parts in ms a step (`step`, `operators`), MB (`memory`) and seconds (`startup`); `scale`: what b's times of a
    step were multiplied by. `told`: the same in sentences, what matters most first."""

    step: list[Part]
    operators: list[Part]
    memory: list[Part]
    startup: list[Part]
    scale: float = 1.0
    told: list[str] = field(default_factory=list)


def between(a: Run, b: Run) -> Moved:
    """What moved from the run a to the run b."""
    scale = _scale(a, b)
    memory = _parts(
        {"peak": a.metrics.get("memory/peak_mb"), **a.memory_mb},
        {"peak": b.metrics.get("memory/peak_mb"), **b.memory_mb},
    )
    startup = _parts(*({name: run.metrics.get(f"startup_{name}_s") for name in STARTUP} for run in (a, b)))
    found = Moved(_parts(_step(a, 1.0), _step(b, scale)), _operators(a, b, scale), memory, startup, scale)
    found.told = [*_speed(found), *_machine(a, b), *_memory(found), *_start(found)]
    return found


def _scale(a: Run, b: Run) -> float:
    """Items of a's steps / items of b's; 1 where they are of one size, or count different things."""
    try:
        items = [sum(t.items.sum() for t in run.timings) / sum(len(t.items) for t in run.timings) for run in (a, b)]
    except Absent:
        return 1.0
    ratio = float(items[0] / items[1]) if items[1] else 1.0
    return 1.0 if abs(ratio - 1) < SAME_ITEMS or a.unit != b.unit else ratio


def _step(run: Run, scale: float) -> dict[str, float | None]:
    """The parts of a timed step, in ms, and of a traced one by what ran."""
    parts: dict[str, float | None] = {}
    try:
        step = sum(t.window_s for t in run.timings) / sum(len(t.items) for t in run.timings) * 1e3 * scale
        parts["whole step"] = step
        for name, share in {
            "waiting for data": "data_wait_share",
            "waiting for other ranks": "communication_share",
        }.items():
            parts[name] = step * run.metrics[share] if share in run.metrics else None
    except Absent:
        pass
    active = next(iter(run.figures.tables.get("trace", [])), {})
    for category in CATEGORIES:
        value = active.get(f"{category}_active_ms_per_step")
        parts[f"traced: {ACTIVE[category]}"] = value * scale if value else None
    return parts


def _operators(a: Run, b: Run, scale: float) -> list[Part]:
    """Operators and kernels by their own time a step, those that moved most first."""
    tables = [
        {(str(row["name"]), str(row["category"])): float(row["self_ms_per_step"]) * by for row in run.operators}
        for run, by in ((a, 1.0), (b, scale))
    ]
    keys = dict.fromkeys([*tables[0], *tables[1]])
    parts = [Part(name, tables[0].get((name, kind)), tables[1].get((name, kind)), kind) for name, kind in keys]
    return sorted((part for part in parts if part.change), key=lambda part: -abs(part.change))[:ROWS]


def _parts(a: Mapping[str, float | None], b: Mapping[str, float | None]) -> list[Part]:
    keys = dict.fromkeys([*a, *b])
    parts = [Part(key, a.get(key), b.get(key)) for key in keys]
    return [part for part in parts if part.a is not None or part.b is not None]


def _speed(found: Moved) -> Iterable[str]:
    whole = next((part for part in found.step if part.name == "whole step"), None)
    if whole is None or whole.a is None or whole.b is None:
        return
    per = "" if found.scale == 1 else f", for as many items as the first one's (times {found.scale:.3g})"
    yield f"a step takes {_changed(whole, 'ms')}{per}"
    waits = [part for part in found.step if part.name.startswith("waiting")]
    notable = [part for part in (*waits, *found.operators) if abs(part.change) > NOTABLE * whole.a]
    parts = [f"{part.name} {part.change:+.3g} ms ({_from_to(part)})" for part in notable[:4]]
    if parts:
        yield "of a step: " + ", ".join(parts)


def _machine(a: Run, b: Run) -> Iterable[str]:
    peaks = a.metrics.get("peak_tflops_measured"), b.metrics.get("peak_tflops_measured")
    during = all(run.metrics.get("peak_age_s", 0.0) == 0 for run in (a, b))  # else it says nothing of these runs
    if during and peaks[0] and peaks[1] and abs(peaks[1] / peaks[0] - 1) > NOTABLE:
        yield f"the device itself was measured at {number(peaks[1])} TFLOP/s, not {number(peaks[0])}"
    others = [run.metrics.get("other_cpu_cores", 0.0) for run in (a, b)]
    if abs(others[1] - others[0]) > 0.1:
        yield f"other processes kept {others[1]:.2f} cores busy, not {others[0]:.2f}"


def _memory(found: Moved) -> Iterable[str]:
    peak = next((part for part in found.memory if part.name == "peak"), None)
    if peak is None or peak.a is None or peak.b is None or not peak.a:
        return
    parts = [part for part in found.memory if part is not peak and abs(part.change) > NOTABLE * peak.a]
    parts.sort(key=lambda part: -abs(part.change))
    if parts:
        moved = ", ".join(f"{part.name.replace('_', ' ')} {part.change:+,.1f} MB" for part in parts[:4])
        yield f"the memory peak is {_changed(peak, 'MB')}: {moved}"


def _start(found: Moved) -> Iterable[str]:
    parts = [part for part in found.startup if part.name != "environment" and abs(part.change) > 1]  # a second
    if parts:
        yield "before the timed steps: " + ", ".join(f"{part.name} {part.change:+.1f} s" for part in parts)


def _changed(part: Part, unit: str) -> str:
    """Such as "112 ms instead of 100 (+12.0 %)"."""
    percent = f" ({100 * part.change / part.a:+.1f} %)" if part.a else ""
    return f"{number(part.b or 0.0)} {unit} instead of {number(part.a or 0.0)}{percent}"


def _from_to(part: Part) -> str:
    return f"{'none' if part.a is None else number(part.a)} to {'none' if part.b is None else number(part.b)}"
