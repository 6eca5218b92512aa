"""Every figure of a run from its spool alone, at any time again. docs/metrics.md lists them with formula and unit."""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tbd.measure import events, flops, loss, memory, startup, steps, throughput, trace, utilisation
from tbd.measure.events import Absent

STEP_TIMES = {"step_time_p50_ms": 50, "step_time_p90_ms": 90, "step_time_p99_ms": 99}
INTERVAL = ("throughput_ci_low", "throughput_ci_high")
REPEATS = ("throughput_repeats_median", "throughput_repeats_spread")
GPU_COUNTERS = ("fp32_utilization", "tensor_utilization", "sm_occupancy", "dram_utilization", "copy_share")
MEMORY = (
    "memory/peak_mb",
    *(f"memory/{category}_mb" for category in memory.CATEGORIES),
    "memory/untracked_mb",
    "memory/slack_mb",
    "memory/feature_maps_share",
    "memory/feature_maps_share_of_structures",
)


class Point(NamedTuple):
    """One value of a series. `wall_time`: Unix seconds."""

    step: int
    wall_time: float
    value: float


@dataclass
class Figures:
    """`metrics`: finite numbers only. `absent`: every figure that can't be had, with the reason. `tags`: tbd.* tags.

    `tables`: lists of rows: repeats, operators, trace, memory_timeline, memory_largest.
    """

    metrics: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    series: dict[str, list[Point]] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), allow_nan=False)

    def add(self, names: str | Iterable[str], make: Callable[[], float | dict[str, float]], left_out: str = "") -> None:
        """Take what `make` gives, a number for one name; what it can't give is absent with its reason.

        `left_out`: why `make` may give only some of the names.
        """
        names = [names] if isinstance(names, str) else list(names)
        try:
            made = make()
        except Absent as reason:
            self.absent.update(dict.fromkeys(names, str(reason)))
            return
        values = made if isinstance(made, dict) else {names[0]: made}
        for name in [*names, *values]:
            if math.isfinite(values.get(name, math.nan)):
                self.metrics[name] = float(values[name])
            else:
                self.absent[name] = "the value is not finite" if name in values else left_out


def compute(spool: Path) -> Figures:
    """All figures of the run in the folder `spool`. Never raises for what a run can leave behind, whatever its end."""
    log = events.read(spool)
    request = events.read_object(spool / "request.json")
    figures = Figures(warnings=list(log.warnings))
    _startup(figures, log, request)
    _timing(figures, log, request)
    _repeats(figures, log, request)
    _losses(figures, log, request)
    _trace(figures, log, request, spool)
    _memory(figures, log, request, spool)
    _not_measured(figures, request)
    _samples(figures, log)
    return figures


def _startup(figures: Figures, log: events.Spool, request: dict[str, Any]) -> None:
    figures.add("startup_environment_s", lambda: startup.phase_s(log.controller, "environment"))
    for phase in startup.WORKER_PHASES:
        figures.add(f"startup_{phase}_s", partial(_phase_s, log, request, phase))
    figures.add("startup_first_step_s", lambda: startup.first_step_s(_pass(log, "timing", request)))
    figures.add(("warmup_steps", "steady"), lambda: startup.warmup(_pass(log, "timing", request)))
    if figures.metrics.get("steady") == 0:
        figures.warnings.append(
            "the step time was not steady when the timed window began: raise measure.warmup_max_steps"
        )


def _phase_s(log: events.Spool, request: dict[str, Any], phase: str) -> float:
    return startup.phase_s(_pass(log, "timing", request), phase)


