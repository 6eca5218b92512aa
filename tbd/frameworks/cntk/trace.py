"""CNTK's profile as a trace: docs/trace.md. Python 3.6 syntax."""

import contextlib
import glob
import gzip
import json
import os
import re
import tempfile

from cntk import debugging

UPDATE = "__Weight Update"  # CNTK's mark of it


@contextlib.contextmanager
def tracing(path):
    """The profiler runs within, with an event for each operator; the gzipped trace is at `path` after the block."""
    with tempfile.TemporaryDirectory() as folder:
        debugging.set_node_timing(True)
        debugging.start_profiler(folder, sync_gpu=False)
        debugging.enable_profiler()
        try:
            yield
        finally:
            debugging.disable_profiler()
            debugging.stop_profiler()
        (name,) = glob.glob(os.path.join(folder, "*_detail_*.json"))
        with open(name) as file:
            events = json.load(file)
    with gzip.open(path, "wt") as file:
        json.dump({"traceEvents": complete(events)}, file)


def complete(events):
    """Complete events, sorted by their begin, from the profiler's pairs of begin and end, which are in no order.

    An operator's name is its kind with Forward or Backward behind it, without the number that CNTK gives each; what
    it was called is in `args`. CNTK's own marks of a step and its parts begin with "_": the operators lie within, but
    those of an update that CNTK's own learners make, which is one operator here.
    """
    found, begun = [], {}
    for event in sorted(events, key=lambda e: e["ts"]):
        key = event["tid"], event["name"]
        if event["ph"] == "B":
            begun.setdefault(key, []).append(event["ts"])
        elif begun.get(key):
            begin = begun[key].pop()
            found.append(
                {
                    "ph": "X",
                    "cat": "mark" if event["name"].startswith("_") else "cpu_op",
                    "name": kind(event["name"]),
                    "ts": begin,
                    "dur": event["ts"] - begin,
                    "pid": event["pid"],
                    "tid": event["tid"],
                    "args": {"node": event["name"], "phase": phase(event["name"])},
                }
            )
    found += learners(found)
    # of two that begin in the same microsecond, the one that took none of it was first
    return sorted(found, key=lambda event: (event["ts"], event["dur"]))


def learners(events):
    """Tells the phase of the operators within CNTK's marks of updates, and gives one for each mark that has none."""
    found = []
    for mark in [event for event in events if event["name"] == UPDATE]:
        end = mark["ts"] + mark["dur"]
        within = [e for e in events if e["cat"] == "cpu_op" and mark["ts"] <= e["ts"] and e["ts"] + e["dur"] <= end]
        for event in within:
            event["args"]["phase"] = "update"
        if not within:
            found.append(dict(mark, cat="cpu_op", name="WeightUpdate", args={"node": UPDATE, "phase": "update"}))
    return found


def phase(name):
    """The phase by an operator's name; "" of a mark."""
    found = re.search(r"(Forward|Backward)$", name)
    return found.group(1).lower() if found else ""


def kind(name):
    """Convolution12Forward -> ConvolutionForward."""
    return re.sub(r"\d+(?=(Forward|Backward)$)", "", name)
