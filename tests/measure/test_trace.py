"""Self time, unions of intervals, and traces that are none."""

import gzip
import json

import pytest

from tbd.measure import chrome, trace
from tbd.measure.events import Absent


def op(name, begin, end, lane=1, category="cpu_op"):
    return trace.Event(name, category, begin, end, ("1", str(lane)))


def test_a_callers_self_time_is_without_what_it_called():
    events = [op("outer", 0, 100), op("middle", 10, 60), op("inner", 20, 30), op("second", 70, 80)]
    assert trace.self_times_us(events) == [40, 40, 10, 10]


def test_order_in_the_file_does_not_matter():
    events = [op("inner", 20, 30), op("outer", 0, 100)]
    assert trace.self_times_us(events) == [10, 90]


def test_lanes_are_apart():
    assert trace.self_times_us([op("a", 0, 100), op("b", 10, 60, lane=2)]) == [100, 50]


def test_a_callee_that_overhangs_takes_no_time_twice():
    events = [op("outer", 0, 100), op("inner", 50, 100.5), op("next", 100.25, 200)]
    assert sum(trace.self_times_us(events)) == 200


def test_events_of_no_duration_and_twins():
    assert trace.self_times_us([op("a", 5, 5), op("b", 0, 10), op("c", 0, 10)]) == [0, 0, 10]


def test_the_union_counts_no_moment_twice():
    events = [op("a", 0, 10), op("b", 5, 20, lane=2), op("c", 6, 7), op("d", 30, 40), op("k", 0, 99, category="kernel")]
    assert trace.active_us(events, "cpu_op") == 30
    assert trace.active_us([], "cpu_op") == 0


def test_a_kernels_time_is_its_duration():
    events = [op("k", 0, 10, category="kernel"), op("k", 5, 10, lane=2, category="kernel"), op("a", 0, 3)]
    assert trace.operators(events) == [trace.Operator("k", "kernel", 2, 15.0), trace.Operator("a", "cpu_op", 1, 3.0)]


def test_shares_are_of_their_category():
    events = [op("k", 0, 10, category="kernel"), op("a", 0, 3), op("b", 3, 4)]
    rows = {row["name"]: row["share"] for row in trace.table(trace.operators(events), steps=2)}
    assert rows == {"k": 1.0, "a": 0.75, "b": 0.25}


def test_kernels_longer_than_the_unprofiled_steps_are_no_utilisation():
    with pytest.raises(Absent, match=r"2\.00 times"):
        trace.gpu_compute_utilization([op("k", 0, 2e6, category="kernel")], 1.0)


def test_a_cpu_trace_has_no_gpu_utilisation():
    with pytest.raises(Absent, match="no GPU kernel"):
        trace.gpu_compute_utilization([op("a", 0, 2e6)], 1.0)


EVENT = {"ph": "X", "cat": "cpu_op", "name": "mm", "pid": 1, "tid": "main", "ts": 1.5, "dur": 2}


@pytest.mark.parametrize("content", [{"traceEvents": [EVENT]}, [EVENT]])
@pytest.mark.parametrize("zipped", [True, False])
def test_both_forms_are_read_zipped_or_not(tmp_path, content, zipped):
    path = tmp_path / "trace.json.gz"
    text = json.dumps(content).encode()
    path.write_bytes(gzip.compress(text) if zipped else text)
    (found,) = trace.read(path).events
    assert found == trace.Event("mm", "cpu_op", 1.5, 3.5, ("1", "main"), operator="mm")


def test_foreign_and_damaged_events_are_skipped(tmp_path):
    path = tmp_path / "trace.json"
    damages = [{"ph": "M"}, {"cat": "python_function"}, {"cat": ["cpu_op"]}, {"dur": -1}, {"dur": "x"}, {"ts": None}]
    path.write_text(json.dumps([EVENT, 3, None, {}, *(EVENT | damage for damage in damages)]))
    assert len(trace.read(path).events) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (gzip.compress(b'{"traceEvents": []}' * 100, mtime=0)[:-12], "can't be read"),
        (gzip.compress(b"{}", mtime=0)[:10] + b"garbage", "can't be read"),
        (b"\x1f\x8b", "can't be read"),
        (b'{"traceEvents": [{"ph":', "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff\xfe\x00", "no JSON"),
        (b"", "no JSON"),
        (b"{}", "no traceEvents"),
        (b"3", "no traceEvents"),
        (b'{"traceEvents": [{"ph": "X"}]', "no JSON"),
        (b'{"traceEvents": [{"ph": "X"} x]}', "no JSON"),
        (b'[{"ph": "X"}', "no JSON"),
    ],
)
def test_what_is_no_trace_has_a_reason(tmp_path, content, reason):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(content)
    with pytest.raises(Absent, match=reason):
        trace.read(path)


@pytest.mark.parametrize("piece", [1, 7, 64, 10_000])
def test_a_trace_is_read_in_pieces_wherever_they_end(tmp_path, monkeypatch, piece):
    path = tmp_path / "trace.json"
    events = [EVENT | {"ts": number, "name": f'a "{number}" \u00e9'} for number in range(50)]
    path.write_text(json.dumps({"note": 'it has "traceEvents": [1]', "traceEvents": events, "after": {"a": [1]}}))
    monkeypatch.setattr(chrome, "PIECE", piece)
    assert [event.begin for event in trace.read(path).events] == list(range(50))


def test_an_object_without_an_end_is_not_looked_for_without_an_end(tmp_path, monkeypatch):
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [{"name": "' + "x" * 5000)
    monkeypatch.setattr(chrome, "PIECE", 100)
    monkeypatch.setattr(chrome, "LARGEST_OBJECT", 400)
    with pytest.raises(Absent, match="no JSON"):
        trace.read(path)


def test_of_a_trace_that_is_too_large_the_first_events_are_read(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([EVENT | {"ts": number} for number in range(5)]))
    assert not trace.read(path, max_events=5).cut
    cut = trace.read(path, max_events=3)
    assert (len(cut.events), cut.cut) == (3, True)


def test_a_missing_file(tmp_path):
    with pytest.raises(Absent, match="can't be read"):
        trace.read(tmp_path / "trace.json.gz")
