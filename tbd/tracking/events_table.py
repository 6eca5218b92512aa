"""trace.parquet: the events of the traced steps, whatever framework they are of, as one table (docs/trace.md)."""

import io
from collections.abc import Sequence

import numpy as np

from tbd.measure.trace import Event, Recording, kinds

NOTE = b"tbd.note"


def parquet(recording: Recording) -> bytes:
    """The table as a Parquet file; where the trace was cut, its metadata and a warning of the run say so."""
    import pyarrow
    from pyarrow import parquet

    events = recording.events
    fields = zip(*events, strict=True) if events else [()] * len(Event._fields)
    names, _, begins, ends, lanes, devices, operators, layers, phases = fields
    start = min(begins, default=0.0)
    streams = {lane: ".".join(lane) for lane in set(lanes)}

    def words(values: Sequence[str]) -> pyarrow.Array:
        return pyarrow.array(values, pyarrow.string()).dictionary_encode()

    begin, end = np.array(begins, dtype=np.float64), np.array(ends, dtype=np.float64)
    columns = {
        "name": words(names),
        "device": words(devices),
        "stream": words([streams[lane] for lane in lanes]),
        "start_us": begin - start,
        "duration_us": end - begin,
        "kind": words(kinds(events)),
        "operator": words(operators),
        "layer": words(layers),
        "phase": words(phases),
    }
    table = pyarrow.table(columns)
    if recording.cut:
        note = f"cut: the trace has more than these {len(events)} events"
        table = table.replace_schema_metadata({NOTE: note.encode()})
    written = io.BytesIO()
    parquet.write_table(table, written, compression="zstd")
    return written.getvalue()
