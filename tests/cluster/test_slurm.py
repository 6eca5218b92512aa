"""Runs on a real Slurm of two nodes, each in a network of its own: `make cluster` sets it up, `make test-cluster` runs
this.

What is started here runs within the cluster's network (cluster/slurm.sh run), where Slurm's commands find it.
"""

import contextlib
import json
import os
import shlex
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
    spools,
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
    """`python -m tbd.train` on the cluster, running; `prefix`: a command that starts it, such as salloc, or, without
    overrides, is all there is to run."""
    train = [sys.executable, "-m", "tbd.train", *overrides] if overrides else []
    command = [SCRIPT, "run", *prefix, *train]
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


def at(node: str, *command: str) -> str:
    """What a command says within a node's network."""
    done = subprocess.run([SCRIPT, "at", node, *command], env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


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


def test_the_tasks_of_a_step_are_one_run(tmp_path: Path) -> None:
    code, said = ended(start(tmp_path, *TWO, prefix=("srun", "--nodes=2", "--ntasks=2", "--quiet")))
    assert code == 0, said
    assert end(only_spool(tmp_path))["status"] == "ok"
    assert "2 on 2 node(s), 1 each, started by slurm (within the allocation " in said
    assert "task 1: the first of this step starts all ranks" in said


def test_nodes_with_no_folder_in_common_send_their_spools_to_node_0(tmp_path: Path) -> None:
    """Each node in a mount namespace of its own, with a file system of its own where the other has its."""
    own = tmp_path / "own"
    own.mkdir()
    command = " ".join(
        [
            f"mount -t tmpfs none {own} && cd {own} && export TMPDIR={own};",
            "RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS MASTER_ADDR=198.18.0.11 MASTER_PORT=29500",
            f"{sys.executable} -m tbd.train {shlex.join(TWO)} && find {own} -name events.jsonl",
        ]
    )
    prefix = ("srun", "--nodes=2", "--ntasks=2", "--quiet", "--label", "unshare", "--mount", "bash", "-c", command)
    code, said = ended(start(tmp_path, prefix=prefix))
    assert code == 0, said
    assert "2 on 2 node(s), 1 each, started by variables (RANK=0 of WORLD_SIZE=2)" in said
    kept = [line for line in said.splitlines() if line.endswith("events.jsonl")]
    assert sorted(line.partition("/runs/")[0] for line in kept) == [f"0: {own}"] * 2
    assert sorted(line.rpartition("/ranks/")[2] for line in kept) == ["0/events.jsonl", "1/events.jsonl"]
    assert list(own.iterdir()) == []


def test_jobs_of_a_sweep_side_by_side_on_the_cluster(tmp_path: Path) -> None:
    launcher = ["hydra/launcher=submitit_slurm", "hydra.launcher.nodes=2", "hydra.launcher.timeout_min=5"]
    jobs = ["hardware.nodes=1,2", "hardware.threads=1", "hydra.launcher.signal_delay_s=30"]
    code, said = ended(start(tmp_path, "-m", *TWO, *launcher, *jobs))
    assert code == 0, said
    found = {path: json.loads((path / "run.json").read_text()) for path in spools(tmp_path)}
    (sweep,) = [run["spool_id"] for run in found.values() if run["kind"] == "sweep"]
    children = {path: run for path, run in found.items() if run["kind"] == "run"}
    assert [run["parent_spool_id"] for run in children.values()] == [sweep] * 2
    figures = {
        json.loads((path / "request.json").read_text())["world_size"]: json.loads((path / "figures.json").read_text())
        for path in children
    }
    one, two = (figures[ranks]["metrics"] for ranks in (1, 2))
    assert two["scaling_efficiency"] == pytest.approx(two["throughput"] / one["throughput"] / 2)


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
    last = []
    for rank in range(2):
        steps = [event for event in events(spool / "ranks" / str(rank)) if event["event"] == "steps"]
        assert steps
        last.append(steps[-1]["t"])
    ended = end(spool)  # one machine, one clock; pytest -s shows it: docs/cluster.md
    print(f"\n{ended['t'] - min(last):.1f} s after a rank's last step: {ended['status']}: {ended['cause']}")


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


def test_a_sweep_goes_on_after_a_rank_was_killed_and_one_hung(tmp_path: Path) -> None:
    faults = "{kind:signal,rank:1,step:3},{kind:hang,rank:1,step:3},{kind:nothing,step:999}"
    bounds = ["measure.timeout_s=3", "hardware.threads=1"]
    code, said = ended(start(tmp_path, "-m", *TWO, *bounds, f"+framework.options.fault={faults}"))
    runs = [spool for spool in spools(tmp_path) if (spool / "request.json").exists()]
    assert [end(spool)["status"] for spool in runs] == ["crashed", "timed_out", "ok"], said
    assert [end(spool)["cause"][:7] for spool in runs[:2]] == ["rank 1:"] * 2
    assert code == 9
    for spool in runs:
        assert_over(spool, end(spool)["status"])


def test_a_port_that_is_taken_on_node_1_is_said(tmp_path: Path) -> None:
    script = "import socket; s = socket.create_server(('198.18.0.11', 29501)); print(flush=True); input()"
    with subprocess.Popen(
        [SCRIPT, "at", "node1", sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        code, said = ended(start(tmp_path, *TWO, "hardware.port=29501"), BOUND_S)
        holder.communicate(b"\n")
    assert code == 9, said
    assert "hardware.port=29501: Address already in use at 198.18.0.11" in end(only_spool(tmp_path))["cause"]


def daemons_of(node: str) -> list[int]:
    """Slurm's own processes of a node: its slurmd, and a slurmstepd for each step."""
    found = []
    for text in at(node, "ip", "netns", "pids", f"tbd-{node}").split():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{text}/comm").read_text().startswith("slurm"):
                found.append(int(text))
    return found


def test_a_node_whose_slurmd_dies_is_lost(tmp_path: Path) -> None:
    process, spool, _ = running(tmp_path)
    try:
        for pid in daemons_of("node2"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        code, said = ended(process, BOUND_S)
    finally:
        subprocess.run([SCRIPT, "start", "node2"], env=environment(), timeout=60, check=True)
    assert code != 0, said
    assert_over(spool, "lost_node", "interrupted")


def test_a_network_that_is_cut_ends_the_run(tmp_path: Path) -> None:
    """In the middle of real all-reduces, which wait for what does not come any more."""
    python = framework_python("pytorch")
    small = ["model=resnet50", "model.size=small", "framework=pytorch", f"framework.python={python}", "batch_size=8"]
    more = ["hardware=multi_node", "hardware.device=cpu", "hardware.threads=1", "measure.passes=[timing]"]
    process = start(tmp_path, *small, *more, "tracking=offline", "measure.steps=3000")
    wait_until(in_rank_phase(tmp_path, "timed", ranks=2), process, limit_s=300)
    spool = only_spool(tmp_path)
    wait_until(lambda: any(event.get("phase") == "timed" for event in events(spool / "ranks" / "1")), process)
    at("node2", "ip", "link", "set", "eth-node2", "down")
    try:
        code, said = ended(process, BOUND_S)
    finally:
        at("node2", "ip", "link", "set", "eth-node2", "up")
    assert code != 0, said
    assert_over(spool, "lost_node")


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
