"""The sleep framework's known step times, items, allocations and warm-up give exactly the known figures."""

import json
from pathlib import Path

import numpy as np
import pytest

from tbd.measure import memory
from tbd.measure.figures import compute
from tbd.measure.metrics import METRICS
from tests.measure.conftest import START, write_controller

EXACT = 1e-12  # rounding of a division or two
INTERVAL = METRICS["throughput"].interval
MEMORY = [name for name in METRICS if name.startswith("memory/") and name != "memory/outside_allocator_mb"]

# 16 steps: 15 of 0.25 s and one of 0.5 s, then 0.25 s until the synchronisation: a window of 4.5 s
STEPS = [0.25] * 15 + [0.5]
OPTIONS = {
    "phase_s": {"import": 0.5, "data": 0.125, "build": 1.5},
    "compile_s": [2.0, 1.0],
    "warmup_s": [0.75, 0.5, 0.25, 0.25, 0.25],
    "step_s": STEPS,
    "tail_s": 0.25,
    "items": {"tokens": [100, 200], "sentences": 4},
    "flops": 9e9,
    "data_wait_s": 0.0625,
    "loss": [4.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0] + [2.0] * 11 + [1.0] * 5,
    "matrix_product": {"size": 1000, "seconds": [0.125, 0.0625, 0.5]},
}
WINDOW_BEGIN = START + 0.5 + 0.125 + 1.5 + 3.0 + 2.0
WINDOW_S = 4.5


@pytest.fixture
def run(sleep_run):
    def run(**options):
        spool, code = sleep_run({**OPTIONS, **options})
        assert code == 0
        return spool

    return run


def test_throughput_is_items_by_the_wall_time_of_the_window(run):
    metrics = compute(run()).metrics
    assert metrics["throughput"] == pytest.approx(8 * 300 / WINDOW_S, rel=EXACT)
    assert metrics["throughput_sentences"] == pytest.approx(16 * 4 / WINDOW_S, rel=EXACT)


def test_the_unit_of_throughput_is_the_models(run):
    assert compute(run()).tags["tbd.throughput_unit"] == "tokens"


def test_equal_steps_give_an_interval_without_width(run):
    metrics = compute(run(step_s=0.25, items={"tokens": 100}, tail_s=0)).metrics
    assert metrics["throughput"] == 400
    assert metrics["throughput_ci_low"] == pytest.approx(400, rel=EXACT)
    assert metrics["throughput_ci_high"] == pytest.approx(400, rel=EXACT)


def test_step_times(run):
    metrics = compute(run()).metrics
    assert metrics["step_time_p50_ms"] == 250
    # the 16 sorted times' ranks are 0..15: rank 13.5 is among the 0.25 s; rank 14.85 is 85 % of the way to the 0.5 s
    assert metrics["step_time_p90_ms"] == 250
    assert metrics["step_time_p99_ms"] == pytest.approx(250 + 0.85 * 250, rel=EXACT)
    assert metrics["step_time_jitter_ms"] == 0


# Enqueued at once, done by the device in 4.5 s: the window of the steps above.
ENQUEUED = {"step_s": 2**-10, "tail_s": WINDOW_S - 16 * 2**-10}


def test_a_devices_own_step_times_go_before_those_of_the_dispatch(run):
    figures = compute(run(**ENQUEUED, device_s=[0.25] * 14 + [0.5] * 2))
    assert figures.metrics["throughput"] == pytest.approx(8 * 300 / WINDOW_S, rel=EXACT)
    assert figures.metrics["step_time_p50_ms"] == 250
    assert figures.metrics["step_time_p99_ms"] == 500
    assert not figures.warnings


def test_without_them_step_times_show_the_dispatch_and_a_warning_says_so(run):
    figures = compute(run(**ENQUEUED))
    assert figures.metrics["step_time_p50_ms"] == pytest.approx(1000 * 2**-10, rel=EXACT)
    assert any("step times show the dispatch" in warning for warning in figures.warnings)


@pytest.mark.parametrize(
    ("device_s", "said"),
    [
        ([0.25] * 16, "11.1% of the window lies after the last step's end"),
        ([0.5] * 16, "ended 77.8% of the window after"),
    ],
)
def test_a_devices_times_that_do_not_fill_the_window_are_told(run, device_s, said):
    assert any(said in warning for warning in compute(run(**ENQUEUED, device_s=device_s)).warnings)


