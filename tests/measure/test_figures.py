"""Whatever a run leaves behind, its figures are what can be had honestly, and the rest has a reason."""

import json
import math
import random
import signal

import pytest

from tbd.measure.figures import Figures, compute
from tests.measure.conftest import write_controller, write_request

TIMING = ("throughput", "throughput_ci_low", "step_time_p50_ms", "achieved_tflops", "mfu", "cpu_utilization")


def absent_reasons(figures: Figures) -> set[str]:
    return {figures.absent[name] for name in TIMING}


def test_an_empty_folder(tmp_path):
    figures = compute(tmp_path)
    assert figures.metrics == {}
    assert figures.absent["throughput"] == "the timing pass did not run"


def test_a_run_that_ended_before_its_worker_began_says_why(tmp_path):
    write_request(tmp_path, {})
    write_controller(tmp_path, {"event": "end", "t": 1, "status": "environment_failed", "cause": "no Python 3.11"})
    assert absent_reasons(compute(tmp_path)) == {
        "the timing pass did not run; the run ended as environment_failed: no Python 3.11"
    }


def test_out_of_memory_in_the_warm_up(sleep_run):
    spool, code = sleep_run({"fault": {"kind": "out_of_memory", "phase": "warmup", "step": 2}})
    figures = compute(spool)
    assert code == 6
    assert absent_reasons(figures) == {
        "the timing pass ended as out_of_memory: out of memory in the phase warmup: try a smaller batch_size"
    }
    assert "startup_build_s" in figures.metrics
    assert figures.absent["memory/peak_mb"] == "the memory pass did not run"


def test_a_worker_killed_in_its_window(sleep_run):
    spool, code = sleep_run({"fault": {"kind": "signal", "step": 9}})
    write_controller(spool, {"event": "end", "t": 1, "status": "crashed", "cause": "killed by SIGKILL"})
    figures = compute(spool)
    assert code == -signal.SIGKILL
    assert absent_reasons(figures) == {
        "the timing pass stopped in the phase timed; the run ended as crashed: killed by SIGKILL"
    }
    assert figures.metrics["warmup_steps"] == 4


def test_a_worker_that_leaves_without_a_word(sleep_run):
    spool, code = sleep_run({"fault": {"kind": "no_end", "phase": "warmup"}})
    assert code == 0
    assert absent_reasons(compute(spool)) == {"the timing pass stopped in the phase warmup"}


def test_a_full_disk(sleep_run):
    spool, code = sleep_run({"fault": {"kind": "disk_full"}})
    assert code == 9
    assert absent_reasons(compute(spool)) == {f"the timing pass ended as crashed: the disk is full: {spool}"}


def test_an_unforeseen_error(sleep_run):
    spool, code = sleep_run({"fault": {"kind": "error"}})
    assert code == 1
    assert absent_reasons(compute(spool)) == {"the timing pass stopped in the phase timed"}


def test_a_diverged_loss_keeps_the_speed_and_has_no_loss(sleep_run):
    spool, code = sleep_run(
        {"loss": 2.0, "matrix_product": {"size": 4096, "seconds": [1]}, "fault": {"kind": "nan_loss"}}
    )
    figures = compute(spool)
    assert code == 7
    assert "throughput" in figures.metrics
    assert figures.absent["loss_last"] == "the loss is not finite at step 4"
    assert [point.value for point in figures.series["loss"]] == [2.0] * 19


def test_a_crash_after_the_window_keeps_the_figures(sleep_run):
    spool, _ = sleep_run({"fault": {"kind": "signal", "pass": "memory", "phase": "memory"}})
    figures = compute(spool)
    assert "throughput" in figures.metrics
    assert figures.absent["memory/peak_mb"] == "the memory pass stopped in the phase memory"


def test_what_the_worker_could_not_have_is_absent_with_its_reason_and_told(sleep_run):
    why = {"peak": "no room for the matrices", "trace": "no profiler here", "memory": "no allocator events"}
    spool, code = sleep_run({"absent": why, "matrix_product": {"size": 10, "seconds": [1.0]}})
    figures = compute(spool)
    assert code == 0
    assert "throughput" in figures.metrics
    for name, what in {
        "peak_tflops_measured": "peak",
        "mfu": "peak",
        "gpu_compute_utilization": "trace",
        "trace_disturbance": "trace",
        "memory/peak_mb": "memory",
        "memory/weights_mb": "memory",
        "memory/outside_allocator_mb": "memory",
    }.items():
        assert figures.absent[name] == why[what], name
    assert figures.warnings == [f"no {what}: {reason}" for what, reason in why.items()]


def test_several_ranks_in_one_log_are_no_figures_of_one(sleep_run):
    """Each has a file of its own: one rank's throughput must not pass for the run's."""
    spool, code = sleep_run({"ranks": [0, 1], "step_s": 0.25})
    figures = compute(spool)
    assert code == 0
    assert not [name for name in figures.metrics if not name.startswith("startup_environment")]
    assert "the run has several ranks, of which one file has 0, 1 of 1" in figures.absent["throughput"]
    assert any("several ranks" in told for told in figures.warnings)
    assert not figures.series and not figures.tables


