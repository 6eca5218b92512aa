"""One run's memory as a document: memory_breakdown.json (docs/memory.md), which the page and the picture show."""

import contextlib
import math
from typing import Any

from tbd.measure import memory
from tbd.measure.events import Absent
from tbd.measure.run import Run

SCHEMA = 1


def report(run: Run) -> dict[str, Any]:
    """The document. Raises Absent where the run has no record of its memory."""
    record, found = run.memory_record, run.memory_breakdown
    whole = record.peak_bytes or math.fsum(found.live.values())
    structures = math.fsum(found.live[name] for name in memory.STRUCTURES)
    outside = None
    with contextlib.suppress(Absent):
        if run.device == "cpu":
            outside = memory.outside_allocator_mb(run.memory_event.rss_peak_bytes, record.peak_bytes)
    return {
        "schema": SCHEMA,
        "method": record.method,
        "allocator": record.allocator,
        "peak": {
            "position": found.position,
            "phase": record.phase(found.position),
            "allocator_mb": None if record.peak_bytes is None else record.peak_bytes / 1e6,
            "slack_mb": record.slack_bytes / 1e6,
            "untracked_mb": None if found.untracked_bytes is None else found.untracked_bytes / 1e6,
            "outside_allocator_mb": outside,
            "categories_mb": {name: size / 1e6 for name, size in found.live.items()},
        },
        "shares": {
            "of_peak": {name: size / whole for name, size in found.live.items()},
            "of_peak_denominator": "the allocator's peak" if record.peak_bytes else "the recorded buffers' sum",
            "of_structures": {
                name: found.live[name] / structures if structures else None for name in memory.STRUCTURES
            },
            "of_structures_denominator": " + ".join(memory.STRUCTURES),
        },
        "feature_maps_highest_mb": memory.feature_maps_highest_mb(record),
        "steps": [record.begin, record.end],
        "phases": {name: list(bounds) for name, bounds in record.phases.items()},
        "timeline": memory.timeline_table(record),
        "layers": memory.layers_table(record),
        "largest": memory.largest_table(record, found.position),
    }
