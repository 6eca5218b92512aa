"""Several ranks, scripted so that every figure of the run is known: against hand-made sums."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tbd.measure import figures
from tests.measure.conftest import START, WORKER, write_controller, write_request

STEPS = 16


def write_ranks(spool: Path, *by_rank: dict[str, Any], devices: int | None = None, **common: Any) -> None:
    """A run of so many ranks, each with the options of its own; all of one node where `devices` isn't given."""
    write_request(spool, common)
    request = json.loads((spool / "request.json").read_text())
    ranks = len(by_rank)
    request["world_size"] = ranks
    request["hardware"].update(devices=devices or ranks, nodes=ranks // (devices or ranks))
    (spool / "request.json").write_text(json.dumps(request))
    for rank, options in enumerate(by_rank):
        folder = spool / "ranks" / str(rank)
        folder.mkdir(parents=True)
        own = {**request, "rank": rank, "output": str(folder)}
        own["framework"] = {"name": "sleep", "options": {**request["framework"]["options"], **options}}
        (folder / "request.json").write_text(json.dumps(own))
        subprocess.run([sys.executable, WORKER, folder / "request.json"], timeout=60, check=False)


def write_node(spool: Path, node: int, *events: dict[str, Any], boot_id: str = "one", cores: int = 2) -> None:
    folder = spool / "nodes" / str(node)
    folder.mkdir(parents=True, exist_ok=True)
    header = {"event": "header", "t": START, "schema": 1, "wall_time": 1e9, "cores": cores, "boot_id": boot_id}
    lines = [json.dumps({"pass": "", **event}) + "\n" for event in (header, *events)]
    (folder / "agent.jsonl").write_text("".join(lines))


def compute(spool: Path) -> figures.Figures:
    write_controller(spool)
    return figures.compute(spool)


def test_throughput_is_all_ranks_items_by_the_time_from_the_first_begin_to_the_last_end(tmp_path: Path) -> None:
    write_node(tmp_path, 0)
    write_ranks(
        tmp_path,
        {"step_s": 0.25, "items": {"images": 4}},
        {"step_s": 0.25, "items": {"images": 3}, "start": START + 0.5},
    )
    found = compute(tmp_path)
    # both windows take 4 s; the second begins, and ends, half a second later
    assert found.metrics["throughput"] == pytest.approx(STEPS * 7 / 4.5)
    assert found.tags["tbd.throughput_unit"] == "images"
    assert found.metrics["achieved_tflops"] == pytest.approx(STEPS * 2 * 1e6 / 4.5 / 1e12)
    assert not found.warnings


def test_a_step_ends_with_its_last_rank(tmp_path: Path) -> None:
    write_node(tmp_path, 0)
    # the ranks wait for each other: each does its own work and then stands still until the slower one is done
    slow = {"step_s": 0.5, "exchange_wait_s": 0.0625, "exchange_s": 0.125}
    write_ranks(tmp_path, {"step_s": 0.5, "exchange_wait_s": 0.25, "exchange_s": 0.375}, slow)
    found = compute(tmp_path)
    assert found.metrics["step_time_p50_ms"] == 500
    assert found.metrics["communication_share"] == pytest.approx((0.25 + 0.0625) / 2 / 0.5)
    assert found.metrics["exchange_ms"] == pytest.approx((375 + 125) / 2)
    assert found.metrics["exchange_overlap_share"] == pytest.approx(1 - (0.25 + 0.0625) / (0.375 + 0.125))


def test_a_straggler_is_named_by_its_own_work(tmp_path: Path) -> None:
    write_node(tmp_path, 0)
    waits = [{"step_s": 0.5, "exchange_wait_s": wait} for wait in (0.25, 0.25, 0.0625, 0.25)]
    write_ranks(tmp_path, *waits)
    found = compute(tmp_path)
    assert [row["straggler"] for row in found.tables["ranks"]] == [False, False, True, False]
    assert [row["own_ms_p50"] for row in found.tables["ranks"]] == [250, 250, 437.5, 250]
    assert found.warnings == ["stragglers: rank 2 (437.5 ms of its own a step), where the ranks' median is 250.0 ms"]


def test_ranks_alike_have_no_straggler(tmp_path: Path) -> None:
    write_node(tmp_path, 0)
    write_ranks(tmp_path, {"step_s": 0.25}, {"step_s": 0.25})
    assert not compute(tmp_path).warnings


def test_clocks_of_other_machines_are_shifted_by_what_the_ranks_found(tmp_path: Path) -> None:
    write_node(tmp_path, 0, boot_id="one")
    write_node(tmp_path, 1, boot_id="two")
    later = {"start": START + 4096, "clock": {"offset_s": -4096.0, "error_s": 0.001}}
    write_ranks(tmp_path, {"clock": {"offset_s": 0.0, "error_s": 0.0}}, later, devices=1, step_s=0.25)
    found = compute(tmp_path)
    assert found.metrics["throughput"] == pytest.approx(STEPS * 2 / 4)
    row = found.tables["ranks"][1]
    assert (row["node"], row["clock_offset_ms"], row["clock_error_ms"]) == (1, -4096e3, 1.0)


def test_clocks_that_nobody_compared_make_no_figure(tmp_path: Path) -> None:
    write_node(tmp_path, 0, boot_id="one")
    write_node(tmp_path, 1, boot_id="two")
    write_ranks(tmp_path, {}, {}, devices=1, step_s=0.25)
    found = compute(tmp_path)
    assert "throughput" not in found.metrics
    assert found.absent["throughput"] == "rank 1 is of another machine than rank 0, and compared no clocks with it"


def test_the_loss_is_the_ranks_mean_and_the_peak_their_sum(tmp_path: Path) -> None:
    write_node(tmp_path, 0)
    product = {"size": 1000, "seconds": [0.5, 0.25]}
    write_ranks(tmp_path, {"loss": 3.0}, {"loss": 1.0}, step_s=0.25, matrix_product=product)
    found = compute(tmp_path)
    assert found.metrics["loss_first"] == found.metrics["loss_last"] == 2.0
    assert found.metrics["peak_tflops_measured"] == pytest.approx(2 * 2e9 / 0.25 / 1e12)


def test_bytes_exchanged_are_held_against_the_ring(tmp_path: Path) -> None:
    write_node(tmp_path, 0)
    # gradients of 3 MB among 4 ranks: each must send 2 * 3/4 * 3 MB = 4.5 MB a step at least
    write_ranks(tmp_path, *[{"sent_bytes": 5e6 * STEPS}] * 4, step_s=0.25, model={"exchanged_bytes": 3e6})
    found = compute(tmp_path)
    assert found.metrics["exchanged_mb_per_step"] == pytest.approx(5)
    assert found.metrics["exchanged_of_ring"] == pytest.approx(5 / 4.5)


def test_what_the_framework_does_not_tell_is_absent(tmp_path: Path) -> None:
    write_node(tmp_path, 0)
    write_ranks(tmp_path, {}, {"sent_bytes": 1}, step_s=0.25)
    found = compute(tmp_path)
    assert found.absent["communication_share"] == "the framework does not tell when its ranks exchange gradients"
    assert found.absent["exchanged_mb_per_step"] == "the worker did not count what it sent"
    assert "same sweep" in found.absent["scaling_efficiency"]


def test_nothing_over_tcp_is_no_zero(tmp_path: Path) -> None:
    write_node(tmp_path, 0)
    write_ranks(tmp_path, {}, {}, step_s=0.25, sent_bytes=0, model={"exchanged_bytes": 3e6})
    assert compute(tmp_path).absent["exchanged_of_ring"].startswith("nothing went over TCP")


def test_a_rank_that_is_missing_makes_the_window_no_window(tmp_path: Path) -> None:
    write_node(tmp_path, 0)
    fault = {"kind": "out_of_memory", "rank": 1, "step": 3}
    write_ranks(tmp_path, {}, {}, step_s=0.25, fault=fault)
    found = compute(tmp_path)
    assert "throughput" not in found.metrics
    assert found.absent["throughput"].startswith("the timing pass ended as out_of_memory: rank 1: out of memory")


def test_a_rank_that_left_no_file_makes_the_window_no_window(tmp_path: Path) -> None:
    write_node(tmp_path, 0)
    write_ranks(tmp_path, {}, {}, step_s=0.25)
    (tmp_path / "ranks" / "1" / "events.jsonl").unlink()
    assert "throughput" not in compute(tmp_path).metrics


def samples(*cpu_s: float) -> list[dict[str, Any]]:
    """One every quarter of a second from START on."""
    return [
        {"event": "sample", "t": START + index / 4, "cpu_s": cpu, "controller_cpu_s": 0.0, "host_cpu_s": 2 * cpu,
         "metrics": {"system/cpu_utilization_percentage": 50.0}}
        for index, cpu in enumerate(cpu_s)
    ]  # fmt: skip


@pytest.mark.parametrize(("second", "cores"), [("one", 2), ("two", 4)])
def test_nodes_of_one_machine_share_its_cores(tmp_path: Path, second: str, cores: int) -> None:
    busy = samples(*(index / 4 for index in range(40)))  # one core all the time
    write_node(tmp_path, 0, *busy, boot_id="one")
    write_node(tmp_path, 1, *busy, boot_id=second)
    clock = {"offset_s": 0.0, "error_s": 0.0}
    write_ranks(tmp_path, {}, {}, devices=1, step_s=0.25, warmup_s=[0.25], clock=clock)
    found = compute(tmp_path)
    assert found.metrics["cpu_utilization"] == pytest.approx(2 / cores)
    assert found.metrics["other_cpu_cores"] == pytest.approx(2 * (cores / 2) - 2)
    for node in (0, 1):
        assert found.series[f"system/{node}/cpu_utilization_percentage"][0].value == 50.0


@pytest.mark.parametrize(
    ("single", "efficiency", "reason"),
    [
        ({}, 0.75, ""),
        ({"batch_size": 16}, None, "the sweep's run on a single device differs in batch_size too"),
        ({"world_size": 2}, None, "the sweep has no run on a single device, or it has not ended yet"),
    ],
)
def test_scaling_efficiency_is_against_the_single_device_of_the_sweep(
    tmp_path: Path, single: dict[str, Any], efficiency: float | None, reason: str
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps({"parent_spool_id": "sweep"}))
    write_node(two, 0)
    write_ranks(two, {}, {}, step_s=0.25, items={"images": 3})  # 24 images/s
    request = json.loads((two / "request.json").read_text())
    request["hardware"]["devices"] = 1
    (one / "request.json").write_text(json.dumps({**request, "world_size": 1, "output": str(one), **single}))
    (one / "figures.json").write_text(json.dumps({"metrics": {"throughput": 16.0}}))
    found = compute(two)
    assert found.metrics.get("scaling_efficiency") == efficiency
    assert found.absent.get("scaling_efficiency", "") == reason


def test_the_link_is_as_fast_as_its_slower_way(tmp_path: Path) -> None:
    for node in range(2):
        write_node(tmp_path, node, boot_id=str(node))
    clocks = [{"clock": {"offset_s": 0.0, "error_s": error}} for error in (0.0, 0.000125)]
    write_ranks(tmp_path, *clocks, devices=1, step_s=0.25)
    tried = {"event": "link", "pass": "timing", "t": START, "rank": 1}
    with (tmp_path / "ranks" / "0" / "events.jsonl").open("a") as file:
        file.write(json.dumps({**tried, "there_bytes_per_s": 12.5e6, "back_bytes_per_s": 25e6}) + "\n")
    found = compute(tmp_path)
    assert found.metrics["link_gbit_per_s"] == pytest.approx(0.1)
    assert found.metrics["link_latency_us"] == pytest.approx(125)
    assert found.metrics["step_time_mean_ms"] == pytest.approx(250)
