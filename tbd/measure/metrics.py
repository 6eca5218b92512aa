"""The table of metrics: every figure's name, unit, meaning and how it is made. A new figure is a line here.

docs/metrics.md has the formulas and their sources; figures.py, the terminal and summary.html read this table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tbd.measure import (
    breakdown,
    datasheets,
    flops,
    loss,
    memory,
    network,
    ranks,
    startup,
    steps,
    throughput,
    trace,
    utilisation,
)
from tbd.measure.events import Absent
from tbd.measure.run import Run

SPEED = "Speed"
START = "Start"
USE = "Use of the device"
REST = "Where the rest of the step goes"
ENERGY = "Energy"
MEMORY = "Memory"
TRAINING = "Training"
OTHER = "Other"

ITEMS = "items/s"  # the unit of what counts the model's own items: images/s, tokens/s, ...
SHARE = "share"  # shown in per cent


@dataclass(frozen=True)
class Metric:
    """One figure.

    unit: as in docs/metrics.md, "" for none. make: gives the value of a Run, or raises Absent; None where nothing does.
    form: the format of the number shown; "" for four significant digits. interval: the metrics that are its 95 %
    interval's ends, shown beside it. terminal: whether it is in the table at a run's end.
    absent_on: {cpu or gpu: why it can't be had there}.
    """

    name: str
    unit: str
    meaning: str
    group: str
    make: Callable[[Run], float] | None = None
    form: str = ""
    interval: tuple[str, ...] = ()
    terminal: bool = False
    absent_on: Mapping[str, str] = field(default_factory=dict)

    def value(self, run: Run) -> float:
        """Raises Absent."""
        if run.device in self.absent_on:
            raise Absent(self.absent_on[run.device])
        if self.make is None:
            raise Absent("it is not measured")
        return self.make(run)

    def number(self, value: float) -> str:
        """The number as a person is to read it, without its unit."""
        shown = value * (100 if self.unit == SHARE else 1)
        return format(shown, self.form) if self.form else number(shown)

    def unit_shown(self, items: str) -> str:
        """The unit beside that number; `items`: what the run's throughput counts."""
        return {SHARE: "%", ITEMS: f"{items}/s"}.get(self.unit, self.unit)


def number(value: float) -> str:
    """Four significant digits, without an exponent where that reads well."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if size >= 0.001 or value == 0 else f"{value:.2e}"


def _startup(phase: str) -> Callable[[Run], float]:
    return lambda run: startup.phase_s(run.timing_logs[0], phase)


def _step_time(percent: float) -> Callable[[Run], float]:
    return lambda run: steps.percentile_ms(run.times_s, percent)


def _loss(name: str) -> Callable[[Run], float]:
    def make(run: Run) -> float:
        found = loss.losses(run.losses)
        if name not in found:
            raise Absent("the first loss is not above 0")
        return found[name]

    return make


def _memory(name: str) -> Callable[[Run], float]:
    def make(run: Run) -> float:
        found = memory.figures(run.memory_record, run.memory_breakdown)
        if name not in found:
            raise Absent("the framework's allocator told no peak")
        return found[name]

    return make


def _phase_share(run: Run, phase: str) -> float:
    return breakdown.phase_share(run.trace_timed, phase)


def _peak_tflops(run: Run) -> float:
    products = run.matrix_products
    if not products and (reason := run.missing("peak")) is not None:
        raise Absent(reason)
    return flops.peak_tflops_measured(products, run.precision)


def _peak_age(run: Run) -> float:
    """The oldest, of those that the peak may be of; those of later passes of the run are younger than its first."""
    _peak_tflops(run)
    return max(product.age_s for product in run.matrix_products if product.precision == run.precision)


def _datasheet_tflops(run: Run) -> float:
    return datasheets.tflops(run.device_name, run.precision)


def _bandwidth(run: Run) -> float:
    copies = run.memory_copies
    if not copies and (reason := run.missing("peak")) is not None:
        raise Absent(reason)
    return flops.bandwidth_measured(copies)


def _fp32_utilization(run: Run) -> float:
    if run.fp32_source == "gpm":
        return run.gpu_counter("fp32_active")
    return flops.mfu(_achieved_tflops(run), _peak_tflops(run))


def _achieved_tflops(run: Run) -> float:
    return flops.achieved_tflops(run.column("flops"), run.seconds)


_NO_TRIALS_MEMORY = {"gpu": "a trial's memory on a GPU is not known"}
_NO_SHEET = {"cpu": "data sheets of CPUs state no such peak"}
_NO_GPU = {"cpu": "the run has no GPU"}

_TABLE = (
    Metric(
        "throughput", ITEMS, "items by wall time, over all timed steps", SPEED, lambda run: run.rate(run.units[0]),
        form=",.2f", interval=("throughput_ci_low", "throughput_ci_high"), terminal=True,
    ),
    Metric("throughput_ci_low", ITEMS, "lower end of its 95 % interval", SPEED, lambda run: run.interval.low, ",.2f"),
    Metric("throughput_ci_high", ITEMS, "upper end of its 95 % interval", SPEED, lambda run: run.interval.high, ",.2f"),
    Metric(
        "throughput_repeats_median", ITEMS, "median of the repeats", SPEED,
        lambda run: throughput.repeats(run.rates)[0], ",.2f",
    ),
    Metric(
        "throughput_repeats_spread", SHARE, "largest less smallest repeat, of their median", SPEED,
        lambda run: throughput.repeats(run.rates)[1], ".1f",
    ),
    Metric(
        "step_time_mean_ms", "ms", "step time, mean", SPEED, lambda run: steps.mean_ms(run.seconds, len(run.times_s)),
        ",.1f",
    ),
    Metric("step_time_p50_ms", "ms", "step time, median", SPEED, _step_time(50), ",.1f", terminal=True),
    Metric("step_time_p90_ms", "ms", "step time, 90th percentile", SPEED, _step_time(90), ",.1f"),
    Metric("step_time_p99_ms", "ms", "step time, 99th percentile", SPEED, _step_time(99), ",.1f", terminal=True),
    Metric(
        "step_time_jitter_ms", "ms", "step time, spread without outliers", SPEED,
        lambda run: steps.jitter_ms(run.times_s), ",.2f",
    ),
    Metric(
        "warmup_steps", "steps", "warm-up", START, lambda run: startup.warmup(run.timing_logs)["warmup_steps"], ",.0f",
        terminal=True,
    ),
    Metric(
        "steady", "", "1 where the warm-up ended steady, 0 where not", START,
        lambda run: startup.warmup(run.timing_logs)["steady"], ".0f",
    ),
    Metric(
        "startup_environment_s", "s", "finding or building the environment", START,
        lambda run: startup.phase_s(run.log.controller, "environment"), ",.2f",
    ),
    Metric("startup_import_s", "s", "importing the framework", START, _startup("import"), ",.2f"),
    Metric("startup_data_s", "s", "opening the data", START, _startup("data"), ",.2f"),
    Metric("startup_build_s", "s", "building the network", START, _startup("build"), ",.2f"),
    Metric("startup_compile_s", "s", "compiling every shape", START, _startup("compile"), ",.2f"),
    Metric(
        "startup_first_step_s", "s", "the very first step", START, lambda run: startup.first_step_s(run.timing_logs[0]),
        ",.2f",
    ),
    Metric(
        "data_wait_share", SHARE, "waiting for data", REST,
        lambda run: utilisation.data_wait_share(run.column("data_wait_s"), run.seconds), ".1f", terminal=True,
    ),
    Metric(
        "emulator_share", SHARE, "waiting for emulators, a part of that", REST,
        lambda run: utilisation.emulator_share([t.window.emulator_s for t in run.timings], run.seconds), ".1f",
    ),
    *(
        Metric(name, SHARE, meaning, REST, make, ".1f", absent_on={"cpu": "the run has no GPU"})
        for name, meaning, make in (
            ("copy_share", "copies to, from and within the GPU", lambda run: run.gpu_step.share("copy")),
            (
                "copy_exposed_share", "copies that nothing computes beside",
                lambda run: run.gpu_step.exposed_share("copy"),
            ),
            ("idle_share", "nothing runs on the GPU", lambda run: run.gpu_step.idle_share),
            (
                "idle_launch_share", "of that: the host is in operators, the GPU waits for work (launch-bound)",
                lambda run: run.gpu_step.causes["launch"],
            ),
            (
                "idle_synchronisation_share", "of that: the host waits for the GPU",
                lambda run: run.gpu_step.causes["synchronisation"],
            ),
            (
                "idle_outside_share", "of that: the host is in no operator, as while it waits for data",
                lambda run: run.gpu_step.causes["outside"],
            ),
        )
    ),
    *(
        Metric(
            f"{phase}_share", SHARE, f"{meaning}, of the traced steps' time whose phase is known", REST,
            partial(_phase_share, phase=phase), ".1f",
        )
        for phase, meaning in (
            ("forward", "forward pass"), ("backward", "backward pass"), ("update", "update of the weights"),
        )
    ),
    Metric(
        "communication_share", SHARE, "waiting for other ranks", REST,
        lambda run: ranks.communication_share(run.rank_steps, run.rank_seconds), ".1f",
    ),
    Metric(
        "exchange_ms", "ms", "a step's exchanges with other ranks under way, median", REST,
        lambda run: ranks.exchange_ms(run.rank_steps),
    ),
    Metric(
        "exchange_overlap_share", SHARE, "of that, beside computation", REST,
        lambda run: ranks.overlap_share(run.rank_steps), ".1f",
    ),
    Metric(
        "link_gbit_per_s", "Gbit/s", "between two nodes, of one TCP connection", REST,
        lambda run: run.link.bytes_per_s * network.GBIT_IN_BYTE,
    ),
    Metric("link_latency_us", "us", "a short message between two nodes", REST, lambda run: run.link.latency_s * 1e6),
    Metric("exchanged_mb_per_step", "MB", "sent by a rank a step", REST, lambda run: run.sent_mb_per_step),
    Metric(
        "exchanged_of_ring", "times", "of what a ring must send at least", REST,
        lambda run: run.sent_mb_per_step / run.ring_mb_per_step,
    ),
    Metric(
        "scaling_efficiency", SHARE, "of as many times one device's throughput", REST,
        lambda run: run.scaling_efficiency, ".1f",
    ),
    Metric(
        "cpu_utilization", SHARE, "CPU utilisation, of the usable cores", USE,
        lambda run: utilisation.cpu_utilization(run.cpu_seconds("cpu_s"), run.cores, run.seconds), ".1f", terminal=True,
    ),
    Metric(
        "controller_cpu_share", SHARE, "the measurement's own cost, of one core", USE,
        lambda run: utilisation.controller_cpu_share(run.cpu_seconds("controller_cpu_s"), run.seconds), ".2f",
    ),
    Metric(
        "other_cpu_cores", "cores", "kept busy by other processes", USE,
        lambda run: utilisation.other_cpu_cores(
            run.cpu_seconds("host_cpu_s"), run.cpu_seconds("cpu_s"), run.cpu_seconds("controller_cpu_s"), run.seconds
        ),
    ),
    Metric("achieved_tflops", "TFLOP/s", "achieved, of the model's FLOPs", USE, _achieved_tflops, terminal=True),
    Metric("peak_tflops_measured", "TFLOP/s", "the device's peak, by a matrix product", USE, _peak_tflops),
    Metric("peak_age_s", "s", "how long before the run that peak, and the bandwidth, were measured", USE, _peak_age),
    Metric(
        "peak_tflops_datasheet", "TFLOP/s", "the device's peak, as its data sheet states", USE, _datasheet_tflops,
        absent_on=_NO_SHEET,
    ),
    Metric(
        "mfu_datasheet", SHARE, "model FLOPs utilisation, of the data sheet's peak", USE,
        lambda run: flops.mfu(_achieved_tflops(run), run.world_size * _datasheet_tflops(run)), ".1f",
        absent_on=_NO_SHEET,
    ),
    Metric(
        "memory_bandwidth_measured", "GB/s", "the device's memory bandwidth, by a copy", USE, _bandwidth,
    ),
    Metric(
        "mfu", SHARE, "model FLOPs utilisation, of the measured peak", USE,
        lambda run: flops.mfu(_achieved_tflops(run), _peak_tflops(run)), ".1f", terminal=True,
    ),
    Metric(
        "gpu_compute_utilization", SHARE, "kernels active, of the unprofiled time of the traced steps", USE,
        lambda run: trace.gpu_compute_utilization(run.trace_events, run.traced.unprofiled_s), ".1f", terminal=True,
    ),
    Metric(
        "trace_disturbance", "times", "how much longer the traced steps took by the profiler", USE,
        lambda run: trace.disturbance(run.traced), ".2f",
    ),
    *(
        Metric(name, SHARE, meaning, USE, partial(Run.gpu_counter, name=counter), ".1f", absent_on=_NO_GPU)
        for name, meaning, counter in (
            ("sm_utilization", "the GPU's multiprocessors busy", "sm_active"),
            ("tensor_utilization", "the GPU's tensor cores busy", "tensor_active"),
            ("sm_occupancy", "the GPU's warp slots in use", "sm_occupancy"),
            ("dram_utilization", "the GPU's memory bandwidth in use", "dram_active"),
        )
    ),
    Metric(
        "fp32_utilization", SHARE, "the GPU's fp32 units busy", USE, _fp32_utilization, ".1f", absent_on=_NO_GPU,
    ),
    Metric(
        "energy_j_per_item", "J/item", "the device's energy an item", ENERGY,
        lambda run: run.energy_j / sum(float(items.sum()) for items in run.items(run.units[0])),
    ),
    Metric("power_w_mean", "W", "the device's mean power", ENERGY, lambda run: run.energy_j / run.seconds, ",.1f"),
    Metric(
        "memory/peak_mb", "MB", "memory, peak of the allocator", MEMORY, _memory("memory/peak_mb"), ",.1f",
        terminal=True,
    ),
    *(
        Metric(name, "MB", f"{category.replace('_', ' ')} at that peak", MEMORY, _memory(name), ",.1f")
        for category in memory.CATEGORIES
        for name in [f"memory/{category}_mb"]
    ),
    Metric(
        "memory/untracked_mb", "MB", "within other: what the allocator held and no recorded buffer accounts for",
        MEMORY, _memory("memory/untracked_mb"), ",.2f",
    ),
    Metric(
        "memory/slack_mb", "MB", "within other: the allocator's slack, handed out beyond what was asked for", MEMORY,
        _memory("memory/slack_mb"), ",.2f",
    ),
    Metric(
        "memory/feature_maps_highest_mb", "MB", "feature maps, at their own highest in the step", MEMORY,
        lambda run: memory.feature_maps_highest_mb(run.memory_record), ",.1f", terminal=True,
    ),
    Metric(
        "memory/feature_maps_share", SHARE, "feature maps, of the allocator's peak", MEMORY,
        _memory("memory/feature_maps_share"), ".1f",
    ),
    Metric(
        "memory/feature_maps_share_of_structures", SHARE,
        "feature maps, of the first five structures alone as in the TBD paper", MEMORY,
        _memory("memory/feature_maps_share_of_structures"), ".1f",
    ),
    Metric(
        "memory/outside_allocator_mb", "MB", "beside it: resident memory that the allocator does not account for",
        MEMORY, lambda run: memory.outside_allocator_mb(run.memory_event.rss_peak_bytes, run.memory_record.peak_bytes),
        ",.1f",
        absent_on={"gpu": "the host's resident memory less a GPU's allocator means nothing"},
    ),
    Metric(
        "max_batch", "", "largest batch that fits into memory, found by trials", MEMORY, lambda run: run.max_batch,
        ",.0f",
    ),
    Metric(
        "max_batch_predicted", "", "the same by the line through the smaller trials' memory", MEMORY,
        lambda run: run.max_batch_predicted, ",.0f", interval=("max_batch_predicted_low", "max_batch_predicted_high"),
        absent_on=_NO_TRIALS_MEMORY,
    ),
    Metric(
        "max_batch_predicted_low", "", "lower end of its 95 % interval", MEMORY, lambda run: run.max_batch_interval[0],
        ",.0f", absent_on=_NO_TRIALS_MEMORY,
    ),
    Metric(
        "max_batch_predicted_high", "", "upper end of its 95 % interval", MEMORY, lambda run: run.max_batch_interval[1],
        ",.0f", absent_on=_NO_TRIALS_MEMORY,
    ),
    Metric("loss_first", "", "loss, first step", TRAINING, _loss("loss_first"), ".4f", terminal=True),
    Metric("loss_last", "", "loss, last steps", TRAINING, _loss("loss_last"), ".4f", terminal=True),
    Metric("loss_ratio", SHARE, "last loss, of the first", TRAINING, _loss("loss_ratio"), ".1f"),
    Metric(
        "skipped_updates", "", "updates of the timed steps that fp16's loss scaling left out", TRAINING,
        lambda run: run.skipped_updates, ".0f",
    ),
)  # fmt: skip
METRICS = {metric.name: metric for metric in _TABLE}
GROUPS = tuple(dict.fromkeys(metric.group for metric in _TABLE))


def find(name: str) -> Metric:
    """The metric's line. throughput_UNIT, of any other unit that a model counts, has one too, as has a foreign name."""
    if name in METRICS:
        return METRICS[name]
    unit = name.removeprefix("throughput_")
    if unit != name:
        return Metric(name, f"{unit}/s", f"{unit} by wall time, over all timed steps", SPEED, form=",.2f")
    return Metric(name, "", "", OTHER)
