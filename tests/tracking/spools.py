"""Builds the spool of a run that never was: known events in the form of docs/events.md, at known times."""

import gzip
import json
import math
from pathlib import Path
from typing import Any

from tbd.tracking.spool import Spool

STEPS = 30
STEP_S = 0.1
ITEMS = 8
CONFIG = """\
model: {name: resnet50, size: small, blocks: '1,1,1,1'}
framework: {name: pytorch, options: {}}
batch_size: 8
seed: null
"""
REQUEST = {
    "schema": 1,
    "model": {"name": "resnet50"},
    "framework": {"name": "pytorch"},
    "hardware": {"name": "cpu", "device": "cpu"},
    "measure": {"passes": ["timing", "trace", "memory"]},
}


def begun(root: Path, name: str = "resnet50-pytorch", **options: Any) -> Spool:
    """The spool of a run that has just begun."""
    spool = Spool.create(root, name, experiment=options.pop("experiment", "tests"), **options)
    spool.write_config(CONFIG)
    spool.write_request({**REQUEST, "spool_id": spool.id, "output": str(spool.path)})
    return spool


def finished(root: Path, status: str = "ok", cause: str = "", **options: Any) -> Spool:
    """The spool of a run that trained STEPS steps of STEP_S seconds with ITEMS images each, and ended with `status`."""
    spool = begun(root, **options)
    start = header(spool)["t"]
    events = timing(start, header(spool)["wall_time"])
    events += trace(spool, start + 10)
    write_events(spool, events)
    for number in range(12):
        metrics = {"system/cpu_utilization_percentage": 50.0}
        spool.event("sample", t=start + number / 4, cpu_s=number / 5, metrics=metrics)
    spool.end(status, cause, t=start + 12.0)
    return spool


def header(spool: Spool) -> dict[str, Any]:
    return spool.controller_events()[0]


def timing(t: float, wall_time: float, losses: list[float] | None = None) -> list[dict[str, Any]]:
    """The events of a timing pass that starts at the monotonic time `t`; the window begins a second later."""
    begin = t + 1.0
    ends = [begin + STEP_S * (number + 1) for number in range(STEPS)]
    events = [
        {"event": "header", "schema": 1, "wall_time": wall_time, "host": "h", "pid": 1, "t": t},
        {"event": "framework", "name": "pytorch", "version": "2.13.0", "devices": [{"kind": "cpu", "name": "A CPU"}]},
        {"event": "model", "name": "resnet50", "parameters": 10, "weights_bytes": 40, "optimizer_state_bytes": 40,
         "unit": "images"},
        {"event": "dataset", "name": "synthetic", "digest": "abc", "source": "drawn", "counts": {"images": 8},
         "skipped": {}},
        {"event": "phase", "name": "timed", "t": begin},
        {"event": "steps", "phase": "timed", "first": 0, "end": ends, "items": {"images": [ITEMS] * STEPS},
         "flops": [10**9] * STEPS, "data_wait_s": [0.0] * STEPS},
        {"event": "window", "begin": begin, "end": ends[-1], "steps": STEPS, "cpu_s": 1.0},
        {"event": "losses", "phase": "timed", "first": 0,
         "values": losses or [2.0 * math.exp(-number / 10) for number in range(STEPS)]},
        {"event": "end", "status": "ok", "cause": ""},
    ]  # fmt: skip
    return [{"pass": "timing", "t": t + 5, **event} for event in events]


def trace(spool: Spool, t: float) -> list[dict[str, Any]]:
    """The events of a trace pass, and its file."""
    recorded = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 100 * number, "dur": duration}
        for number, (name, duration) in enumerate([("conv <forward>", 90), ("conv <backward>", 60), ("relu", 5)])
    ]
    with gzip.open(spool.path / "trace.json.gz", "wt") as file:
        json.dump({"traceEvents": recorded}, file)
    return [
        {"event": "header", "pass": "trace", "schema": 1, "wall_time": 0.0, "t": t},
        {"event": "trace", "pass": "trace", "t": t, "path": "trace.json.gz", "steps": 1, "begin": t, "end": t + 1},
        {"event": "end", "pass": "trace", "t": t, "status": "ok", "cause": ""},
    ]


def write_events(spool: Spool, events: list[dict[str, Any]]) -> None:
    (spool.path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