def _timing(figures: Figures, log: events.Spool, request: dict[str, Any]) -> None:
    """What the timed window gives."""
    products = log.passes["timing"].all(events.MatrixProduct) if "timing" in log.passes else []
    figures.add("peak_tflops_measured", lambda: flops.peak_tflops_measured(products, request.get("precision")))
    try:
        window, timed = _window(log, request)
        times = steps.step_times(timed.end, window.begin)
    except Absent as reason:
        names = ("throughput", *INTERVAL, *STEP_TIMES, "step_time_jitter_ms", "achieved_tflops", "mfu")
        shares = ("cpu_utilization", "controller_cpu_share", "data_wait_share")
        figures.absent.update(dict.fromkeys((*names, *shares), str(reason)))
        return

    _throughput(figures, log, window, timed, times)
    for name, percent in STEP_TIMES.items():
        figures.add(name, partial(steps.percentile_ms, times, percent))
    figures.add("step_time_jitter_ms", lambda: steps.jitter_ms(times))
    unseen = steps.unseen_share(times, window.seconds)
    if abs(unseen) > steps.MAX_UNSEEN_SHARE:
        figures.warnings.append(
            f"{unseen:.1%} of the window lies after the last step's end: step times show the dispatch"
        )

    figures.add("achieved_tflops", lambda: flops.achieved_tflops(timed.flops, window.seconds))
    missing = [figures.absent[name] for name in ("achieved_tflops", "peak_tflops_measured") if name in figures.absent]
    if missing:
        figures.absent["mfu"] = missing[0]
    else:
        achieved, peak = figures.metrics["achieved_tflops"], figures.metrics["peak_tflops_measured"]
        figures.add("mfu", lambda: flops.mfu(achieved, peak))

    samples, header = log.controller.all(events.Sample), log.controller.last(events.Header)
    cores = header.cores if header else None
    figures.add(
        "cpu_utilization",
        lambda: utilisation.cpu_utilization(utilisation.cpu_seconds(samples, window, "cpu_s"), cores, window),
    )
    figures.add(
        "controller_cpu_share",
        lambda: utilisation.controller_cpu_share(utilisation.cpu_seconds(samples, window, "controller_cpu_s"), window),
    )
    figures.add("data_wait_share", lambda: utilisation.data_wait_share(timed.data_wait_s, window))


def _throughput(
    figures: Figures, log: events.Spool, window: events.Window, timed: events.Steps, times: events.Array
) -> None:
    units = list(timed.items)
    model = log.passes["timing"].last(events.Model)
    if model and model.unit in units:  # the model's own unit first, whatever the order of the keys
        units.sort(key=lambda unit: unit != model.unit)
    if not units:
        figures.absent.update(dict.fromkeys(("throughput", *INTERVAL), "the worker wrote no items of its steps"))
        return
    items = timed.items[units[0]]
    figures.tags["tbd.throughput_unit"] = units[0]
    figures.add("throughput", lambda: throughput.throughput(items, window.seconds))
    for unit in units[1:]:
        name = "throughput_" + re.sub(r"[^\w.\- ]", "_", unit)  # what MLflow allows in a name
        figures.add(name, partial(throughput.throughput, timed.items[unit], window.seconds))

    def interval() -> dict[str, float]:
        return dict(zip(INTERVAL, throughput.interval(items, times, window.seconds), strict=False))

    figures.add(INTERVAL, interval)
    header = log.passes["timing"].last(events.Header)
    if header:
        figures.series["throughput_over_time"] = [
            Point(rate.last_step, header.wall(rate.t), rate.rate)
            for rate in throughput.over_time(items, timed.end, window.begin)
        ]


def _repeats(figures: Figures, log: events.Spool, request: dict[str, Any]) -> None:
    """How much whole processes differ: the passes timing, timing.2, ..., each with its own throughput."""
    unit = figures.tags.get("tbd.throughput_unit", "")
    rates = {}
    for name in (name for name in log.passes if name.split(".")[0] == "timing"):
        try:
            window, timed = _window(log, request, name)
            rates[name] = throughput.throughput(timed.items[unit], window.seconds)
        except (Absent, KeyError):
            continue  # it ended early or counted other items
    if len(rates) > 1:
        figures.tables["repeats"] = [{"pass": name, "throughput": rate} for name, rate in rates.items()]
    figures.add(REPEATS, lambda: dict(zip(REPEATS, throughput.repeats(list(rates.values())), strict=True)))


def _losses(figures: Figures, log: events.Spool, request: dict[str, Any]) -> None:
    """The losses of all the timing pass's training steps, in order: compile, warm-up, timed."""
    values, points = [np.empty(0)], []
    worker = log.passes.get("timing")
    header = worker.last(events.Header) if worker else None
    if worker and header:
        for read in worker.all(events.Losses):
            done = worker.steps(read.phase)
            before = sum(len(part) for part in values)
            for index, value in enumerate(read.values):
                number = read.first + index
                t = float(done.end[number]) if done and number < len(done) else read.t
                if math.isfinite(value):
                    points.append(Point(before + index, header.wall(t), float(value)))
            values.append(read.values)
    if points:
        figures.series["loss"] = points
    names = ("loss_first", "loss_last", "loss_ratio")

    def make() -> dict[str, float]:
        _pass(log, "timing", request)
        return loss.losses(np.concatenate(values))

    figures.add(names, make, left_out="the first loss is not above 0")


