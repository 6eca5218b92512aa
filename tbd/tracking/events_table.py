"""trace.parquet: the events of the traced steps, whatever framework they are of, as one table (docs/trace.md)."""

import io

from tbd.measure.trace import Recording, kinds

NOTE = b"tbd.note"


def parquet(recording: Recording) -> bytes:
    """The table as a Parquet file; where the trace was cut, its metadata and a warning of the run say so."""
    import pyarrow
    from pyarrow import parquet

    events = recording.events
    start = min((event.begin for event in events), default=0.0)

    def words(values: list[str]) -> pyarrow.Array:
        return pyarrow.array(values, pyarrow.string()).dictionary_encode()

    columns = {
        "name": words([event.name for event in events]),
        "device": words([event.device for event in events]),
        "stream": words([".".join(event.lane) for event in events]),
        "start_us": pyarrow.array([event.begin - start for event in events], pyarrow.float64()),
        "duration_us": pyarrow.array([event.end - event.begin for event in events], pyarrow.float64()),
        "kind": words(kinds(events)),
        "operator": words([event.operator for event in events]),
        "layer": words([event.layer for event in events]),
        "phase": words([event.phase for event in events]),
    }
    table = pyarrow.table(columns)
    if recording.cut:
        note = f"cut: the trace has more than these {len(events)} events"
        table = table.replace_schema_metadata({NOTE: note.encode()})
    written = io.BytesIO()
    parquet.write_table(table, written, compression="zstd")
    return written.getvalue()
