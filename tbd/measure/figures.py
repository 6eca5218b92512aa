"""Every figure of a run from its spool alone, at any time again. docs/metrics.md lists them with formula and unit."""

import contextlib
import dataclasses
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tbd.measure import breakdown, events, memory, ranks, roofline, steps, throughput, trace
from tbd.measure.events import Absent
from tbd.measure.metrics import METRICS
from tbd.measure.run import Run


class Point(NamedTuple):
    """One value of a series. `wall_time`: Unix seconds."""

    step: int
    wall_time: float
    value: float


# Of the usable cores, beyond which others are told of. With one of 2 cores taken, steps were seen to take 10 times as
# long: threads that wait for each other by spinning lose whole time slices.
MAX_OTHERS = 0.1


@dataclass
class Figures:
    """`metrics`: finite numbers only. `absent`: every figure that can't be had, with the reason. `tags`: tbd.* tags.

    `tables`: lists of rows: repeats, operators, trace, roofline, memory_timeline, memory_largest.
    """

    metrics: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    series: dict[str, list[Point]] = field(default_factory=dict)
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), allow_nan=False)

    def add(self, name: str, make: Callable[[], float]) -> None:
        """Take the number that `make` gives; where it gives none, the figure is absent with its reason."""
        try:
            value = make()
        except Absent as reason:
            self.absent[name] = str(reason)
            return
        if math.isfinite(value):
            self.metrics[name] = float(value)
        else:
            self.absent[name] = "the value is not finite"


def compute(spool: Path) -> Figures:
    """All figures of the run in the folder `spool`. Never raises for what a run can leave behind, whatever its end."""
    return of_run(Run(spool))


def of_run(run: Run) -> Figures:
    """The same of a Run, for whoever goes on with it."""
    figures = Figures()
    for metric in METRICS.values():
        figures.add(metric.name, partial(metric.value, run))
    for part in (
        _other_units,
        _repeats,
        _ranks,
        _over_time,
        _losses,
        _clocks,
        _trials,
        _operators,
        _roofline,
        _memory_tables,
    ):
        with contextlib.suppress(Absent):  # the figures that it goes with say why
            part(figures, run)
    _samples(figures, run)
    figures.warnings = _warnings(figures, run)
    return figures


def series_so_far(spool: Path) -> dict[str, list[Point]]:
    """Of a run that goes on, the beginnings of those series that have begun so at its end too: the samples, and the
    losses of a first timing pass that is over."""
    run = Run(spool)
    figures = Figures()
    with contextlib.suppress(Absent):
        if run.timing_logs[0].last(events.End):
            _losses(figures, run)
    _samples(figures, run)
    return figures.series


def _other_units(figures: Figures, run: Run) -> None:
    """The rates of what the model counts beside its own unit, and notes on the throughput."""
    units = run.units
    figures.tags["tbd.throughput_unit"] = units[0]
    for unit in units[1:]:
        name = "throughput_" + re.sub(r"[^\w.\- ]", "_", unit)  # what MLflow allows in a name
        figures.add(name, partial(run.rate, unit))
    figures.tags["tbd.throughput_interval"] = run.interval.source


def _repeats(figures: Figures, run: Run) -> None:
    """Each timing pass's own throughput, where there are several."""
    if len(run.timings) > 1:
        figures.tables["repeats"] = [
            {"pass": timing.name, "throughput": rate, "steps": len(timing.steps), "seconds": timing.window.seconds}
            for timing, rate in zip(run.timings, run.rates, strict=True)
        ]


def _ranks(figures: Figures, run: Run) -> None:
    """A row a rank of the first timing pass."""
    figures.tables["ranks"] = run.rank_table