def test_times_of_a_device_that_are_not_one_a_step_are_not_taken(run):
    assert compute(run(device_s=[0.125] * 15)).metrics["step_time_p50_ms"] == 250


def test_updates_that_the_loss_scaling_left_out_are_counted_and_told(run):
    figures = compute(run(skipped=3))
    assert figures.metrics["skipped_updates"] == 3, "of the timed steps alone"
    assert any("3 updates of the timed steps were left out" in warning for warning in figures.warnings)
    assert compute(run()).metrics["skipped_updates"] == 0


def test_jitter_is_the_scaled_median_deviation(run):
    # the median is 0.375, every step is 0.125 from it
    assert compute(run(step_s=[0.25, 0.5])).metrics["step_time_jitter_ms"] == pytest.approx(1.4826 * 125, rel=EXACT)


def test_a_window_that_outlasts_its_steps_is_told(run):
    assert any("5.6% of the window lies after the last step's end" in told for told in compute(run()).warnings)
    assert compute(run(tail_s=0)).warnings == []


def test_warm_up_and_start(run):
    spool = run()
    write_controller(
        spool,
        {"event": "phase", "t": START - 8, "name": "environment"},
        {"event": "phase", "t": START - 1, "name": "launch"},
    )
    metrics = compute(spool).metrics
    assert {name: value for name, value in metrics.items() if name.startswith("startup_")} == {
        "startup_environment_s": 7,
        "startup_import_s": 0.5,
        "startup_data_s": 0.125,
        "startup_build_s": 1.5,
        "startup_compile_s": 3,
        "startup_first_step_s": 2,
    }
    assert metrics["warmup_steps"] == 5
    assert metrics["steady"] == 1


def test_steps_that_never_became_steady_are_told(run):
    figures = compute(run(steady=False))
    assert figures.metrics["steady"] == 0
    assert any("not steady" in told for told in figures.warnings)


def test_flops(run):
    metrics = compute(run()).metrics
    assert metrics["achieved_tflops"] == pytest.approx(16 * 9e9 / WINDOW_S / 1e12, rel=EXACT)
    assert metrics["peak_tflops_measured"] == pytest.approx(2 * 1000**3 / 0.0625 / 1e12, rel=EXACT)
    assert metrics["peak_age_s"] == 0
    # achieved and peak are both 0.032 TFLOP/s
    assert metrics["mfu"] == pytest.approx(1, rel=EXACT)


def test_more_than_the_peak_is_absent(run):
    figures = compute(run(flops=9.1e9))
    assert "mfu" not in figures.metrics
    assert "more than the measured peak" in figures.absent["mfu"]


def test_utilisation(run):
    spool = run()
    # 1.5 CPU seconds a second for the worker's tree and 0.03125 for the controller, sampled off the window's edges
    times = [WINDOW_BEGIN - 0.1 + 0.25 * n for n in range(20)]
    samples = [
        {
            "event": "sample",
            "t": t,
            "cpu_s": 1.5 * (t - START),
            "controller_cpu_s": 0.03125 * t,
            "host_cpu_s": 1.78125 * t,
            "metrics": {"system/cpu_utilization_percentage": 75.0},
        }
        for t in times
    ]
    write_controller(spool, *samples)
    figures = compute(spool)
    assert figures.metrics["cpu_utilization"] == pytest.approx(0.75, rel=1e-9)
    assert figures.metrics["controller_cpu_share"] == pytest.approx(0.03125, rel=1e-9)
    assert figures.metrics["other_cpu_cores"] == pytest.approx(0.25, rel=1e-9)
    assert any("other processes kept 0.25 cores busy" in warning for warning in figures.warnings)
    assert figures.metrics["data_wait_share"] == pytest.approx(16 * 0.0625 / WINDOW_S, rel=EXACT)
    series = figures.series["system/cpu_utilization_percentage"]
    assert [point.value for point in series] == [75.0] * 20
    assert [point.wall_time for point in series] == pytest.approx([1e9 + t - START for t in times], abs=1e-6)


def test_losses(run):
    figures = compute(run())
    # 23 losses: the last quarter is 5 of them
    assert figures.metrics["loss_first"] == 4
    assert figures.metrics["loss_last"] == 1
    assert figures.metrics["loss_ratio"] == 0.25
    assert [point.value for point in figures.series["loss"]] == OPTIONS["loss"]
    assert [point.step for point in figures.series["loss"]] == list(range(23))


