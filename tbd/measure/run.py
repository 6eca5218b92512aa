"""The facts of one run that its figures are made of: each as it was recorded, or Absent with what became of it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tbd.measure import breakdown, events, idle, jsonl, memory, steps, throughput, trace, utilisation
from tbd.measure.events import Absent, Array


@dataclass(frozen=True)
class Timing:
    """One timing pass: its window, exactly the steps in it, and how long each of them took."""

    name: str
    window: events.Window
    steps: events.Steps
    times_s: Array


class Run:
    """The run in the folder `spool`. Nearly everything here raises Absent, with the reason in the user's words."""

    def __init__(self, spool: Path):
        self.spool = spool
        self.log = events.read(spool)
        self.request = jsonl.read_object(spool / "request.json")

    def section(self, name: str) -> dict[str, Any]:
        """A section of the request; {} where it has none."""
        value = self.request.get(name)
        return value if isinstance(value, dict) else {}

    @property
    def device(self) -> str:
        """cpu or gpu."""
        return "gpu" if self.section("hardware").get("device") == "gpu" else "cpu"

    @property
    def precision(self) -> str | None:
        value = self.request.get("precision")
        return value if isinstance(value, str) else None

    # ---- passes

    @cached_property
    def asked(self) -> list[str] | None:
        """The passes of the request; None where it can't be read."""
        passes = self.section("measure").get("passes")
        return [str(name) for name in passes] if isinstance(passes, list) else None

    @property
    def several_ranks(self) -> str:
        """Why the logs of this run are not one process's; "" where they are."""
        ranks = sorted({rank for log in self.log.passes.values() for rank in log.ranks})
        world_size = self.request.get("world_size")
        if len(ranks) > 1 or (isinstance(world_size, int) and world_size > 1):
            return (
                f"the run has several ranks (the log has {', '.join(ranks) or 'none'} of {world_size}): their figures "
                "are not worked out yet, and one rank's would not be the run's"
            )
        return ""

    def log_of(self, name: str) -> events.Log:
        """What the pass wrote. Raises Absent where it didn't run, or ran as several ranks."""
        if self.several_ranks:
            raise Absent(self.several_ranks)
        if name in self.log.passes:
            return self.log.passes[name]
        if self.asked is not None and name not in self.asked:
            raise Absent(f"the {name} pass was not asked for (measure.passes)")
        raise Absent(f"the {name} pass did not run" + self._run_ended())

    def last(self, name: str, kind: type[events.T]) -> events.T:
        """The last record of `kind` in the pass. Raises Absent with what became of the pass."""
        log = self.log_of(name)
        record = log.last(kind)
        if record is not None:
            return record
        if (reason := self.missing(name)) is not None:
            raise Absent(reason)
        end, phases = log.last(events.End), log.all(events.Phase)
        if end is None:
            where = f" in the phase {phases[-1].name}" if phases else ""
            raise Absent(f"the {name} pass stopped{where}" + self._run_ended())
        if end.status != "ok":
            raise Absent(f"the {name} pass ended as {end.status}: {end.cause}")
        raise Absent(f"the {name} pass wrote no event {kind.__name__.lower()}")

    def missing(self, what: str) -> str | None:
        """Why the worker could not have the part of the record, where it said so."""
        told = [m.reason for log in self.log.passes.values() for m in log.all(events.Missing) if m.what == what]
        return told[-1] if told else None

    def _run_ended(self) -> str:
        end = self.log.controller.last(events.End)
        return f"; the run ended as {end.status}: {end.cause}" if end and end.status != "ok" else ""

    # ---- the timed windows

    @cached_property
    def timing_names(self) -> list[str]:
        """timing, and its repeats timing.2, timing.3, ... as far as they were asked for or ran."""
        names = dict.fromkeys([*(self.asked or []), *self.log.passes])
        return [name for name in names if name.split(".")[0] == "timing"] or ["timing"]

    def timing(self, name: str) -> Timing:
        """The window of the pass and exactly its steps. Raises Absent where any of them is missing."""
        window = self.last(name, events.Window)
        timed = self.log_of(name).steps("timed")
        recorded = len(timed) if timed else 0
        if timed is None or recorded != window.steps:
            raise Absent(f"the window has {window.steps} steps, {recorded} of them are recorded")
        return Timing(name, window, timed, steps.step_times(timed.end, window.begin))

    @cached_property
    def _timings(self) -> tuple[list[Timing], dict[str, str]]:
        found, reasons = [], {}
        for name in self.timing_names:
            try:
                found.append(self.timing(name))
            except Absent as reason:
                reasons[name] = str(reason)
        return found, reasons

    @property
    def timings(self) -> list[Timing]:
        """Every timing pass that has its window whole. Raises Absent, with the first one's reason, where none has."""
        found, reasons = self._timings
        if not found:
            raise Absent(next(iter(reasons.values())))
        return found

    @property
    def incomplete(self) -> dict[str, str]:
        """{timing pass: reason} of those that have no whole window."""
        return self._timings[1]

    @property
    def seconds(self) -> float:
        """Wall time of all windows together."""
        return sum(timing.window.seconds for timing in self.timings)

    @property
    def times_s(self) -> Array:
        """Every timed step's time, of all repeats."""
        return np.concatenate([timing.times_s for timing in self.timings])

    @property
    def units(self) -> list[str]:
        """What the steps count, the model's own unit first."""
        first = self.timings[0]
        units = list(first.steps.items)
        model = self.log_of(first.name).last(events.Model)
        if model and model.unit in units:  # whatever the order of the keys
            units.sort(key=lambda unit: unit != model.unit)
        if not units:
            raise Absent("the worker wrote no items of its steps")
        return units

    def items(self, unit: str) -> list[Array]:
        """Items of every timed step, an array a repeat."""
        for timing in self.timings:
            if unit not in timing.steps.items:
                raise Absent(f"the pass {timing.name} counts no {unit}")
        return [timing.steps.items[unit] for timing in self.timings]

    def rate(self, unit: str) -> float:
        return throughput.throughput(np.concatenate(self.items(unit)), self.seconds)

    @property
    def rates(self) -> list[float]:
        """Each repeat's throughput, in the model's own unit."""
        pairs = zip(self.items(self.units[0]), self.timings, strict=True)
        return [throughput.throughput(items, timing.window.seconds) for items, timing in pairs]

    @cached_property
    def interval(self) -> throughput.Interval:
        """The throughput's: from the repeats where they are enough, else from the blocks of steps."""
        rates = self.rates
        if len(rates) >= throughput.MIN_REPEATS:
            return throughput.interval_of_repeats(rates, self.rate(self.units[0]))
        return throughput.interval(np.concatenate(self.items(self.units[0])), self.times_s, self.seconds)

    def column(self, name: str) -> Array | None:
        """`flops` or `data_wait_s` of every timed step; None where a repeat has none."""
        columns = [getattr(timing.steps, name) for timing in self.timings]
        return None if any(column is None for column in columns) else np.concatenate(columns)

    def cpu_seconds(self, counter: str) -> float:
        """CPU seconds within all windows, by the samples of `cpu_s`, `controller_cpu_s` or `host_cpu_s`."""
        samples = self.log.controller.all(events.Sample)
        return sum(utilisation.cpu_seconds(samples, timing.window, counter) for timing in self.timings)

    @property
    def cores(self) -> float | None:
        header = self.log.controller.last(events.Header)
        return header.cores if header else None

    @property
    def timing_logs(self) -> list[events.Log]:
        """The timing passes that ran, whatever became of them. Raises Absent where the first didn't."""
        first = self.log_of(self.timing_names[0])
        return [first, *(self.log.passes[name] for name in self.timing_names[1:] if name in self.log.passes)]

    @property
    def matrix_products(self) -> list[events.MatrixProduct]:
        return [product for log in self.timing_logs for product in log.all(events.MatrixProduct)]

    @property
    def losses(self) -> Array:
        """Of all training steps of the first timing pass, in order: compile, warm-up, timed."""
        log = self.log_of(self.timing_names[0])
        return np.concatenate([np.empty(0), *(read.values for read in log.all(events.Losses))])

    @property
    def skipped_updates(self) -> float:
        """Updates of all timed steps that fp16's loss scaling left out."""
        logs = [self.log_of(timing.name) for timing in self.timings]
        return sum(read.skipped for log in logs for read in log.all(events.Losses) if read.phase == "timed")

    # ---- trace and memory

    @cached_property
    def traced(self) -> events.Trace:
        found = self.last("trace", events.Trace)
        if not found.steps:
            raise Absent("no step was traced")
        return found

    @cached_property
    def trace_recording(self) -> trace.Recording:
        """What of the trace is read, whole or cut."""
        return trace.read(self.spool / Path(self.traced.path).name)

    @property
    def trace_events(self) -> list[trace.Event]:
        """Every event of the traced steps. Raises Absent where the trace was cut: half of it is no step."""
        recorded = self.trace_recording
        if recorded.cut:
            raise Absent(
                f"the trace has more than {len(recorded.events):,} events, of which only so many are read: "
                "lower measure.trace_steps"
            )
        if not recorded.events:
            raise Absent("no operator is in the trace")
        return recorded.events

    @cached_property
    def trace_timed(self) -> breakdown.Timed:
        """What ran on the run's device in the traced steps, with each event's time."""
        return breakdown.timed(self.trace_events)

    @cached_property
    def gpu_step(self) -> idle.Step:
        return idle.step(self.trace_events, self.traced.unprofiled_s)

    @cached_property
    def memory_event(self) -> events.Memory:
        return self.last("memory", events.Memory)

    @cached_property
    def memory_record(self) -> memory.Record:
        return memory.read(self.spool / Path(self.memory_event.path).name)

    @cached_property
    def memory_breakdown(self) -> memory.Breakdown:
        return memory.breakdown(self.memory_record)
