"""What a node other than node 0 does of a run that a scheduler started on each: its ranks, for node 0 to record.

It works in a folder of its own, which tbd/launch/hub.py mirrors into the run's at node 0, and which is taken away once
that has all of it.
"""

import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from tbd.config.plan import Plan
from tbd.launch import environments, hub, job, programs
from tbd.launch.ends import end_of
from tbd.launch.hub import FROM_NODE_0, Link
from tbd.launch.scheduler import Place
from tbd.launch.watch import LOOK_EVERY_S
from tbd.tracking.redaction import harmless
from tbd.tracking.spool import write_json
from tbd.tracking.writer import EventWriter, last_end
from tbd.worker import status
from tbd.worker.status import EXIT_CODES, Ended

# of request.json: what every node must have been started with alike; paths of its own may differ
ALIKE = ("seed", "batch_size", "precision", "compile", "model", "framework", "measure", "world_size")


def alike(request: dict[str, Any]) -> dict[str, Any]:
    return {key: request[key] for key in ALIKE}


def join(planned: Plan, place: Place) -> int:
    """Start this node's ranks when all nodes are there and watch them to their ends; gives their exit code, once node 0
    has recorded the run."""
    print(f"tbd: node {place.node} of {place.nodes}: joining {place.address}, port {place.port}", file=sys.stderr)
    try:
        hello = {"node": place.node, "alike": alike(planned.request("", Path()))}
        connection, answer = hub.call(place, hello)
    except Ended as refused:
        return said(place.node, refused)
    folder = Path(tempfile.mkdtemp(prefix=f"tbd-node-{place.node}-"))
    own = hub.of_node(place.node, planned.config["hardware"]["devices"])
    for one in own:
        (folder / one).mkdir(parents=True)
    link = Link(connection, folder, own, list(FROM_NODE_0))
    link.begin()
    address = str(connection.getsockname()[0])
    ending = run(planned, place, link, str(answer["spool_id"]), address)
    code = EXIT_CODES[ending.status]
    link.finish()
    link.tell(over=code)
    if link.heard("recorded", threading.TIMEOUT_MAX) is None:
        print(f"tbd: node {place.node}: node 0 went away: {link.lost}. Kept here: {folder}", file=sys.stderr)
        return code or EXIT_CODES[status.LOST_NODE]
    shutil.rmtree(folder, ignore_errors=True)
    return said(place.node, ending)


def said(node: int, ending: Ended) -> int:
    cause = f": {ending.cause}" if ending.cause else ""
    print(f"tbd: node {node}: {ending.status}{cause}", file=sys.stderr)
    return EXIT_CODES[ending.status]


def run(planned: Plan, place: Place, link: Link, spool_id: str, address: str) -> Ended:
    """Start the agent of this node and watch it to its end; what went wrong before it is written in its place."""
    folder, c = link.folder, planned.config
    events = folder / "nodes" / str(place.node) / "agent.jsonl"
    try:
        if planned.unsupported:
            raise Ended(status.UNSUPPORTED, planned.unsupported)
        environment, found = environments.of_framework(c["framework"], note)
        c["data"] = programs.provide(c["data"], note)
        write_json(folder / "request.json", planned.request(spool_id, folder))
        job.write_launch(folder, job.launch_of(planned, environment, found, address))
        link.tell(ready=True)
        agent = job.start_agent(folder, place.node, harmless(os.environ))
        try:
            while agent.wait(LOOK_EVERY_S) is None:
                if link.heard("end") or link.lost is not None:
                    agent.terminate(job.TERMINATE_S)
        except BaseException:
            agent.terminate(job.TERMINATE_S)
            raise
    except (Ended, OSError) as error:
        ending = error if isinstance(error, Ended) else Ended(status.CRASHED, f"{error.filename}: {error.strerror}")
        EventWriter(events).write("end", status=ending.status, cause=ending.cause)
        link.tell(ready=True)
        return ending
    except KeyboardInterrupt:
        return Ended(status.INTERRUPTED, "told to end")
    end = last_end(events)
    if end is not None:
        return Ended(end["status"], end["cause"])
    assert agent.returncode is not None
    return Ended(*end_of(agent.returncode, agent.tail))


def note(text: str) -> None:
    print(f"tbd: {text}", file=sys.stderr)
