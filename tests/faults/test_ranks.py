"""What can end a run of several ranks: the right status and cause, within bounds, nothing left, all events kept."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tbd import agent
from tbd.launch.job import GRACE_S, TERMINATE_S
from tests.commands import (
    SLEEP,
    end,
    events,
    in_rank_phase,
    interrupt,
    only_spool,
    options,
    processes_of,
    spools,
    start,
    train,
    wait_until,
)

TWO = [*SLEEP, "hardware.devices=2", "tracking=offline"]
LONG = options(step_s=0.1)
# What stays of a run after a rank has failed is ended within the others' grace and their agent's, and some seconds for
# starting and recording on a busy machine.
BOUND_S = GRACE_S + TERMINATE_S + 30

FAULTS = {
    "killed": ({"kind": "signal", "rank": 1}, "crashed", "rank 1: killed by SIGKILL"),
    "out of memory": ({"kind": "out_of_memory", "rank": 1}, "out_of_memory", "rank 1: out of memory"),
    "diverged": ({"kind": "nan_loss", "rank": 1}, "diverged", "rank 1: the loss became nan"),
    "hangs": ({"kind": "hang", "rank": 1}, "timed_out", "rank 1: no event from the worker for 3 s"),
    "leaves without a word": ({"kind": "no_end", "rank": 0}, "crashed", "rank 0: the worker wrote 0 ends"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_rank_that_fails_ends_the_run_as_its_own_end_says(tmp_path: Path, name: str) -> None:
    fault, status, cause = FAULTS[name]
    passes = ["measure.passes=[timing]", "measure.timeout_s=3"]
    begin = time.monotonic()
    done = train(tmp_path, *TWO, *passes, *options(fault=fault))
    assert time.monotonic() - begin < BOUND_S
    spool = only_spool(tmp_path)
    assert (end(spool)["status"], done.returncode) == (status, end(spool)["exit_code"])
    assert cause in end(spool)["cause"]
    assert "Traceback" not in done.stdout + done.stderr
    assert processes_of(spool) == []
    for rank in range(2):
        assert any(event["event"] == "header" for event in events(spool / "ranks" / str(rank)))


def test_the_others_are_ended_when_a_rank_fails(tmp_path: Path) -> None:
    """Sleeping ranks don't notice that one is gone: their agent ends them."""
    by_rank = [{"step_s": 60.0}, {}]
    done = train(tmp_path, *TWO, *options(by_rank=by_rank, fault={"kind": "error", "rank": 1}))
    spool = only_spool(tmp_path)
    assert done.returncode == 9 and "rank 1: " in end(spool)["cause"]
    assert processes_of(spool) == []
    ends = [event for event in events(spool / "ranks" / "0") if event["event"] == "end"]
    assert [event["status"] for event in ends] == ["interrupted"]


def test_a_node_whose_agent_is_killed_is_lost(tmp_path: Path) -> None:
    two = ["hardware=multi_node", "hardware.device=cpu", "hardware.engine=processes", "batch_size=4"]
    process = start(tmp_path, *SLEEP, *two, *LONG, "measure.steps=1000", "tracking=offline")
    wait_until(in_rank_phase(tmp_path, "timed", ranks=2), process)
    spool = only_spool(tmp_path)
    pid = events(spool / "nodes" / "1", "agent.jsonl")[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    begin = time.monotonic()
    _, error = process.communicate(timeout=120)
    assert time.monotonic() - begin < BOUND_S
    assert process.returncode == 10, error
    assert end(spool)["status"] == "lost_node"
    assert end(spool)["cause"] == "node 1 went away: killed by SIGKILL"
    wait_until_gone(spool)
    assert any(event["event"] == "steps" for event in events(spool / "ranks" / "1"))


def wait_until_gone(spool: Path, limit_s: float = 30.0) -> None:
    """What the killed agent had started is ended by the ranks' watchdogs."""
    deadline = time.monotonic() + limit_s
    while processes_of(spool):
        assert time.monotonic() < deadline, processes_of(spool)
        time.sleep(0.05)


def test_ctrl_c_ends_every_rank(tmp_path: Path) -> None:
    process = start(tmp_path, *TWO, *LONG, "measure.steps=1000")
    wait_until(in_rank_phase(tmp_path, "timed", ranks=2), process)
    code, error = interrupt(process)
    spool = only_spool(tmp_path)
    assert code == 130, error
    assert end(spool)["status"] == "interrupted" and "in the phase timed" in end(spool)["cause"]
    assert processes_of(spool) == []


def test_a_controller_that_is_killed_leaves_no_rank(tmp_path: Path) -> None:
    process = start(tmp_path, *TWO, *LONG, "measure.steps=1000")
    wait_until(in_rank_phase(tmp_path, "timed", ranks=2), process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until_gone(only_spool(tmp_path))


def test_a_node_that_does_not_see_the_runs_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="tracking.runs has to be a folder that all nodes share"):
        agent.main([str(tmp_path / "elsewhere"), "1"])


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        done = train(tmp_path, *TWO, f"hardware.port={port}")
    assert done.returncode == 9
    assert f"hardware.port={port}: Address already in use" in end(only_spool(tmp_path))["cause"]


def test_a_sweep_goes_on_after_a_rank_failed(tmp_path: Path) -> None:
    faults = "+framework.options.fault={kind:out_of_memory,rank:1},{kind:none_of_it_happens,step:999}"
    done = train(tmp_path, "-m", *TWO, faults, "measure.passes=[timing]")
    assert done.returncode == 6
    ends = [end(spool)["status"] for spool in spools(tmp_path) if (spool / "request.json").exists()]
    assert sorted(ends) == ["ok", "out_of_memory"]
