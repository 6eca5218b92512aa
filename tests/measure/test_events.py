"""Reading a spool never fails, and takes nothing that is damaged for a fact."""

import json
from pathlib import Path

import pytest

from tbd.measure import events

HEADER = {"event": "header", "pass": "timing", "t": 1.0, "schema": 1, "wall_time": 1e9}


def steps(first: int, end: list[float], **more: object) -> dict[str, object]:
    items = {"images": [8] * len(end)}
    return {
        "event": "steps",
        "pass": "timing",
        "t": 9.0,
        "phase": "timed",
        "first": first,
        "end": end,
        "items": items,
    } | more


def write(spool: Path, *lines: object, tail: str = "") -> None:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    (spool / "events.jsonl").write_text(text + tail)


def test_an_empty_folder_is_an_empty_spool(tmp_path):
    assert events.read(tmp_path) == events.Logs()


def test_a_torn_last_line_is_dropped(tmp_path):
    line = json.dumps(steps(0, [2.0, 3.0]))
    write(tmp_path, HEADER, tail=line[:40])
    found = events.read(tmp_path)
    assert found.passes["timing"].all(events.Steps) == []
    assert found.warnings == ["events.jsonl: 1 damaged line(s) dropped"]


def test_a_last_line_without_its_newline_is_torn_even_if_it_parses(tmp_path):
    write(tmp_path, HEADER, tail=json.dumps(steps(0, [2.0, 3.0])))
    assert events.read(tmp_path).passes["timing"].all(events.Steps) == []


@pytest.mark.parametrize(
    "line",
    [
        "\0\0\0\0",
        "{",
        "[1, 2]",
        "null",
        "[" * 100_000,
        {"event": ["steps"], "pass": "timing"},
        {"event": "steps", "pass": 3},
        {"event": "steps", "pass": "timing", "t": 1},
        steps(0, [2.0, "x"]),
        steps(0, [2.0, None]),
        steps(0, [2.0, float("nan")]),
        steps(0, [3.0, 2.0]),
        steps(0, [2.0, 3.0], items={"images": [8]}),
        steps(0, [2.0, 3.0], items={"images": [8, -8]}),
        steps(0, [2.0, 3.0], items=[8, 8]),
        steps(0, [2.0, 3.0], flops=[1.0]),
        steps(-1, [2.0, 3.0]),
        {"event": "window", "pass": "timing", "t": 9, "begin": 2.0, "end": 2.0, "steps": 1},
        {"event": "window", "pass": "timing", "t": 9, "begin": 2.0, "end": 10**400, "steps": 1},
        {"event": "window", "pass": "timing", "t": 9, "begin": 2.0, "end": 3.0, "steps": True},
    ],
    ids=repr,
)
def test_a_damaged_line_is_dropped_and_counted(tmp_path, line):
    write(tmp_path, HEADER, line, steps(0, [2.0]))
    found = events.read(tmp_path)
    assert found.warnings == ["events.jsonl: 1 damaged line(s) dropped"]
    assert len(found.passes["timing"].records) == 2


def test_unknown_events_and_keys_are_skipped(tmp_path):
    write(tmp_path, HEADER, {"event": "weather", "pass": "timing", "t": 1}, steps(0, [2.0], colour="red"))
    found = events.read(tmp_path)
    assert found.warnings == []
    assert len(found.passes["timing"].steps("timed")) == 1


def test_another_schema_is_left_out(tmp_path):
    write(tmp_path, HEADER | {"schema": 2}, steps(0, [2.0]))
    found = events.read(tmp_path)
    assert found.passes == {}
    assert found.warnings == ["events.jsonl is of schema 2, this version reads 1: left out"]


def test_ranks_of_one_pass_are_told_apart_from_a_pass_that_began_again(tmp_path):
    write(tmp_path, HEADER, HEADER | {"rank": 1}, steps(0, [2.0]))
    assert events.read(tmp_path).passes["timing"].ranks == {"0", "1"}
    write(tmp_path, HEADER, HEADER | {"rank": 0}, steps(0, [2.0]))
    assert events.read(tmp_path).passes["timing"].ranks == {"0"}


def test_a_pass_that_began_again_is_its_last_process(tmp_path):
    write(tmp_path, HEADER, steps(0, [2.0, 3.0]), HEADER, steps(0, [5.0]))
    assert events.read(tmp_path).passes["timing"].steps("timed").end.tolist() == [5.0]


def test_chunks_of_steps_are_joined_in_order(tmp_path):
    write(tmp_path, HEADER, steps(2, [4.0], flops=[3.0]), steps(0, [2.0, 3.0], flops=[1.0, 2.0]))
    joined = events.read(tmp_path).passes["timing"].steps("timed")
    assert joined.end.tolist() == [2.0, 3.0, 4.0]
    assert joined.flops.tolist() == [1.0, 2.0, 3.0]
    assert joined.items["images"].tolist() == [8, 8, 8]


@pytest.mark.parametrize(
    "second", [steps(3, [4.0]), steps(1, [4.0]), steps(2, [2.5]), steps(2, [4.0], items={"tokens": [8]})]
)
def test_steps_end_at_a_gap(tmp_path, second):
    write(tmp_path, HEADER, steps(0, [2.0, 3.0]), second)
    assert len(events.read(tmp_path).passes["timing"].steps("timed")) == 2


def test_what_only_some_steps_have_is_not_known(tmp_path):
    write(tmp_path, HEADER, steps(0, [2.0], flops=[1.0]), steps(1, [3.0]))
    assert events.read(tmp_path).passes["timing"].steps("timed").flops is None
