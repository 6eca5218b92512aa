"""Runs of several ranks from the command line to their record, on this machine's processes."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ranks import costs
from tests.commands import SLEEP, end, events, mlflow_runs, only_spool, options, spools, train

STEP_S = 0.05
QUICK = [*SLEEP, "measure.passes=[timing]", "tracking=offline"]


def figures(spool: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((spool / "figures.json").read_text())
    return found


def test_one_run_in_mlflow_for_all_ranks_of_two_nodes(tmp_path: Path) -> None:
    by_rank = [{"items": {"images": 4}}, {"items": {"images": 5}}]
    two = ["hardware=multi_node", "hardware.device=cpu", "batch_size=4", "hardware.engine=processes"]
    done = train(tmp_path, *SLEEP, *two, "hardware.devices=2", *options(step_s=STEP_S, by_rank=by_rank))
    assert done.returncode == 0, done.stdout + done.stderr
    spool = only_spool(tmp_path)
    (run,) = mlflow_runs(tmp_path)
    assert run.info.status == "FINISHED"
    assert 0 < run.data.metrics["throughput"] <= (4 + 3 * 5) / STEP_S
    assert (run.data.tags["tbd.engine"], run.data.tags["tbd.ranks"]) == ("processes: asked for", "4")
    assert "4 on 2 node(s), 2 each, started by processes (asked for)" in done.stdout
    for rank in range(4):
        request = json.loads((spool / "ranks" / str(rank) / "request.json").read_text())
        assert (request["rank"], request["local_rank"], request["node"]) == (rank, rank % 2, rank // 2)
        assert request["world_size"] == 4
        assert request["rendezvous"] == json.loads((spool / "nodes" / "rendezvous.json").read_text())
        assert [e["status"] for e in events(spool / "ranks" / str(rank)) if e["event"] == "end"] == ["ok"] * 3
    assert not (spool / "events.jsonl").exists()
    found = figures(spool)
    assert [row["node"] for row in found["tables"]["ranks"]] == [0, 0, 1, 1]
    assert {name.split("/")[1] for name in found["series"] if name.startswith("system/")} == {"0", "1"}
    assert {"trace_disturbance", "memory/peak_mb"} <= {*found["metrics"], *found["absent"]}
    assert "memory/weights_mb" in found["metrics"]


@pytest.mark.parametrize(
    ("overrides", "batch_size"),
    [(["batch_size=6"], 6), (["batch_size_global=6"], 3)],
)
def test_a_batch_is_a_devices_or_all_devices(tmp_path: Path, overrides: list[str], batch_size: int) -> None:
    done = train(tmp_path, *QUICK, "hardware.devices=2", *overrides)
    assert done.returncode == 0, done.stderr
    assert json.loads((only_spool(tmp_path) / "request.json").read_text())["batch_size"] == batch_size


def test_a_sweep_over_devices_gives_the_scaling_efficiency(tmp_path: Path) -> None:
    # the many first: their efficiency can be known only when the one is there
    step_s = ["+framework.options.step_s=0.05", "hardware.threads=1", "measure.steps=20"]
    done = train(tmp_path, "-m", *SLEEP, "measure.passes=[timing]", "hardware.devices=2,1", *step_s)
    assert done.returncode == 0, done.stderr
    rates = {ranks(spool): figures(spool)["metrics"]["throughput"] for spool in runs(tmp_path)}
    both = next(figures(spool) for spool in runs(tmp_path) if ranks(spool) == 2)
    assert both["metrics"]["scaling_efficiency"] == pytest.approx(rates[2] / (2 * rates[1]))
    recorded = [run.data.metrics.get("scaling_efficiency") for run in mlflow_runs(tmp_path)]
    assert both["metrics"]["scaling_efficiency"] in recorded


def runs(folder: Path) -> list[Path]:
    return [spool for spool in spools(folder) if (spool / "request.json").exists()]


def ranks(spool: Path) -> int:
    return int(json.loads((spool / "request.json").read_text())["world_size"])


def test_a_framework_that_cannot_train_on_several_devices_says_so(tmp_path: Path) -> None:
    from tbd import frameworks

    alone = [name for name in frameworks.names() if "cpu" not in frameworks.together(name)]
    for framework in alone[:1]:
        done = train(tmp_path, "model=resnet50", f"framework={framework}", "hardware.devices=2", "tracking=offline")
        assert done.returncode == 4
        assert f"{framework} trains on one cpu at a time" in end(only_spool(tmp_path))["cause"]


def test_many_ranks_are_collected_within_bounds(tmp_path: Path) -> None:
    """64 ranks, 10 000 steps each: less than 10 s of CPU and 500 MB, and memory grows no faster than their number."""
    found = costs(tmp_path, 10000)
    assert found[64].cpu_s < 10 and found[64].peak_mb < 500
    grown = {ranks: found[2 * ranks].peak_mb - found[ranks].peak_mb for ranks in (8, 16, 32)}
    assert grown[32] < 3 * max(grown[16], 2.0), (
        grown
    )  # twice as much where it is in proportion, four times in its square