def test_losses_have_the_times_of_their_steps(run):
    series = compute(run()).series["loss"]
    durations = np.diff([point.wall_time for point in series])
    assert durations[1:6] == pytest.approx([0.75, 0.5, 0.25, 0.25, 0.25], abs=1e-6)
    assert durations[6:] == pytest.approx(STEPS, abs=1e-6)


def test_throughput_over_time(run):
    # batches of 100 and 200 items at 0.25 s, the last of 0.5 s
    rates = [point.value for point in compute(run()).series["throughput_over_time"]]
    assert rates == [400, 800] * 7 + [400, 400]


def test_memory(run):
    buffers = [
        {"bytes": 4_000_000, "born": 0, "died": None, "category": "weights", "name": "w"},
        {"bytes": 4_000_000, "born": 0, "died": None, "category": "optimizer_state", "name": "w"},
        {"bytes": 1_000_000, "born": 10, "died": 20, "category": "feature_maps", "name": "early"},
        {"bytes": 9_000_000, "born": 20, "died": 40, "category": "feature_maps", "name": "relu"},
        {"bytes": 2_000_000, "born": 30, "died": 31, "category": "workspace", "name": "conv"},
        {"bytes": 3_000_000, "born": 31, "died": None, "category": "weight_gradients", "name": "w"},
        {"bytes": 100_000, "born": 5, "died": 50, "category": "input", "name": ""},
    ]
    record = {
        "schema": 1,
        "buffers": buffers,
        "steps": [1, 60],
        "phases": {},
        "allocator": {"name": "a", "peak_bytes": 20_300_000, "slack_bytes": 100_000},
        "method": "as scripted",
    }
    figures = compute(run(memory=record, rss_peak_bytes=120_300_000, model={"weights_bytes": 4_000_000}))
    # the peak is at 31, when the workspace is gone and the gradients have come: 20.1 MB tracked
    assert {name: figures.metrics[name] for name in MEMORY} == pytest.approx(
        {
            "memory/peak_mb": 20.3,
            "memory/feature_maps_highest_mb": 9,
            "memory/weights_mb": 4,
            "memory/optimizer_state_mb": 4,
            "memory/feature_maps_mb": 9,
            "memory/weight_gradients_mb": 3,
            "memory/workspace_mb": 0,
            "memory/input_mb": 0.1,
            "memory/communication_mb": 0,
            "memory/other_mb": 0.2,
            "memory/untracked_mb": 0.1,
            "memory/slack_mb": 0.1,
            "memory/feature_maps_share": 9 / 20.3,
            "memory/feature_maps_share_of_structures": 9 / 20,
        },
        rel=1e-9,
    )
    assert figures.metrics["memory/outside_allocator_mb"] == 100
    assert [row["name"] for row in figures.tables["memory_largest"]] == ["relu", "w", "w", "w", ""]
    assert [row["position"] for row in figures.tables["memory_timeline"]] == [1, 5, 10, 20, 30, 31, 40, 50]


def test_memory_bandwidth_is_what_a_copy_reads_and_writes(run):
    metrics = compute(run(memory_copy={"bytes": 2**30, "seconds": [0.5, 0.25, 1.0]})).metrics
    assert metrics["memory_bandwidth_measured"] == pytest.approx(2 * 2**30 / 0.25 / 1e9, rel=EXACT)


def test_operators(run):
    def op(name, begin, duration, thread=1):
        return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": thread, "ts": begin, "dur": duration}

    # two traced steps; "mm" runs within "linear", "add" on another thread at the same time
    events = [op("linear", 0, 1000), op("mm", 200, 600), op("add", 500, 1000, thread=2), op("mm", 2000, 600)]
    tables = compute(run(trace_events=events)).tables
    assert tables["operators"] == [
        {"name": "mm", "category": "cpu_op", "count_per_step": 1.0, "self_ms_per_step": 0.6, "share": 1200 / 2600},
        {"name": "add", "category": "cpu_op", "count_per_step": 0.5, "self_ms_per_step": 0.5, "share": 1000 / 2600},
        {"name": "linear", "category": "cpu_op", "count_per_step": 0.5, "self_ms_per_step": 0.2, "share": 400 / 2600},
    ]
    assert tables["trace"][0]["cpu_op_active_ms_per_step"] == (1500 + 600) / 2 / 1e3


