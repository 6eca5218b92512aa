"""Runs on a real Slurm of two nodes, each in a network of its own: `make cluster` sets it up, `make test-cluster` runs
this.

What is started here runs within the cluster's network (cluster/slurm.sh run), where Slurm's commands find it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tbd.launch.job import GRACE_S, NODE_SILENT_S, TERMINATE_S
from tests.commands import (
    ROOT,
    SLEEP,
    end,
    environment,
    events,
    in_rank_phase,
    only_spool,
    options,
    processes_of,
    wait_until,
)
from tests.parity.cells import framework_python

SCRIPT = str(ROOT / "cluster" / "slurm.sh")
CONFIGURATION = os.environ.get("STATE", "/run/tbd-cluster") + "/slurm.conf"
TWO = [
    *SLEEP,
    "hardware=multi_node",
    "hardware.device=cpu",
    "batch_size=4",
    "tracking=offline",
    "measure.passes=[timing]",
]
LONG = [*options(step_s=0.1), "measure.steps=3000"]
BOUND_S = NODE_SILENT_S + GRACE_S + TERMINATE_S + 30


def start(folder: Path, *overrides: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """`python -m tbd.train` on the cluster, running; `prefix`: a command that starts it, such as salloc."""
    command = [SCRIPT, "run", *prefix, sys.executable, "-m", "tbd.train", *overrides]
    return subprocess.Popen(
        command, cwd=folder, env=environment(SLURM_CONF=CONFIGURATION), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str], limit_s: float = 300.0) -> tuple[int, str]:
    """(exit code, all that it said)."""
    out, error = process.communicate(timeout=limit_s)
    return process.returncode, out + error


def slurm(*command: str) -> str:
    done = subprocess.run(
        [SCRIPT, "run", *command], env=environment(SLURM_CONF=CONFIGURATION), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr + "is the cluster up? make cluster"
    return done.stdout


def request(spool: Path, rank: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((spool / "ranks" / str(rank) / "request.json").read_text())
    return found


@pytest.fixture(autouse=True)
def idle_cluster() -> None:
    """Both nodes idle before each test."""
    deadline = time.monotonic() + 60
    while slurm("sinfo", "--noheader", "--format", "%T %D").split() != ["idle", "2"]:
        assert time.monotonic() < deadline, slurm("sinfo")
        time.sleep(0.2)


def test_a_rank_on_each_node_through_the_slurm_that_is_there(tmp_path: Path) -> None:
    code, said = ended(start(tmp_path, *TWO))
    spool = only_spool(tmp_path)
    assert code == 0, said + (spool / "worker.log").read_text()
    assert "2 on 2 node(s), 1 each, started by slurm (this machine has one)" in said
    assert json.loads((spool / "run.json").read_text())["tags"]["tbd.engine"] == "slurm: this machine has one"
    assert [request(spool, rank)["address"] for rank in range(2)] == ["198.18.0.11", "198.18.0.12"]
    assert request(spool, 1)["rendezvous"]["address"] == "198.18.0.11"
    assert end(spool)["status"] == "ok"


def test_within_an_allocation_its_nodes_are_taken(tmp_path: Path) -> None:
    code, said = ended(start(tmp_path, *TWO, prefix=("salloc", "--nodes=2", "--quiet")))
    assert code == 0, said
    assert "started by slurm (within the allocation " in said


def test_a_prologue_and_options_reach_the_nodes(tmp_path: Path) -> None:
    told = tmp_path / "told"
    slurm_options = [f"+hardware.slurm.prologue='echo $SLURMD_NODENAME $SLURM_JOB_NAME >> {told}'"]
    code, said = ended(start(tmp_path, *TWO, *slurm_options, '+hardware.slurm.options=["--job-name=mine"]'))
    assert code == 0, said
    assert sorted(told.read_text().split("\n")) == ["", "node1 mine", "node2 mine"]


def test_pytorch_over_the_network_sends_what_a_ring_must(tmp_path: Path) -> None:
    python = framework_python("pytorch")
    small = ["model=resnet50", "model.size=small", "framework=pytorch", f"framework.python={python}", "batch_size=8"]
    more = ["hardware=multi_node", "hardware.device=cpu", "hardware.threads=1", "measure.passes=[timing]"]
    code, said = ended(start(tmp_path, *small, *more, "tracking=offline"), limit_s=580)
    spool = only_spool(tmp_path)
    assert code == 0, said
    found = json.loads((spool / "figures.json").read_text())
    assert found["metrics"]["exchanged_of_ring"] == pytest.approx(1.0, abs=0.05)
    assert 0 < found["metrics"]["communication_share"] < 1


def running(folder: Path, *more: str) -> tuple[subprocess.Popen[str], Path, str]:
    """(process, spool, the job's number) of a run whose ranks are being timed."""
    process = start(folder, *TWO, *LONG, *more)
    wait_until(in_rank_phase(folder, "timed", ranks=2), process)
    return process, only_spool(folder), slurm("squeue", "--noheader", "--format", "%i").split()[0]


def assert_over(spool: Path, *statuses: str) -> None:
    """The run ended so, nothing of it is left, and what its ranks did until then is kept."""
    assert end(spool)["status"] in statuses, end(spool)
    deadline = time.monotonic() + 60
    while processes_of(spool) or slurm("squeue", "--noheader"):
        assert time.monotonic() < deadline, (processes_of(spool), slurm("squeue"))
        time.sleep(0.1)
    for rank in range(2):
        assert any(event["event"] == "steps" for event in events(spool / "ranks" / str(rank)))


def test_scancel_ends_the_run(tmp_path: Path) -> None:
    process, spool, job = running(tmp_path)
    slurm("scancel", job)
    code, _ = ended(process, BOUND_S)
    assert code != 0
    assert_over(spool, "interrupted", "lost_node")


def test_a_time_limit_ends_the_run(tmp_path: Path) -> None:
    process, spool, job = running(tmp_path)
    slurm("scontrol", "update", f"JobId={job}", "TimeLimit=0:01")
    code, _ = ended(process, 180)
    assert code != 0
    assert_over(spool, "interrupted", "lost_node", "timed_out")


def test_ctrl_c_ends_the_job(tmp_path: Path) -> None:
    process, spool, _ = running(tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    code, said = ended(process, BOUND_S)
    assert code == 130, said
    assert_over(spool, "interrupted")


def test_a_rank_that_fails_on_one_node_ends_the_other(tmp_path: Path) -> None:
    fault = options(fault={"kind": "out_of_memory", "rank": 1, "step": 3})
    code, said = ended(start(tmp_path, *TWO, *LONG, *fault), BOUND_S)
    assert code == 6, said
    spool = only_spool(tmp_path)
    assert end(spool)["cause"].startswith("rank 1: out of memory")
    deadline = time.monotonic() + 60
    while processes_of(spool):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_node_whose_agent_is_killed_is_lost(tmp_path: Path) -> None:
    process, spool, _ = running(tmp_path)
    os.kill(events(spool / "nodes" / "1", "agent.jsonl")[0]["pid"], signal.SIGKILL)
    code, said = ended(process, BOUND_S)
    assert (code, end(spool)["status"]) == (10, "lost_node"), said
    assert_over(spool, "lost_node")
