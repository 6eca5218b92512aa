"""The sleep framework's known step times, items, allocations and warm-up give exactly the known figures."""

import json
from pathlib import Path

import numpy as np
import pytest

from tbd.measure.figures import INTERVAL, MEMORY, compute
from tests.measure.conftest import START, write_controller

EXACT = 1e-12  # rounding of a division or two

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
            "metrics": {"system/cpu_utilization_percentage": 75.0},
        }
        for t in times
    ]
    write_controller(spool, *samples)
    figures = compute(spool)
    assert figures.metrics["cpu_utilization"] == pytest.approx(0.75, rel=1e-9)
    assert figures.metrics["controller_cpu_share"] == pytest.approx(0.03125, rel=1e-9)
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
            "memory/weights_mb": 4,
            "memory/optimizer_state_mb": 4,
            "memory/feature_maps_mb": 9,
            "memory/weight_gradients_mb": 3,
            "memory/workspace_mb": 0,
            "memory/input_mb": 0.1,
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


def test_gpu_utilisation_is_by_the_unprofiled_step(run):
    kernels = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": stream, "ts": 1e6 * at, "dur": 1e5}
        for stream, at in ((7, 0.0), (8, 0.05), (7, 1.0))
    ]
    # 0.15 s of overlapping kernels in one step and 0.1 s in the other; an unprofiled step takes 4.5 s / 16
    metrics = compute(run(trace_events=kernels)).metrics
    assert metrics["gpu_compute_utilization"] == pytest.approx(0.125 / (WINDOW_S / 16), rel=1e-9)


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


def test_repeats(sleep_run):
    """Three processes: 16 steps of 0.25 s, then 0.5 s, then 0.5 s and 0.75 s in turn, one sample each."""
    steps = [0.25] * 16 + [0.5] * 16 + [0.5, 0.75] * 8
    spool, _ = sleep_run({"step_s": steps}, passes=["timing", "timing.2", "timing.3"])
    figures = compute(spool)
    assert figures.metrics["throughput"] == 4
    assert [row["throughput"] for row in figures.tables["repeats"]] == [4, 2, 1.6]
    assert figures.metrics["throughput_repeats_median"] == 2
    assert figures.metrics["throughput_repeats_spread"] == pytest.approx(1.2, rel=EXACT)


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


def test_documented_metrics_are_those_computed(run):
    """docs/metrics.md has a row for every figure, and none for another."""
    text = (Path(__file__).parent.parent.parent / "docs" / "metrics.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    documented = {name.strip("` ") for row in rows for name in row.split(", ")}
    figures = compute(run())
    assert documented - {"throughput_UNIT"} == {*figures.metrics, *figures.absent} - {"throughput_sentences"}