def test_the_log_of_one_rank_of_several_is_no_run(sleep_run):
    spool, _ = sleep_run({"step_s": 0.25})
    request = json.loads((spool / "request.json").read_text())
    (spool / "request.json").write_text(json.dumps({**request, "world_size": 2}))
    figures = compute(spool)
    assert "the run has several ranks, of which one file has 0 of 2" in figures.absent["throughput"]


def on_gpu(spool):
    request = json.loads((spool / "request.json").read_text())
    (spool / "request.json").write_text(json.dumps({**request, "hardware": {"name": "single_gpu", "device": "gpu"}}))
    return compute(spool)


def test_host_memory_less_a_gpus_allocator_is_no_figure(sleep_run):
    spool, _ = sleep_run({"rss_peak_bytes": 10_000_000})
    assert compute(spool).metrics["memory/outside_allocator_mb"] == pytest.approx(9.996)
    assert "GPU's allocator" in on_gpu(spool).absent["memory/outside_allocator_mb"]


def test_a_gpus_data_sheet_is_beside_what_was_measured(sleep_run):
    spool, _ = sleep_run({"step_s": 1.0, "flops": 9.89e13, "matrix_product": {"size": 10**4, "seconds": [0.01]}})
    assert on_gpu(spool).absent["mfu_datasheet"].endswith("has no none"), "the table knows no such device"
    events = (spool / "events.jsonl").read_text().replace('"name": "none"', '"name": "NVIDIA H200"')
    (spool / "events.jsonl").write_text(events)
    request = json.loads((spool / "request.json").read_text())
    (spool / "request.json").write_text(json.dumps({**request, "precision": "bf16"}))
    figures = compute(spool)
    assert figures.metrics["peak_tflops_datasheet"] == 989.5
    assert figures.metrics["mfu_datasheet"] == pytest.approx(98.9 / 989.5)


def counted(sleep_run, **metrics):
    """A spool with a window of 16 s, 1 s a step and item, and a sample a second of these metrics: f(seconds)."""
    spool, _ = sleep_run({"step_s": 1.0})
    begin = next(event for event in lines_of(spool) if event["event"] == "window")["begin"]
    seconds = range(-4, 21)
    samples = [
        {"event": "sample", "t": begin + t, "metrics": {f"system/{name}": of(t) for name, of in metrics.items()}}
        for t in seconds
    ]
    write_controller(spool, *samples)
    return spool


def test_energy_is_of_the_window_and_its_items(sleep_run):
    spool = counted(
        sleep_run, cpu_energy_joules=lambda t: 50.0 * (t + 4), gpu_0_energy_joules=lambda t: 7e6 + 300.0 * t
    )
    metrics = compute(spool).metrics
    assert metrics["power_w_mean"] == pytest.approx(50)
    assert metrics["energy_j_per_item"] == pytest.approx(50 * 16 / 16)
    assert on_gpu(spool).metrics["power_w_mean"] == pytest.approx(300)


def test_a_gpus_counters_are_means_over_the_window(sleep_run):
    spool = counted(sleep_run, gpu_0_fp32_active_percentage=lambda t: 100.0 if t <= 4 else 20.0)
    assert on_gpu(spool).metrics["fp32_utilization"] == pytest.approx((4 * 1.0 + 12 * 0.2) / 16)
    assert on_gpu(spool).absent["tensor_utilization"] == "it was not sampled"


def test_without_the_counter_the_use_of_fp32_units_is_by_the_models_flops_and_says_so(sleep_run):
    spool, _ = sleep_run({"step_s": 1.0, "flops": 5e11, "matrix_product": {"size": 10**4, "seconds": [2.0]}})
    write_controller(spool)
    figures = on_gpu(spool)
    assert figures.metrics["fp32_utilization"] == figures.metrics["mfu"] == pytest.approx(0.5)
    assert figures.tags["tbd.fp32_utilization_source"] == "flops"
    counted_by_gpm = counted(sleep_run, gpu_0_fp32_active_percentage=lambda t: 30.0)
    assert on_gpu(counted_by_gpm).tags["tbd.fp32_utilization_source"] == "gpm"


@pytest.mark.parametrize(("when", "tag"), [(5, "power cap"), (-2, "no"), (18, "no")])
def test_clocks_that_are_held_down_in_the_window_are_tagged_and_told(sleep_run, when, tag):
    figures = on_gpu(counted(sleep_run, gpu_0_clock_reasons=lambda t: 4.0 if t == when else 1.0))
    assert figures.tags["tbd.throttled"] == tag
    assert any("clocks were held down" in told for told in figures.warnings) == (tag != "no")


