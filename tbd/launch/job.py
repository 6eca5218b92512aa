"""A run of several ranks: one agent a node, started by an engine, and followed to the end by what they write."""

import contextlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tbd.launch import engines, project
from tbd.launch.ends import end_of
from tbd.launch.engines import Engine
from tbd.launch.files import PACKAGE
from tbd.launch.process import Process
from tbd.launch.watch import LOOK_EVERY_S, Listener, NewLines, tell
from tbd.worker import status

if TYPE_CHECKING:
    from tbd.config.plan import Plan
    from tbd.launch.environments import Environment
    from tbd.launch.project import Project

AGENT = "tbd.agent"
OVER = "nodes/over"  # a file in the spool: every agent that is still there is to end
# Bounds on how long a run goes on that can't end well. An agent writes every second.
NODE_SILENT_S = 30.0  # without a word from a node's agent: the node, or the network to the shared folder, is lost
GRACE_S = 10.0  # after a rank's failure, for the others to find out and say how they end
TERMINATE_S = 10.0  # for agents to end their ranks (tbd/agent.py: in 5 s), before they are killed


class Member(Protocol):
    """A Process of this machine, or another node's agent (tbd/launch/hub.py)."""

    @property
    def tail(self) -> list[str]: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int | None: ...
    def terminate(self, grace: float = 10.0) -> None: ...


class Job:
    """What this machine knows of the run's nodes: an agent each, or the one srun for all of them."""

    def __init__(self, processes: Sequence[Member]):
        self.processes = processes

    @property
    def over(self) -> bool:
        return all(process.poll() is not None for process in self.processes)

    def wait(self, timeout: float) -> None:
        """Sleep until all have ended, or for `timeout` seconds."""
        deadline = time.monotonic() + timeout
        for process in self.processes:
            process.wait(max(0.0, deadline - time.monotonic()))

    def terminate(self) -> None:
        """End all of it, on every node; returns when that is done."""
        with ThreadPoolExecutor(max_workers=len(self.processes)) as pool:
            list(pool.map(lambda process: process.terminate(TERMINATE_S), self.processes))

    def gone(self, node: int) -> str | None:
        """How the node's agent ended, as far as this machine knows; None while it runs."""
        process = self.processes[min(node, len(self.processes) - 1)]
        returncode = process.poll()
        if returncode is None:
            return None
        return end_of(returncode, process.tail)[1] or "it ended"


def start(
    engine: Engine,
    hardware: Mapping[str, Any],
    spool: Path,
    variables: Mapping[str, str],
    others: Sequence[Member] = (),
) -> Job:
    """Start the agents, whose working folder is the spool; `others` are those that were started elsewhere. Raises
    OSError where nothing can be started."""
    if engine.name == engines.SLURM:
        command = engines.srun(hardware, "tbd", agent_of(spool))
        return Job([Process(command, spool, own_variables(variables), spool / "worker.log")])
    started: list[Member] = []
    try:
        for node in range(hardware["nodes"] - len(others)):
            started.append(start_agent(spool, node, variables))
    except BaseException:
        Job(started).terminate() if started else None
        raise
    return Job([*started, *others])


def start_agent(spool: Path, node: int, variables: Mapping[str, str]) -> Process:
    return Process([*agent_of(spool), str(node)], spool, own_variables(variables), spool / "worker.log")


def agent_of(spool: Path) -> list[str]:
    return [sys.executable, "-m", AGENT, str(spool)]


def own_variables(variables: Mapping[str, str]) -> dict[str, str]:
    return {**variables, "PYTHONPATH": str(PACKAGE.parent), "PYTHONUNBUFFERED": "1"}


def launch_of(
    planned: "Plan", environment: "Environment", found: "Project", address: str | None = None
) -> dict[str, Any]:
    """What write_launch() writes. `address`: the node's own, by which the others reach it; None where it finds that out
    itself."""
    assert planned.engine is not None
    return {
        "command": project.command_in(environment, found),
        "folder": str(found.folder),
        "binaries": str(environment.binaries),
        "home": str(environment.home),
        "engine": planned.engine.name,
        "address": address,
        "port": planned.config["hardware"]["port"],
        "timeout_s": planned.config["measure"]["timeout_s"],
    }


