"""trace.parquet, read back by pyarrow and by pandas."""

import gzip
import io
import json
from pathlib import Path

import pandas
from pyarrow import parquet

from tbd.measure import trace
from tbd.tracking import derived, events_table
from tests.tracking import spools

EVENTS = [
    trace.Event("aten::mm", "cpu_op", 1000.5, 1010.5, ("1", "2"), "cpu", "aten::mm", "fc", "forward"),
    trace.Event("gemm", "kernel", 1005.5, 1030.0, ("0", "7"), "gpu:0", "aten::mm", "fc", "forward"),
    trace.Event("Memcpy DtoH", "gpu_memcpy", 1030.0, 1031.0, ("0", "7"), "gpu:0"),
]


def test_a_row_an_event_with_times_from_the_first() -> None:
    table = pandas.read_parquet(io.BytesIO(events_table.parquet(trace.Recording(EVENTS, cut=False))))
    assert list(table.columns) == [
        "name", "device", "stream", "start_us", "duration_us", "kind", "operator", "layer", "phase",
    ]  # fmt: skip
    assert table.loc[1].tolist() == ["gemm", "gpu:0", "0.7", 5.0, 24.5, "compute", "aten::mm", "fc", "forward"]
    assert list(table["kind"]) == ["host", "compute", "copy"]


def test_a_trace_that_was_cut_says_so() -> None:
    whole, cut = (events_table.parquet(trace.Recording(EVENTS, cut=cut)) for cut in (False, True))
    assert events_table.NOTE not in (parquet.read_schema(io.BytesIO(whole)).metadata or {})
    note = parquet.read_schema(io.BytesIO(cut)).metadata[events_table.NOTE]
    assert note == b"cut: the trace has more than these 3 events"


def test_a_run_keeps_it_beside_the_original(tmp_path: Path) -> None:
    spool = spools.finished(tmp_path)
    derived.write(spool)
    with gzip.open(spool.path / "trace.json.gz", "rt") as file:
        operators = [e for e in json.load(file)["traceEvents"] if e.get("cat") == "cpu_op"]
    table = pandas.read_parquet(spool.path / "trace.parquet")
    assert len(table) == len(operators)
    assert set(table["kind"]) == {"compute"}, "nothing ran on a GPU"


def test_without_a_trace_there_is_no_table(tmp_path: Path) -> None:
    spool = spools.finished(tmp_path)
    (spool.path / "trace.json.gz").unlink()
    derived.write(spool)
    assert not (spool.path / "trace.parquet").exists()
