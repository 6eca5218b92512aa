"""The agent of one node: python -m tbd.agent SPOOL [NODE]. Starts that node's ranks, watches and samples them.

It reads request.json and nodes/launch.json in the spool, gives each rank a folder ranks/RANK with a request.json of its
own, and writes nodes/NODE/agent.jsonl, in the form of controller.jsonl: docs/events.md. NODE is left out where Slurm
says it. When one rank fails the others have a while to find out themselves; then they are ended. So are all once
nodes/over is there: a node that Slurm has lost is told by nobody else.
"""

import json
import os
import platform
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tbd
from tbd.launch.engines import PROCESSES
from tbd.launch.job import GRACE_S, OVER
from tbd.launch.process import Process
from tbd.launch.project import REQUEST
from tbd.launch.variables import gpu_variables, import_folder, visible_gpus, worker_variables
from tbd.launch.watch import watch
from tbd.tracking import process
from tbd.tracking.sampler import Sampler
from tbd.tracking.spool import SCHEMA, write_json
from tbd.tracking.writer import EventWriter
from tbd.worker import network, status
from tbd.worker.status import Ended

RENDEZVOUS_WITHIN_S = 120.0  # Slurm starts a job's nodes within seconds of each other
RANK_GRACE_S = 5.0  # of a rank that is told to end
LOOK_EVERY_S = 1.0  # for nodes/over


class Node:
    """One node of the run. `writer`: its agent.jsonl."""

    def __init__(self, spool: Path, number: int):
        self.spool, self.number = spool, number
        self.request: dict[str, Any] = json.loads((spool / "request.json").read_bytes())
        self.launch: dict[str, Any] = json.loads((spool / "nodes" / "launch.json").read_bytes())
        self.hardware: dict[str, Any] = self.request["hardware"]
        folder = spool / "nodes" / str(number)
        folder.mkdir(exist_ok=True)
        self.writer = EventWriter(folder / "agent.jsonl")
        self.address: str = self.launch["address"] or node_address()
        self.failed = threading.Event()
        self.ending = False  # all ranks, by this agent
        self.running: dict[int, Process] = {}
        self._holder: socket.socket | None = None

    def run(self) -> Ended:
        """Start the ranks and watch them all to their ends; gives the node's."""
        self.writer.write(
            "header", schema=SCHEMA, wall_time=time.time(), host=socket.gethostname(), pid=os.getpid(),
            boot_id=process.boot_id(), python=platform.python_version(), tbd=tbd.__version__,
            cores=process.usable_cores(), node=self.number, address=self.address,
        )  # fmt: skip
        place = self.rendezvous()
        local = self.hardware["devices"]
        gpus = self.gpus()
        try:
            with Sampler(self, None, gpus=bool(gpus), visible_gpus=",".join(gpus) or None):
                for index in range(local):
                    rank = self.number * local + index
                    self.running[rank] = self.start(rank, index, place, gpus[index] if gpus else None)
                names = self.follow_all()
        except BaseException:
            self.terminate()
            raise
        finally:
            if self._holder is not None:
                self._holder.close()
        if all(name == status.OK for name in names):
            return Ended(status.OK, "")
        return Ended(next(name for name in names if name != status.OK), "a rank did not end ok")

    def rendezvous(self) -> dict[str, Any]:
        """Where the run's ranks meet: node 0 chooses, and keeps the port from others until the run is over."""
        path = self.spool / "nodes" / "rendezvous.json"
        if self.number == 0:
            port = self.launch["port"]
            try:
                port, self._holder = network.held_port(self.address, port or 0)
            except OSError as error:
                said = f"hardware.port={port}: {error.strerror} at {self.address}: another one, or null for any"
                raise Ended(status.CRASHED, said) from None
            place = {"address": self.address, "port": port}
            write_json(path, place)
            return place
        deadline = time.monotonic() + RENDEZVOUS_WITHIN_S
        while not path.exists():
            self.check_over()
            if time.monotonic() > deadline:
                raise Ended(
                    status.LOST_NODE,
                    f"node 0 wrote no {path} within {RENDEZVOUS_WITHIN_S:g} s: is tracking.runs a folder that all "
                    "nodes share?",
                )
            time.sleep(0.05)
        found: dict[str, Any] = json.loads(path.read_bytes())
        return found

    def gpus(self) -> list[str]:
        """This node's GPUs, a rank each; [] where the run has none."""
        if self.hardware["device"] != "gpu":
            return []
        devices = self.hardware["devices"]
        first = self.number * devices if self.launch["engine"] == PROCESSES else 0
        return visible_gpus(first + devices).split(",")[first:]

    def start(self, rank: int, local_rank: int, place: dict[str, Any], gpu: str | None) -> Process:
        folder = self.spool / "ranks" / str(rank)
        folder.mkdir(exist_ok=True)
        go = os.path.relpath(self.spool / self.request["go"], folder)
        request = {
            **self.request, "output": str(folder), "rank": rank, "local_rank": local_rank, "node": self.number,
            "address": self.address, "rendezvous": place, "go": go,
        }  # fmt: skip
        write_json(folder / "request.json", request)
        home = Path(self.launch["home"])
        variables = worker_variables(Path(self.launch["binaries"]), import_folder(home), self.hardware["threads"])
        if gpu is not None:
            variables.update(gpu_variables(gpu))
        command = str(self.launch["command"]).replace(REQUEST, shlex.quote(str(folder / "request.json")))
        return Process(["bash", "-c", command], Path(self.launch["folder"]), variables, folder / "worker.log")

    def follow_all(self) -> list[str]:
        """Watch every rank to its end; gives their statuses."""
        with ThreadPoolExecutor(max_workers=len(self.running)) as pool:
            followed = [pool.submit(self.follow, rank) for rank in self.running]
            try:
                self.end_together()
            except BaseException:
                self.terminate()  # else the threads would be waited for
                raise
            return [one.result() for one in followed]

    def follow(self, rank: int) -> str:
        """Watch a rank to its end and write how it ended; gives its status."""
        events = self.spool / "ranks" / str(rank) / "events.jsonl"
        go, passes = self.spool / self.request["go"], len(self.request["measure"]["passes"])
        name, cause = watch(self.running[rank], events, go, passes, self.launch["timeout_s"], Silent())
        if self.ending and name == status.CRASHED:  # one that waits for a lost rank may not hear SIGTERM
            name, cause = status.INTERRUPTED, "ended by its agent"
        self.writer.write("rank_end", rank=rank, status=name, cause=cause)
        if name != status.OK:
            self.failed.set()
        return name

    def end_together(self) -> None:
        """Return when all ranks have ended; after one failed, the others within GRACE_S."""
        looked = time.monotonic()
        while not self.failed.wait(0.1):
            if all(one.poll() is not None for one in self.running.values()):
                return
            if time.monotonic() - looked > LOOK_EVERY_S:
                looked = time.monotonic()
                self.check_over()
        deadline = time.monotonic() + GRACE_S
        for one in self.running.values():
            one.wait(max(0.0, deadline - time.monotonic()))
        self.terminate()

    def check_over(self) -> None:
        if (self.spool / OVER).exists():
            raise Ended(status.INTERRUPTED, "the run is over")

    def terminate(self) -> None:
        """End all ranks at once."""
        self.ending = True
        if self.running:
            with ThreadPoolExecutor(max_workers=len(self.running)) as pool:
                list(pool.map(lambda one: one.terminate(RANK_GRACE_S), self.running.values()))