def write_launch(spool: Path, launch: Mapping[str, Any]) -> None:
    """nodes/launch.json: what an agent needs beside request.json. See tbd/agent.py."""
    (spool / "nodes").mkdir(exist_ok=True)
    (spool / "ranks").mkdir(exist_ok=True)
    (spool / "nodes" / "launch.json").write_text(json.dumps(launch, indent=1) + "\n")


class Follower:
    """What the agents have written so far, and what rank 0 does, for the terminal."""

    def __init__(self, spool: Path, nodes: int, world_size: int):
        self._lines = {node: NewLines(spool / "nodes" / str(node) / "agent.jsonl") for node in range(nodes)}
        self._rank_0 = NewLines(spool / "ranks" / "0" / "events.jsonl")
        self._world_size = world_size
        self.heard: dict[int, float] = {}
        self.node_ends: dict[int, tuple[str, str]] = {}
        self.rank_ends: list[dict[str, Any]] = []

    def look(self, listener: Listener) -> None:
        for node, lines in self._lines.items():
            for event in lines.read():
                self.heard[node] = time.monotonic()
                if event.get("event") == "rank_end":
                    self.rank_ends.append(event)
                elif event.get("event") == "end":
                    self.node_ends[node] = (str(event.get("status")), str(event.get("cause", "")))
        for event in self._rank_0.read():
            tell(listener, event, self._world_size)  # the others do as much beside it, within a row

    @property
    def failed(self) -> bool:
        """Whether a rank, or an agent, has told of an end that is not ok."""
        ends = [str(event.get("status")) for event in self.rank_ends]
        return any(name != status.OK for name in [*ends, *(name for name, _ in self.node_ends.values())])

    def silent(self, job: Job) -> str | None:
        """Which node was lost, and how that shows; None where none is."""
        for node, lines in self._lines.items():
            if node in self.node_ends:
                continue
            if (how := job.gone(node)) is not None:
                for event in lines.read():  # its last words, written between the look and its end
                    if event.get("event") == "end":
                        self.node_ends[node] = (str(event.get("status")), str(event.get("cause", "")))
                    elif event.get("event") == "rank_end":
                        self.rank_ends.append(event)
                if node not in self.node_ends:
                    return f"node {node} went away: {how}"
            elif node in self.heard and time.monotonic() - self.heard[node] > NODE_SILENT_S:
                return f"node {node} went away: nothing was heard of it for {NODE_SILENT_S:g} s"
        return None


def watch(job: Job, follower: Follower, listener: Listener, spool: Path) -> tuple[str, str]:
    """(status, cause) of the run, once every rank has ended.

    After a rank's failure the others have GRACE_S, after a node's loss none, and all is ended. Ctrl-C goes through, the
    job ended.
    """
    try:
        return judge(follower, follow(job, follower, listener, spool))
    finally:
        tell_over(spool)


def tell_over(spool: Path) -> None:
    with contextlib.suppress(OSError):
        (spool / OVER).touch()


def follow(job: Job, follower: Follower, listener: Listener, spool: Path) -> str | None:
    """Follow the run to its end; gives which node was lost, and how that shows."""
    deadline = None
    lost = None
    try:
        while not job.over:
            job.wait(LOOK_EVERY_S)
            follower.look(listener)
            lost = follower.silent(job)
            if follower.failed and deadline is None:
                deadline = time.monotonic() + GRACE_S
            if lost or (deadline is not None and time.monotonic() > deadline):
                tell_over(spool)
                job.terminate()
                break
        follower.look(listener)
        return lost or follower.silent(job)
    except BaseException:
        job.terminate()
        raise


def judge(follower: Follower, lost: str | None) -> tuple[str, str]:
    """(status, cause): of the first rank, else node, that failed by itself; what only followed from another's end comes
    after."""
    ranks = [event for event in follower.rank_ends if event.get("status") not in (status.OK, status.INTERRUPTED)]
    ranks.sort(key=lambda event: (event.get("status") == status.LOST_NODE, float(event.get("t", 0.0))))
    of_ranks = [(str(event["status"]), f"rank {event['rank']}: {event['cause']}") for event in ranks]
    of_nodes = [
        (name, f"node {node}: {cause}")
        for node, (name, cause) in sorted(follower.node_ends.items())
        if name != status.OK
    ]
    failed = of_ranks + of_nodes
    for name, cause in failed:
        if name not in (status.LOST_NODE, status.INTERRUPTED):
            return name, cause
    if lost:
        return status.LOST_NODE, lost
    return failed[0] if failed else (status.OK, "")