def test_what_a_device_does_not_count_is_absent_with_the_samplers_reason_and_no_warning(sleep_run):
    spool, _ = sleep_run({})
    refusals = {"cpu_energy": "no permission to read it", "counters": "the GPU has no GPM counters"}
    write_controller(spool, *({"event": "absent", "t": 1, "what": what, "reason": r} for what, r in refusals.items()))
    figures = compute(spool)
    assert figures.absent["energy_j_per_item"] == "no permission to read it"
    assert not [told for told in figures.warnings if "no permission" in told]
    assert on_gpu(spool).absent["sm_utilization"] == "the GPU has no GPM counters"


def test_the_controllers_warnings_are_the_figures(sleep_run):
    spool, _ = sleep_run({})
    write_controller(spool, {"event": "warning", "t": 1, "message": "a sample failed"})
    assert compute(spool).warnings == ["a sample failed"]


def lines_of(spool):
    return [json.loads(line) for line in (spool / "events.jsonl").read_text().splitlines()]


def test_a_lost_chunk_of_steps_is_no_throughput(sleep_run):
    """Items of some steps by the time of all would be a wrong number that looks right."""
    spool, _ = sleep_run({"step_s": 0.25}, passes=["timing"])
    chunks = [line for line in lines_of(spool) if line["event"] == "steps" and line["phase"] == "timed"]
    kept = [line for line in lines_of(spool) if line != chunks[3]]
    (spool / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    assert absent_reasons(compute(spool)) == {"the window has 16 steps, 6 of them are recorded"}


def test_samples_that_do_not_enclose_the_window(sleep_run):
    spool, _ = sleep_run({}, passes=["timing"])
    write_controller(spool, {"event": "sample", "t": 1, "cpu_s": 1.0, "controller_cpu_s": 0.1, "metrics": {}})
    figures = compute(spool)
    assert figures.absent["cpu_utilization"] == "the samples don't enclose the timed window"
    assert figures.absent["controller_cpu_share"] == "the samples don't enclose the timed window"


def test_a_trace_that_was_cut_off(sleep_run):
    spool, _ = sleep_run({})
    path = spool / "trace.json.gz"
    path.write_bytes(path.read_bytes()[:-20])
    figures = compute(spool)
    assert "operators" not in figures.tables
    assert any(told.startswith("no table of operators: trace.json.gz can't be read") for told in figures.warnings)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"schema": 1}', '{"schema": 1, "buffers": [{}], "steps": [0, 1]}']
)
def test_a_damaged_memory_record(sleep_run, content):
    spool, _ = sleep_run({})
    (spool / "memory.json").write_text(content)
    assert "memory.json" in compute(spool).absent["memory/peak_mb"]


@pytest.mark.parametrize(
    "request_json", ["", "[]", "{}", '{"measure": 3, "hardware": []}', '{"measure": {"passes": 1}}']
)
def test_a_damaged_request(sleep_run, request_json):
    spool, _ = sleep_run({"step_s": 0.25})
    (spool / "request.json").write_text(request_json)
    assert compute(spool).metrics["throughput"] == 4


def test_a_path_out_of_the_spool_is_not_followed(sleep_run):
    spool, _ = sleep_run({})
    text = (spool / "events.jsonl").read_text().replace('"path": "memory.json"', '"path": "../../memory.json"')
    (spool / "events.jsonl").write_text(text)
    assert compute(spool).metrics["memory/peak_mb"] == 0.004


def test_no_damage_makes_the_figures_fail(sleep_run):
    """Hundreds of random damages of real files: bytes overwritten, ends cut off."""
    spool, _ = sleep_run({"matrix_product": {"size": 10, "seconds": [1.0]}})
    write_controller(spool, {"event": "sample", "t": 1024.5, "cpu_s": 1.0, "metrics": {"system/x": 1.0}})
    whole = {path: path.read_bytes() for path in spool.iterdir()}
    generator = random.Random(1)
    for _ in range(300):
        for path, content in whole.items():
            damaged = bytearray(content)
            for _ in range(generator.randint(0, 4)):
                damaged[generator.randrange(len(damaged))] = generator.randrange(256)
            path.write_bytes(damaged[: generator.choice([None, generator.randrange(len(damaged))])])
        figures = compute(spool)
        figures.to_json()
        assert all(math.isfinite(value) for value in figures.metrics.values())
        assert not set(figures.metrics) & set(figures.absent)


def test_an_allocator_that_tells_no_peak(sleep_run):
    buffer = {"bytes": 1000, "born": 0, "died": None, "category": "weights", "name": "w"}
    spool, _ = sleep_run({"memory": {"schema": 1, "buffers": [buffer], "steps": [1, 2], "allocator": {"name": "a"}}})
    figures = compute(spool)
    assert figures.metrics["memory/weights_mb"] == 0.001
    assert figures.absent["memory/peak_mb"] == "the framework's allocator told no peak"


def test_a_first_loss_below_zero_has_no_ratio(sleep_run):
    spool, _ = sleep_run({"loss": -1.0}, passes=["timing"])
    figures = compute(spool)
    assert figures.metrics["loss_last"] == -1
    assert figures.absent["loss_ratio"] == "the first loss is not above 0"
