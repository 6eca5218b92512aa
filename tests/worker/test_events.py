import json
import os
from pathlib import Path

import pytest

from tbd.data.source import Batch
from tbd.worker.events import Events, StepRecorder


def lines(path: Path) -> list:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_event_is_a_line_with_pass_and_time(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    events = Events(str(path), "timing")
    events.header()
    events.phase("warmup")
    events.write("end", status="ok", cause="")
    header, phase, end = lines(path)
    assert header["schema"] == 1 and header["pid"] == os.getpid()
    assert (phase["event"], phase["name"], phase["pass"]) == ("phase", "warmup", "timing")
    assert header["t"] <= phase["t"] <= end["t"]


def test_two_writers_append_to_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "events.jsonl")
    first, second = Events(path, "timing"), Events(path, "trace")
    first.phase("a")
    second.phase("b")
    first.phase("c")
    assert [line["name"] for line in lines(Path(path))] == ["a", "b", "c"]


def test_a_full_disk_is_an_error_and_not_a_torn_record() -> None:
    events = Events("/dev/full", "timing")
    with pytest.raises(OSError, match="No space left"):
        events.phase("warmup")


def test_steps_are_collected_and_written_with_all_their_facts(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    events = Events(str(path), "timing")
    events.phase("timed")
    recorder = StepRecorder(events)
    for index in range(3):
        recorder.step(end=float(index), data_wait_s=0.5, batch=Batch({}, {"tokens": 10 + index, "sentences": 2}, 7, 9))
    recorder.flush()
    recorder.step(end=3.0, data_wait_s=0.0, batch=Batch({}, {"tokens": 20, "sentences": 2}, 7, 9))
    recorder.flush()
    recorder.flush()
    first, second = lines(path)[1:]
    assert first["end"] == [0.0, 1.0, 2.0]
    assert first["items"] == {"tokens": [10, 11, 12], "sentences": [2, 2, 2]}
    assert first["flops"] == [7, 7, 7] and first["data_wait_s"] == [0.5] * 3
    assert (first["phase"], first["first"]) == ("timed", 0)
    assert second["first"] == 3