def _over_time(figures: Figures, run: Run) -> None:
    """Throughput along the timed steps, one repeat after the other."""
    done, points = 0, []
    for timing, items in zip(run.timings, run.items(run.units[0]), strict=True):
        header = run.log_of(timing.name).last(events.Header)
        if header:
            groups = max(1, throughput.OVER_TIME_POINTS // len(run.timings))
            for rate in throughput.over_time(items, timing.steps.end, timing.window.begin, groups):
                points.append(Point(done + rate.last_step, header.wall(rate.t), rate.rate))
        done += len(timing.steps)
    if points:
        figures.series["throughput_over_time"] = points


def _losses(figures: Figures, run: Run) -> None:
    """The losses of the first timing pass's training steps, each at the time of its step."""
    log = run.timing_logs[0]
    header, before, points = log.last(events.Header), 0, []
    if header is None:
        return
    for read in log.all(events.Losses):
        done = log.steps(read.phase)
        for index, value in enumerate(read.values):
            number = read.first + index
            t = float(done.end[number]) if done and number < len(done) else read.t
            if math.isfinite(value):
                points.append(Point(before + index, header.wall(t), float(value)))
        before += len(read.values)
    if points:
        figures.series["loss"] = points


def _operators(figures: Figures, run: Run) -> None:
    found, timed, traced = run.trace_events, run.trace_timed, run.traced.steps
    figures.tables["operators"] = trace.table(trace.operators(found), traced)
    figures.tables["trace_layers"] = breakdown.by_layer(timed, traced)
    figures.tables["trace_longest"] = breakdown.longest(timed, traced)
    if run.device == "gpu":
        figures.tables["trace_operators"] = breakdown.by_operator(timed, traced)
        with contextlib.suppress(Absent):
            figures.tags["tbd.bound_by"] = run.gpu_step.bound or "nothing"
    active = {
        f"{category}_active_ms_per_step": trace.active_us(found, category) / run.traced.steps / 1e3
        for category in trace.CATEGORIES
    }
    figures.tables["trace"] = [{"steps": run.traced.steps, "events": len(found), **active}]


def _roofline(figures: Figures, run: Run) -> None:
    calls, device_us = run.trace_calls, sum(time for _, time in run.trace_timed)
    figures.tables["roofline"] = roofline.table(calls, run.traced.steps, device_us, run.roof)
    figures.tables["roof"] = [roofline.summary(calls, device_us, run.roof)]


def _memory_tables(figures: Figures, run: Run) -> None:
    figures.tables["memory_timeline"] = memory.timeline_table(run.memory_record)
    figures.tables["memory_largest"] = memory.largest_table(run.memory_record, run.memory_breakdown.position)


def _clocks(figures: Figures, run: Run) -> None:
    """Whether anything held the GPUs' clocks down within the windows, and where the use of fp32 units comes from."""
    if run.device == "gpu":
        if "fp32_utilization" in figures.metrics:
            figures.tags["tbd.fp32_utilization_source"] = run.fp32_source
        figures.tags["tbd.throttled"] = ", ".join(run.throttled) or "no"


def _trials(figures: Figures, run: Run) -> None:
    """What the search for the largest batch tried."""
    rows = [
        {"batch_size": t.batch_size, "fits": t.fits, "rss_peak_mb": t.rss_peak_bytes and t.rss_peak_bytes / 1e6}
        for t in run.trials
    ]
    if rows:
        figures.tables["max_batch"] = rows


def _samples(figures: Figures, run: Run) -> None:
    """The sampled series; those of several nodes as system/<node>/..."""
    logs = {"system/": run.log.controller, **{f"system/{node}/": log for node, log in run.log.nodes.items()}}
    for prefix, log in logs.items():
        header = log.last(events.Header)
        for index, sample in enumerate(log.all(events.Sample) if header else []):
            for name, value in sample.metrics.items():
                assert header
                point = Point(index, header.wall(sample.t), value)
                figures.series.setdefault(prefix + name.removeprefix("system/"), []).append(point)


def _warnings(figures: Figures, run: Run) -> list[str]:
    """What whoever reads the figures must know."""
    told = list(run.log.warnings)
    if run.several_ranks:
        told.append(run.several_ranks)
    for log in (run.log.controller, *run.log.nodes.values(), *run.log.passes.values()):
        told += [warned.message for warned in log.all(events.Warned)]
        if log is not run.log.controller:  # what a device doesn't count is absent, and no fault
            told += [f"no {missing.what}: {missing.reason}" for missing in log.all(events.Missing)]
    others = figures.metrics.get("other_cpu_cores", 0.0)
    if run.cores and others > MAX_OTHERS * run.cores:
        told.append(
            f"other processes kept {others:.2f} cores busy during the timed steps: speeds are of a shared machine"
        )
    if figures.metrics.get("steady") == 0:
        told.append("the step time was not steady when the timed window began: raise measure.warmup_max_steps")
    for part in (_timing_warnings, _clock_warnings, _rank_warnings, _trace_warnings, _memory_warnings):
        try:
            told += part(run)
        except Absent:
            continue
    return list(dict.fromkeys(told))


def _clock_warnings(run: Run) -> list[str]:
    if run.device != "gpu" or not run.throttled:
        return []
    return [f"the GPU's clocks were held down during the timed steps: {', '.join(run.throttled)}"]


def _timing_warnings(run: Run) -> list[str]:
    told = []
    if run.incomplete:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in run.incomplete.items())
        told.append(f"throughput is of {len(run.timings)} of {len(run.timing_names)} timing passes ({reasons})")
    if skipped := run.skipped_updates:
        told.append(f"{skipped:.0f} updates of the timed steps were left out: their gradients overflowed in fp16")
    unseen = max((steps.unseen_share(one.times_s, one.window.seconds) for one in run.timings), key=abs)
    return told + [text for text in [steps.unseen(unseen)] if text]


def _rank_warnings(run: Run) -> list[str]:
    return [text for text in [ranks.stragglers(run.rank_table)] if text]


def _trace_warnings(run: Run) -> list[str]:
    if run.asked is not None and "trace" not in run.asked:
        return []
    try:
        run.trace_events  # noqa: B018
    except Absent as reason:
        return [] if run.missing("trace") else [f"no table of operators: {reason}"]
    return []


def _memory_warnings(run: Run) -> list[str]:
    return memory.warnings(run.memory_record, run.memory_breakdown, run.log_of("memory").last(events.Model))