def test_gpu_utilisation_is_by_the_unprofiled_time_of_the_same_steps(run):
    kernels = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": stream, "ts": 1e6 * at, "dur": 1e5}
        for stream, at in ((7, 0.0), (8, 0.05), (7, 1.0))
    ]
    # 0.15 s of overlapping kernels in one step and 0.1 s in the other; without the profiler both took 0.5 s
    metrics = compute(run(trace_events=kernels, trace_s=1.0, unprofiled_s=0.5)).metrics
    assert metrics["gpu_compute_utilization"] == pytest.approx(0.25 / 0.5, rel=1e-9)
    assert metrics["trace_disturbance"] == pytest.approx(2.0 / 0.5, rel=EXACT)


def test_steps_that_were_not_timed_without_the_profiler_have_neither(run):
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 0, "dur": 1e5}
    figures = compute(run(trace_events=[kernel], trace_s=1.0))
    for name in ("gpu_compute_utilization", "trace_disturbance"):
        assert "without the profiler" in figures.absent[name]


def test_everything_is_a_number_or_has_a_reason(run):
    figures = compute(run())
    assert not set(figures.metrics) & set(figures.absent)
    assert all(np.isfinite(list(figures.metrics.values())))
    assert all(figures.absent.values())
    assert json.loads(figures.to_json())["metrics"] == figures.metrics


def test_the_same_spool_gives_the_same_figures(run):
    spool = run()
    assert compute(spool) == compute(spool)


def test_real_sleeps_are_bounded_by_their_times(sleep_run):
    """A sleep takes at least its time: whatever the machine's load, the figures stay on the known side."""
    spool, code = sleep_run({"mode": "sleep", "step_s": 0.01, "items": {"images": 8}}, passes=["timing"])
    metrics = compute(spool).metrics
    assert code == 0
    assert 0 < metrics["throughput"] <= 8 / 0.01
    assert metrics["throughput_ci_low"] <= metrics["throughput"] <= metrics["throughput_ci_high"]
    assert metrics["step_time_p50_ms"] >= 10
    assert metrics["startup_first_step_s"] >= 0.01
    assert metrics["warmup_steps"] == 4


REPEATS = ["timing", "timing.2", "timing.3"]


def test_throughput_is_over_all_repeats(sleep_run):
    """Three processes: 16 steps of 0.25 s, then of 0.5 s, then 0.5 s and 0.75 s in turn, one sample each: 22 s."""
    steps = [0.25] * 16 + [0.5] * 16 + [0.5, 0.75] * 8
    spool, _ = sleep_run({"step_s": steps, "flops": 1e9, "data_wait_s": 0.125}, passes=REPEATS)
    figures = compute(spool)
    assert figures.metrics["throughput"] == pytest.approx(48 / 22, rel=EXACT)
    assert [row["throughput"] for row in figures.tables["repeats"]] == [4, 2, 1.6]
    assert figures.metrics["throughput_repeats_median"] == 2
    assert figures.metrics["throughput_repeats_spread"] == pytest.approx(1.2, rel=EXACT)
    assert figures.metrics["step_time_p50_ms"] == 500
    assert figures.metrics["step_time_p90_ms"] == 750  # 8 of 48 steps
    assert figures.metrics["achieved_tflops"] == pytest.approx(48 / 22 / 1e3, rel=EXACT)
    assert figures.metrics["data_wait_share"] == pytest.approx(48 * 0.125 / 22, rel=EXACT)
    assert [point.step for point in figures.series["throughput_over_time"]][-1] == 47


def test_three_repeats_give_the_interval_themselves(sleep_run):
    """Windows of 4, 5 and 8 s, steady within: blocks of steps would see no noise at all."""
    steps = [0.25] * 16 + [0.3125] * 16 + [0.5] * 16
    spool, _ = sleep_run({"step_s": steps}, passes=REPEATS)
    figures = compute(spool)
    rates = [4.0, 3.2, 2.0]
    half = 4.302652729749464 * np.std(rates, ddof=1) / np.sqrt(3)  # t(0.975, 2), from a printed table: 4.303
    rate = 48 / 17
    assert figures.metrics["throughput"] == pytest.approx(rate, rel=EXACT)
    assert figures.metrics["throughput_ci_low"] == pytest.approx(max(0, rate - half), rel=1e-9)
    assert figures.metrics["throughput_ci_high"] == pytest.approx(rate + half, rel=1e-9)
    assert figures.tags["tbd.throughput_interval"] == "Student's t over 3 repeats"


