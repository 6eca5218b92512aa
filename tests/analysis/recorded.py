"""Builds spools of runs that never were: the sleep framework's own events on a scripted clock, with figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tbd.tracking import derived
from tbd.tracking.spool import Spool, write_json
from tests import sleeping

CONFIG = """\
model: {{name: resnet50, size: small}}
framework: {{name: sleep, options: {{}}}}
hardware: {{name: cpu, device: cpu, threads: 2}}
measure: {{steps: {steps}, repeats: {repeats}}}
batch_size: {batch_size}
seed: {seed}
"""


def run(
    passes: Sequence[Sequence[float]],
    *,
    name: str = "resnet50 sleep cpu",
    version: str = "1.0",
    batch_size: int = 8,
    seed: int = 1,
    start: float | None = None,
    memory: dict[str, Any] | None = None,
    trace: Sequence[tuple[str, float]] = (),
    parent: Spool | None = None,
    tags: dict[str, str] | None = None,
    items: int = sleeping.ITEMS,
) -> Spool:
    """A run whose timing passes have steps of these seconds. `trace`: (operator, ms) of one traced step.

    `items`: images of a step. `start`: Unix seconds.
    """
    facts = {"tbd.model": "resnet50", "tbd.framework": "sleep", "tbd.hardware": "cpu"}
    spool = Spool.create(Path("runs"), name, experiment="tests", tags={**facts, **(tags or {})}, parent=parent)
    if start is not None:
        spool.run["wall_time"] = start
        write_json(spool.path / "run.json", spool.run)
    spool.write_config(CONFIG.format(steps=len(passes[0]), repeats=len(passes), batch_size=batch_size, seed=seed))
    options: dict[str, Any] = {"items": {"images": items}}
    others = []
    if trace:
        others.append("trace")
        options["trace_events"] = [
            {"ph": "X", "cat": "cpu_op", "name": operator, "pid": 1, "tid": 1, "ts": 1e6 * number, "dur": 1e3 * ms}
            for number, (operator, ms) in enumerate(trace)
        ]
    if memory:
        others.append("memory")
        options["memory"] = memory
    sleeping.train(spool.path, passes, others, version, **options)
    spool.end("ok", "", 0)
    derived.write(spool)
    return spool


def buffers(**megabytes: float) -> dict[str, Any]:
    """memory.json with one buffer of each category: buffers(weights=10, feature_maps=200)."""
    sizes = {category: round(size * 1e6) for category, size in megabytes.items()}
    return {
        "schema": 1,
        "buffers": [{"bytes": n, "born": 0, "died": None, "category": c, "name": c} for c, n in sizes.items()],
        "steps": [1, 2],
        "allocator": {"name": "none", "peak_bytes": sum(sizes.values()), "slack_bytes": 0},
        "method": "as scripted",
    }
