"""MXNet's profile as a trace: docs/trace.md."""

import contextlib
import gzip
import json
import os
import tempfile

import mxnet


@contextlib.contextmanager
def tracing(path):
    """The profiler runs within; the gzipped trace is at `path` once the block is left."""
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "profile.json")
        mxnet.profiler.set_config(
            profile_symbolic=True, profile_imperative=True, profile_api=False, profile_memory=False, filename=name
        )
        mxnet.nd.waitall()
        mxnet.profiler.set_state("run")
        yield
        mxnet.nd.waitall()
        mxnet.profiler.set_state("stop")
        mxnet.profiler.dump()
        with open(name) as file:
            events = json.load(file)["traceEvents"]
    with gzip.open(path, "wt") as file:
        json.dump({"traceEvents": cleaned(events)}, file)


def phase(operator):
    """The phase by an operator's name: gradients begin with _backward, what moves weights ends with _update.

    Several names in brackets are operators that the engine runs as one.
    """
    first = operator.strip("[]").split(",")[0]
    if first.startswith("_backward"):
        return "backward"
    return "update" if first.endswith("_update") else "forward"


def cleaned(events):
    """Complete events of the operators, sorted by their begin, from the profiler's pairs.

    It writes every operator twice: from "B" to "E" in the thread that ran it, and from "b" to "e" once more. Threads
    have numbers beyond 2^53, here 1, 2, ... in the order in which they first appear. "WaitForVar" is no operator: the
    engine tells by it that an array is ready.
    """
    found, open_events, threads = [], {}, {}
    paired = (e for e in events if e.get("ph") in ("B", "E") and e["name"] != "WaitForVar")
    for event in sorted(paired, key=lambda e: e["ts"]):
        thread = threads.setdefault((event["pid"], event["tid"]), len(threads) + 1)
        stack = open_events.setdefault((thread, event["name"]), [])
        if event["ph"] == "B":
            stack.append(event["ts"])
        elif stack:
            begin = stack.pop()
            found.append(
                {
                    "ph": "X",
                    "cat": "cpu_op",
                    "name": event["name"],
                    "ts": begin,
                    "dur": event["ts"] - begin,
                    "pid": 1,
                    "tid": thread,
                    "args": {"phase": phase(event["name"])},
                }
            )
    return sorted(found, key=lambda event: event["ts"])