def test_two_repeats_have_the_interval_of_their_blocks(sleep_run):
    spool, _ = sleep_run({"step_s": [0.25] * 16 + [0.5] * 16}, passes=REPEATS[:2])
    figures = compute(spool)
    assert figures.metrics["throughput"] == pytest.approx(32 / 12, rel=EXACT)
    assert figures.metrics["throughput_ci_low"] < 32 / 12 < figures.metrics["throughput_ci_high"]
    assert figures.tags["tbd.throughput_interval"] == "bootstrap over blocks of 6 steps"


def test_a_repeat_that_failed_is_told_and_the_others_count(sleep_run):
    fault = {"kind": "out_of_memory", "pass": "timing.3"}
    spool, _ = sleep_run({"step_s": [0.25] * 16 + [0.5] * 16, "fault": fault}, passes=REPEATS)
    figures = compute(spool)
    assert figures.metrics["throughput"] == pytest.approx(32 / 12, rel=EXACT)
    assert any(
        told.startswith("throughput is of 2 of 3 timing passes (timing.3: the timing.3 pass ended as out_of_memory")
        for told in figures.warnings
    )


def test_one_repeat_that_was_not_steady_makes_the_run_not_steady(sleep_run):
    spool, _ = sleep_run({"step_s": 0.25}, passes=REPEATS)
    lines = (spool / "events.jsonl").read_text().splitlines(keepends=True)
    second = next(n for n, line in enumerate(lines) if '"steady"' in line and '"timing.2"' in line)
    lines[second] = lines[second].replace('"steady": true, "steps": 4', '"steady": false, "steps": 8')
    (spool / "events.jsonl").write_text("".join(lines))
    metrics = compute(spool).metrics
    assert (metrics["steady"], metrics["warmup_steps"]) == (0, 8)


def test_cpu_time_is_of_all_windows_and_of_nothing_between(sleep_run):
    """Two windows of 4 s with 2 cores' work, and 8 s of a busy import before each that must not count."""
    options = {"step_s": 0.25, "phase_s": {"import": 8.0}, "warmup_s": [0.5]}
    spool, _ = sleep_run(options, passes=REPEATS[:2])
    windows = [json.loads(line) for line in (spool / "events.jsonl").read_text().splitlines()]
    windows = [(event["begin"], event["end"]) for event in windows if event["event"] == "window"]

    def cpu_s(t):
        inside = sum(min(max(t, begin), end) - begin for begin, end in windows)
        return 1.0 * inside + 2.0 * (t - START - inside)

    times = np.arange(START, windows[-1][1] + 1, 0.25)
    write_controller(spool, *({"event": "sample", "t": t, "cpu_s": cpu_s(t), "metrics": {}} for t in times))
    assert compute(spool).metrics["cpu_utilization"] == pytest.approx(0.5, rel=1e-9)


def test_too_few_steps_have_no_interval(sleep_run):
    spool, _ = sleep_run({"step_s": 0.25}, steps=11)
    figures = compute(spool)
    assert figures.metrics["throughput"] == 4
    assert {figures.absent[name] for name in INTERVAL} == {
        "an interval needs at least 12 timed steps, there are 11: raise measure.steps"
    }


def test_a_run_without_passes_says_so(sleep_run):
    spool, _ = sleep_run({}, passes=["timing"])
    figures = compute(spool)
    assert figures.absent["memory/peak_mb"] == "the memory pass was not asked for (measure.passes)"
    assert "operators" not in figures.tables


def documented():
    """{name: unit} of the rows of docs/metrics.md."""
    text = (Path(__file__).parent.parent.parent / "docs" / "metrics.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    found = {}
    for row in rows:
        names, units = ([part.strip(" `") for part in cell.split(",")] for cell in row[1:3])
        found |= zip(names, units * len(names) if len(units) == 1 else units, strict=True)
    return found


def test_documented_metrics_are_those_of_the_table_with_their_units():
    assert documented() == {name: metric.unit for name, metric in METRICS.items()} | {"throughput_UNIT": "UNIT/s"}


def test_computed_metrics_are_those_of_the_table(run):
    figures = compute(run())
    assert {*figures.metrics, *figures.absent} == {*METRICS, "throughput_sentences"}


def test_a_metric_that_nothing_makes_says_why_on_every_device():
    for metric in METRICS.values():
        assert metric.make or set(metric.absent_on) == {"cpu", "gpu"}, metric.name
        assert metric.meaning and set(metric.interval) <= set(METRICS)


def test_every_memory_category_has_a_metric():
    assert {f"memory/{name}_mb" for name in memory.CATEGORIES} <= set(METRICS)