def _trace(figures: Figures, log: events.Spool, request: dict[str, Any], spool: Path) -> None:
    name = "gpu_compute_utilization"
    try:
        found = _last(log, "trace", events.Trace, request)
        recorded = trace.read(spool / Path(found.path).name)
        if not found.steps or not recorded:
            raise Absent("no operator is in the trace")
    except Absent as reason:
        figures.absent[name] = str(reason)
        if _asked(request, "trace"):
            figures.warnings.append(f"no table of operators: {reason}")
        return
    figures.tables["operators"] = trace.table(trace.operators(recorded), found.steps)
    active = {
        f"{category}_active_ms_per_step": trace.active_us(recorded, category) / found.steps / 1e3
        for category in trace.CATEGORIES
    }
    figures.tables["trace"] = [{"steps": found.steps, "events": len(recorded), **active}]

    def utilization() -> float:
        window, timed = _window(log, request)
        return trace.gpu_compute_utilization(recorded, found.steps, window.seconds / len(timed))

    figures.add(name, utilization)


def _memory(figures: Figures, log: events.Spool, request: dict[str, Any], spool: Path) -> None:
    try:
        event = _last(log, "memory", events.Memory, request)
        record = memory.read(spool / Path(event.path).name)
        found = memory.breakdown(record)
    except Absent as reason:
        figures.absent.update(dict.fromkeys((*MEMORY, "memory/outside_allocator_mb"), str(reason)))
        return
    figures.add(MEMORY, lambda: memory.figures(record, found), left_out="the framework's allocator told no peak")
    figures.add(
        "memory/outside_allocator_mb", lambda: memory.outside_allocator_mb(event.rss_peak_bytes, record.peak_bytes)
    )
    figures.warnings += memory.warnings(record, found, log.passes["memory"].last(events.Model))
    figures.tables["memory_timeline"] = memory.timeline_table(record)
    figures.tables["memory_largest"] = memory.largest_table(record, found.position)


def _not_measured(figures: Figures, request: dict[str, Any]) -> None:
    """The figures of DESIGN's table that this version takes from no run, with the reason."""
    on_cpu = _section(request, "hardware").get("device", "cpu") == "cpu"
    counters = "the run has no GPU" if on_cpu else "no hardware counter was read"
    figures.absent.update(dict.fromkeys(GPU_COUNTERS, counters))
    figures.absent.update(dict.fromkeys(("energy_j_per_item", "power_w_mean"), "no energy counter was read"))
    figures.absent["communication_share"] = "the run has one process"
    figures.absent["scaling_efficiency"] = "it needs a sweep over the number of devices"


def _samples(figures: Figures, log: events.Spool) -> None:
    header = log.controller.last(events.Header)
    if header is None:
        return
    for index, sample in enumerate(log.controller.all(events.Sample)):
        for name, value in sample.metrics.items():
            figures.series.setdefault(name, []).append(Point(index, header.wall(sample.t), value))


def _section(request: dict[str, Any], name: str) -> dict[str, Any]:
    value = request.get(name)
    return value if isinstance(value, dict) else {}


def _asked(request: dict[str, Any], name: str) -> bool:
    """Whether the request has the pass; a request that can't be read may have had it."""
    passes = _section(request, "measure").get("passes")
    return not isinstance(passes, list) or name in passes


def _pass(log: events.Spool, name: str, request: dict[str, Any]) -> events.Log:
    """What the pass wrote. Raises Absent where it didn't run."""
    if name in log.passes:
        return log.passes[name]
    if not _asked(request, name):
        raise Absent(f"the {name} pass was not asked for (measure.passes)")
    raise Absent(f"the {name} pass did not run" + _run_ended(log))


def _last(log: events.Spool, name: str, kind: type[events.T], request: dict[str, Any]) -> events.T:
    """The last record of `kind` in the pass. Raises Absent with what became of the pass."""
    worker = _pass(log, name, request)
    record = worker.last(kind)
    if record is not None:
        return record
    end, phases = worker.last(events.End), worker.all(events.Phase)
    if end is None:
        where = f" in the phase {phases[-1].name}" if phases else ""
        raise Absent(f"the {name} pass stopped{where}" + _run_ended(log))
    if end.status != "ok":
        raise Absent(f"the {name} pass ended as {end.status}: {end.cause}")
    raise Absent(f"the {name} pass wrote no event {kind.__name__.lower()}")


def _run_ended(log: events.Spool) -> str:
    end = log.controller.last(events.End)
    return f"; the run ended as {end.status}: {end.cause}" if end and end.status != "ok" else ""


def _window(log: events.Spool, request: dict[str, Any], name: str = "timing") -> tuple[events.Window, events.Steps]:
    """The timed window and exactly its steps. Raises Absent where any of them is missing."""
    window = _last(log, name, events.Window, request)
    timed = log.passes[name].steps("timed")
    recorded = len(timed) if timed else 0
    if timed is None or recorded != window.steps:
        raise Absent(f"the window has {window.steps} steps, {recorded} of them are recorded")
    return window, timed
