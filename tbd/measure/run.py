"""The facts of one run that its figures are made of: each as it was recorded, or Absent with what became of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from tbd.measure import (
    breakdown,
    counters,
    events,
    flops,
    idle,
    jsonl,
    largest_batch,
    memory,
    network,
    ranks,
    roofline,
    siblings,
    steps,
    throughput,
    trace,
    utilisation,
)
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
        self._ranks_apart = ""  # why the ranks' logs can't be taken together
        if self.log.ranks:
            self._take_together()

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

    # ---- ranks

    @property
    def world_size(self) -> int:
        value = self.request.get("world_size")
        return value if isinstance(value, int) and value > 0 else 1

    def node_of(self, rank: int) -> int:
        devices = self.section("hardware").get("devices")
        return rank // devices if isinstance(devices, int) and devices > 0 else 0

    def machine(self, node: int) -> str:
        """The boot id of the node's machine: nodes may be processes of one machine. "" where it is not known."""
        header = self.log.nodes[node].last(events.Header) if node in self.log.nodes else None
        return header.boot_id if header else ""

    def _take_together(self) -> None:
        """Make one log of the ranks' logs of each pass."""
        names = dict.fromkeys(name for logs in self.log.ranks.values() for name in logs)
        machines = {rank: self.machine(self.node_of(rank)) for rank in self.log.ranks}
        self._shift: dict[str, dict[int, float]] = {}
        for name in names:
            logs = {rank: passes[name] for rank, passes in self.log.ranks.items() if name in passes}
            try:
                self._shift[name] = ranks.offsets(logs, machines)
            except Absent as reason:
                self._ranks_apart = str(reason)
                return
            self.log.passes[name] = ranks.merged(logs, self._shift[name], self.world_size)

    @cached_property
    def _timing_ranks(self) -> tuple[str, dict[int, tuple[events.Window, events.Steps]]]:
        """(the first timing pass that is whole, {rank: its own window and timed steps}); Absent with one rank."""
        if self.world_size == 1:
            raise Absent("the run has one process")
        name = self.timings[0].name
        found = {}
        for rank, passes in self.log.ranks.items():
            window, timed = passes[name].last(events.Window), passes[name].steps("timed")
            if window is not None and timed is not None:
                found[rank] = (window, timed)
        return name, found

    @property
    def rank_table(self) -> list[dict[str, Any]]:
        """A row a rank: ranks.table, with its node."""
        name, found = self._timing_ranks
        rows = ranks.table(found, {rank: passes[name] for rank, passes in self.log.ranks.items()})
        return [{"rank": row["rank"], "node": self.node_of(row["rank"]), **row} for row in rows]

    @property
    def rank_steps(self) -> list[events.Steps]:
        return [timed for _, timed in self._timing_ranks[1].values()]

    @property
    def rank_seconds(self) -> float:
        """Wall time of the window that rank_steps are of."""
        self.rank_steps  # noqa: B018  # raises Absent with one rank
        return self.timings[0].window.seconds

    @property
    def sent_mb_per_step(self) -> float:
        if self.world_size == 1:
            raise Absent("the run has one process")
        return ranks.sent_mb_per_step(self.timings[0].window, self.world_size)

    @property
    def ring_mb_per_step(self) -> float:
        if self.world_size == 1:
            raise Absent("the run has one process")
        model = self.log_of(self.timings[0].name).last(events.Model)
        return ranks.ring_mb_per_step(model.exchanged_bytes if model else None, self.world_size)

    @property
    def link(self) -> network.Link:
        """The way from the first node to the second, in the first timing pass."""
        name, _ = self._timing_ranks
        found = self.log_of(name).last(events.Link)
        if found is None:
            raise Absent("the run has one node, or its worker did not try the link to the second")
        clock = self.log.ranks[found.rank][name].last(events.Clock) if found.rank in self.log.ranks else None
        if clock is None:
            raise Absent("the ranks compared no clocks")
        return network.Link(min(found.there, found.back), clock.error_s)

    @property
    def scaling_efficiency(self) -> float:
        if self.world_size == 1:
            raise Absent("the run has one process")
        rate = self.rate(self.units[0])
        return ranks.scaling_efficiency(rate, self.world_size, siblings.single_throughput(self.spool, self.request))

    # ---- passes

    @property
    def files(self) -> Path:
        """The folder with the trace and the memory record: of several ranks, rank 0's."""
        return self.spool / "ranks" / "0" if self.log.ranks else self.spool

    @cached_property
    def asked(self) -> list[str] | None:
        """The passes of the request; None where it can't be read."""
        passes = self.section("measure").get("passes")
        return [str(name) for name in passes] if isinstance(passes, list) else None

    @property
    def several_ranks(self) -> str:
        """Why the logs of this run are not those of all its ranks, each in a file of its own; "" where they are."""
        if self._ranks_apart or self.log.ranks:
            return self._ranks_apart
        mixed = sorted({rank for log in self.log.passes.values() for rank in log.ranks})
        if len(mixed) > 1 or (mixed and self.world_size > 1):
            return (
                f"the run has several ranks, of which one file has {', '.join(mixed)} of {self.world_size}: each is "
                "to write into a folder of its own, and one rank's figures would not be the run's"
            )
        return ""

    def log_of(self, name: str) -> events.Log:
        """What the pass wrote, all ranks together. Raises Absent where it didn't run, or they can't be taken so."""
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

    # ---- what devices count themselves

    @property
    def devices(self) -> range:
        """The numbers of the run's GPUs in its samples, system/gpu_<number>_..."""
        devices = self.section("hardware").get("devices")
        return range(devices if isinstance(devices, int) else 1)

    def counted(self, what: str, read: Callable[[list[events.Sample], events.Window], float]) -> list[float]:
        """read(samples, window) of every timing pass. Raises Absent, with what the sampler said of it where it did."""
        if self.log.nodes:
            raise Absent("of several nodes it is not worked out")
        samples = self.log.controller.all(events.Sample)
        try:
            return [read(samples, timing.window) for timing in self.timings]
        except Absent:
            refused = [m.reason for m in self.log.controller.all(events.Missing) if m.what == what]
            if refused:
                raise Absent(refused[-1]) from None
            raise

    @property
    def energy_j(self) -> float:
        """What the run's GPUs, or the CPU, took in all windows."""
        names = [f"system/gpu_{number}_energy_joules" for number in self.devices]
        names = names if self.device == "gpu" else ["system/cpu_energy_joules"]
        what = "gpu_energy" if self.device == "gpu" else "cpu_energy"
        return sum(sum(self.counted(what, partial(counters.joules, name=name))) for name in names)

    def gpu_counter(self, name: str) -> float:
        """The mean share over all windows and GPUs of a counter that is sampled in per cent."""
        seconds = [timing.window.seconds for timing in self.timings]
        means = [
            self.counted("counters", partial(counters.mean, name=f"system/gpu_{number}_{name}_percentage"))
            for number in self.devices
        ]
        return float(np.average(np.mean(means, axis=0), weights=seconds)) / 100

    @property
    def fp32_source(self) -> str:
        """What fp32_utilization is of: "gpm", the GPU's counter, or "flops", the model's FLOPs, where it has none."""
        try:
            self.gpu_counter("fp32_active")
        except Absent:
            if self.precision != "fp32":
                raise
            return "flops"
        return "gpm"

    @property
    def throttled(self) -> list[str]:
        """Why clocks of the run's GPUs were held down within its windows; [] where they never were."""
        found = [
            counters.throttled(
                self.log.controller.all(events.Sample), timing.window, f"system/gpu_{number}_clock_reasons"
            )
            for timing in self.timings
            for number in self.devices
        ]
        return list(dict.fromkeys(reason for reasons in found for reason in reasons))

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
        """CPU seconds within all windows, by the samples of `cpu_s`, `controller_cpu_s` or `host_cpu_s`.

        Of several nodes their sum, by each node's own clock; a machine that several of them share counts once.
        """
        if not self.log.nodes:
            samples = self.log.controller.all(events.Sample)
            return sum(utilisation.cpu_seconds(samples, timing.window, counter) for timing in self.timings)
        nodes = self._machines.values() if counter == "host_cpu_s" else self.log.nodes
        total = 0.0
        for timing in self.timings:
            for node in nodes:
                shift = next((s for rank, s in self._shift[timing.name].items() if self.node_of(rank) == node), 0.0)
                window = replace(timing.window, begin=timing.window.begin - shift, end=timing.window.end - shift)
                total += utilisation.cpu_seconds(self.log.nodes[node].all(events.Sample), window, counter)
        return total

    @property
    def _machines(self) -> dict[str, int]:
        """{machine: one of its nodes}; a node whose machine is not known is one of its own."""
        return {self.machine(node) or f"node {node}": node for node in self.log.nodes}

    @property
    def cores(self) -> float | None:
        if not self.log.nodes:
            header = self.log.controller.last(events.Header)
            return header.cores if header else None
        headers = [self.log.nodes[node].last(events.Header) for node in self._machines.values()]
        cores = [header.cores for header in headers if header and header.cores]
        return sum(cores) if len(cores) == len(headers) else None

    @property
    def timing_logs(self) -> list[events.Log]:
        """The timing passes that ran, whatever became of them. Raises Absent where the first didn't."""
        first = self.log_of(self.timing_names[0])
        return [first, *(self.log.passes[name] for name in self.timing_names[1:] if name in self.log.passes)]

    @property
    def matrix_products(self) -> list[events.MatrixProduct]:
        return [product for log in self.timing_logs for product in log.all(events.MatrixProduct)]

    @property
    def memory_copies(self) -> list[events.MemoryCopy]:
        return [copy for log in self.timing_logs for copy in log.all(events.MemoryCopy)]

    @property
    def device_name(self) -> str:
        """Of the first of the devices that the run computes on. Raises Absent where the worker named none."""
        found = self.timing_logs[0].last(events.Devices)
        if found is None or not found.names:
            raise Absent("the worker named no device")
        return found.names[0]

    @property
    def trials(self) -> list[events.Trial]:
        """Of the search for the largest batch, by batch size."""
        return sorted(self.log_of("max_batch").all(events.Trial), key=lambda trial: trial.batch_size)

    @property
    def max_batch(self) -> int:
        """The largest batch that was found to fit."""
        if self.asked is not None and "max_batch" not in self.asked:
            raise Absent("it was not searched for (measure.find_max_batch)")
        found = self.last("max_batch", events.MaxBatch).fits
        if found is None:
            raise Absent("not even a batch of 1 fits")
        return found

    @cached_property
    def _memory_by_batch(self) -> tuple[list[int], list[float], float]:
        """(batch sizes, their trials' resident memory, the limit), of those that fit but the largest, which is what the
        prediction is held against; both where only two fit."""
        self.max_batch  # noqa: B018  # says why there was no search
        limit = self.last("max_batch", events.MaxBatch).limit_bytes
        known = [(t.batch_size, t.rss_peak_bytes) for t in self.trials if t.fits and t.rss_peak_bytes is not None]
        if limit is None:
            raise Absent("no limit was stated (measure.memory_limit_mb)")
        if not known:
            raise Absent("no trial told its memory")
        known = known[:-1] if len(known) > 2 else known
        return [size for size, _ in known], [peak for _, peak in known], limit

    @property
    def max_batch_predicted(self) -> int:
        """The largest batch by the line through the trials' memory, and the limit."""
        return largest_batch.predicted(*self._memory_by_batch)

    @property
    def max_batch_interval(self) -> tuple[int, int]:
        """The 95 % interval of that."""
        return largest_batch.interval(*self._memory_by_batch)

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
        return trace.read(self.files / Path(self.traced.path).name)

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

    @property
    def trace_calls(self) -> list[trace.Call]:
        """The operators of the traced steps whose work is known."""
        self.trace_events  # noqa: B018  # raises Absent where the trace was cut
        if not self.trace_recording.calls:
            raise Absent("the trace tells of no operator what it has to do")
        return self.trace_recording.calls

    @property
    def roof(self) -> roofline.Roof | None:
        """Of the device that was traced, in the run's precision; None where it was not measured."""
        logs = self.timing_logs
        if self.log.ranks:  # the trace is rank 0's
            logs = [self.log.ranks[0][name] for name in self.timing_names if name in self.log.ranks[0]]
        try:
            return roofline.Roof(
                flops.peak_tflops_measured([p for log in logs for p in log.all(events.MatrixProduct)], self.precision),
                flops.bandwidth_measured([c for log in logs for c in log.all(events.MemoryCopy)]),
            )
        except Absent:
            return None

    @cached_property
    def gpu_step(self) -> idle.Step:
        return idle.step(self.trace_events, self.traced.unprofiled_s)

    @cached_property
    def memory_event(self) -> events.Memory:
        return self.last("memory", events.Memory)

    @cached_property
    def memory_record(self) -> memory.Record:
        return memory.read(self.files / Path(self.memory_event.path).name)

    @property
    def batch_size(self) -> int:
        value = self.request.get("batch_size")
        if not isinstance(value, int):
            raise Absent("the request names no batch size")
        return value

    @property
    def memory_taken_mb(self) -> float:
        """What limits the batch: the highest resident memory in warm steps; on a GPU the allocator's peak."""
        resident, peak = self.memory_event.rss_peak_bytes, self.memory_record.peak_bytes
        taken = resident if self.device == "cpu" else peak
        if taken is None:
            raise Absent("what the run took of memory is not known")
        return taken / 1e6

    @cached_property
    def memory_breakdown(self) -> memory.Breakdown:
        return memory.breakdown(self.memory_record)