class Silent:
    """A listener that shows nothing: the controller does."""

    def phase(self, name: str, pass_name: str = "") -> None: ...
    def steps(self, ends: list[float], items: dict[str, list[float]]) -> None: ...
    def ended(self, pass_name: str) -> None: ...


def node_address() -> str:
    """The address of this node by which Slurm's other nodes reach it; the host's own where Slurm doesn't say."""
    name = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    try:
        shown = subprocess.run(["scontrol", "show", "node", name, "-o"], capture_output=True, text=True, timeout=20)
        fields = dict(word.split("=", 1) for word in shown.stdout.split() if "=" in word)
        name = fields.get("NodeAddr", name)
    except (OSError, subprocess.SubprocessError):
        pass
    return socket.gethostbyname(name)


def stop(signum: int, frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not break off the orderly end of the first
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    spool = Path(arguments[0])
    if not (spool / "nodes" / "launch.json").exists():
        sys.exit(
            f"tbd: {spool} is not there at {socket.gethostname()}: tracking.runs has to be a folder that all nodes "
            "share. Without one: docs/cluster.md, Without a shared folder"
        )
    signal.signal(signal.SIGTERM, stop)
    node = Node(spool, int(arguments[1] if len(arguments) > 1 else os.environ["SLURM_NODEID"]))
    try:
        ending = node.run()
    except Ended as error:
        ending = error
    except KeyboardInterrupt:
        ending = Ended(status.INTERRUPTED, "the agent was told to end")
    except OSError as error:
        ending = Ended(status.CRASHED, f"{error.filename or spool}: {error.strerror or error}")
    node.writer.write("end", status=ending.status, cause=ending.cause)
    return 0 if ending.status == status.OK else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
