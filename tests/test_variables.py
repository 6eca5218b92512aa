"""A command that a scheduler started once for each node or rank (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT): one run,
in the record of rank 0, and no folder that the nodes share."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tbd.launch.job import GRACE_S, TERMINATE_S
from tbd.server.settings import free_ports
from tests.commands import (
    SLEEP,
    end,
    environment,
    events,
    in_rank_phase,
    only_spool,
    options,
    processes_of,
    start,
    wait_until,
)
from tests.parity.cells import framework_python

TWO = [*SLEEP, "hardware=multi_node", "hardware.device=cpu", "hardware.threads=1", "batch_size=4", "tracking=offline"]
LONG = [*options(step_s=0.1), "measure.steps=3000", "measure.passes=[timing]"]
BOUND_S = GRACE_S + TERMINATE_S + 30


def nodes(folder: Path, *overrides: str, second: tuple[str, ...] = ()) -> list[subprocess.Popen[str]]:
    """The same command at two nodes, each in a folder of its own; the second one's may have more."""
    port, found = free_ports(1)[0], []
    for rank, more in enumerate(((), second)):
        (folder / str(rank) / "tmp").mkdir(parents=True)
        found.append(
            start(
                folder / str(rank), *overrides, *more, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port), TMPDIR=str(folder / str(rank) / "tmp"),
            )
        )  # fmt: skip
    return found


def ended(processes: list[subprocess.Popen[str]]) -> tuple[list[int], list[str]]:
    said = ["".join(one.communicate(timeout=300)) for one in processes]
    return [one.returncode for one in processes], said


def left_of(folder: Path, node: int) -> list[Path]:
    return list((folder / str(node) / "tmp").glob("tbd-node-*"))


def test_two_nodes_without_a_shared_folder_are_one_run_of_rank_0(tmp_path: Path) -> None:
    codes, said = ended(nodes(tmp_path, *TWO, "hardware.devices=2"))
    assert codes == [0, 0], said
    spool = only_spool(tmp_path / "0")
    assert "4 on 2 node(s), 2 each, started by variables (RANK=0 of WORLD_SIZE=2)" in said[0]
    assert not (tmp_path / "1" / "runs").exists() and left_of(tmp_path, 1) == []
    figures = json.loads((spool / "figures.json").read_text())
    assert [row["node"] for row in figures["tables"]["ranks"]] == [0, 0, 1, 1]
    assert {name.split("/")[1] for name in figures["series"] if name.startswith("system/")} == {"0", "1"}
    for rank in range(4):
        there = spool / "ranks" / str(rank)
        assert [event["status"] for event in events(there) if event["event"] == "end"] == ["ok"] * 3
        assert {"trace.json.gz", "memory.json", "worker.log", "request.json"} <= {file.name for file in there.iterdir()}
    assert (spool / "ranks/3/trace.json.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_torchruns_of_two_nodes_with_two_processes_each_are_one_run(tmp_path: Path) -> None:
    port, both = str(free_ports(1)[0]), []
    for node in ("0", "1"):
        (tmp_path / node).mkdir()
        place = ["--nnodes=2", "--nproc-per-node=2", f"--node-rank={node}", "--master-addr=127.0.0.1"]
        command = [framework_python("pytorch"), "-m", "torch.distributed.run", *place, f"--master-port={port}"]
        command += ["--no-python", sys.executable, "-m", "tbd.train", *TWO, "hardware.devices=2"]
        both.append(
            subprocess.Popen(
                [*command, "measure.passes=[timing]"], cwd=tmp_path / node, env=environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            )
        )  # fmt: skip
    codes, said = ended(both)
    assert codes == [0, 0], said
    spool = only_spool(tmp_path / "0")
    assert len(json.loads((spool / "figures.json").read_text())["tables"]["ranks"]) == 4
    for node in range(2):
        assert f"rank {2 * node + 1}: the first of this node starts all ranks" in said[node]


def test_a_rank_of_another_node_that_fails_ends_both(tmp_path: Path) -> None:
    fault = options(fault={"kind": "out_of_memory", "rank": 1, "step": 3})
    codes, said = ended(nodes(tmp_path, *TWO, *LONG, *fault))
    assert codes == [6, 6] or codes == [6, 9], said
    spool = only_spool(tmp_path / "0")
    assert end(spool)["cause"].startswith("rank 1: out of memory")


def test_a_node_that_is_killed_is_lost_and_what_it_wrote_is_kept(tmp_path: Path) -> None:
    both = nodes(tmp_path, *TWO, *LONG)
    wait_until(in_rank_phase(tmp_path / "0", "timed", ranks=2), both[0])
    spool = only_spool(tmp_path / "0")
    (folder,) = left_of(tmp_path, 1)
    wait_until(lambda: any(event["event"] == "steps" for event in events(spool / "ranks" / "1")), both[0])
    begin = time.monotonic()
    os.kill(both[1].pid, signal.SIGKILL)
    codes, said = ended(both)
    assert time.monotonic() - begin < BOUND_S
    assert (codes[0], end(spool)["status"]) == (10, "lost_node"), said
    assert end(spool)["cause"].startswith("node 1 went away: the connection to it ended")
    gone(spool, folder)


def test_a_node_0_that_is_killed_leaves_nothing_at_the_others(tmp_path: Path) -> None:
    both = nodes(tmp_path, *TWO, *LONG)
    wait_until(in_rank_phase(tmp_path / "0", "timed", ranks=2), both[0])
    spool, (folder,) = only_spool(tmp_path / "0"), left_of(tmp_path, 1)
    os.kill(both[0].pid, signal.SIGKILL)
    codes, said = ended(both)
    assert codes[1] == 130, said
    assert f"node 0 went away: the connection to it ended. Kept here: {folder}" in said[1]
    assert any(event["event"] == "steps" for event in events(folder / "ranks" / "1"))
    gone(spool, folder)


def gone(*folders: Path) -> None:
    """No process of these runs is left, by the watchdogs of what was killed."""
    deadline = time.monotonic() + 30
    while left := [process for folder in folders for process in processes_of(folder)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_nodes_that_were_started_differently_say_so(tmp_path: Path) -> None:
    codes, said = ended(nodes(tmp_path, *TWO, second=("seed=7",)))
    assert codes == [2, 2], said
    assert all("node 1 was started with another seed than node 0" in one for one in said)
