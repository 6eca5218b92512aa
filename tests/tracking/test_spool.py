import json
import resource
from pathlib import Path

import pytest

from tbd.measure import jsonl
from tbd.tracking.spool import NoSpool, Spool, spools, write_json
from tbd.tracking.writer import EventWriter, SpoolFull


def test_runs_begun_at_once_get_a_folder_each(tmp_path: Path) -> None:
    made = [Spool.create(tmp_path, "resnet50-pytorch", experiment="e") for _ in range(50)]
    assert len({spool.path for spool in made}) == len({spool.id for spool in made}) == 50


def test_identity_survives_reopening(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "name", experiment="e", tags={"a": "b"})
    again = Spool.open(spool.path)
    assert again.run == spool.run
    assert (again.run["experiment"], again.run["tags"]) == ("e", {"a": "b"})


def test_odd_names_stay_inside_the_folder(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "../../a b/ü\n", experiment="e")
    assert spool.path.parent == tmp_path
    assert spool.run["name"] == "../../a b/ü\n"


def test_no_spool_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoSpool, match=str(tmp_path)):
        Spool.open(tmp_path)


def test_a_later_schema_is_refused(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "name", experiment="e")
    write_json(spool.path / "run.json", {**spool.run, "schema": 2})
    with pytest.raises(NoSpool, match="schema 2"):
        Spool.open(spool.path)


def test_events_come_back_in_order_and_the_end_is_found(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "name", experiment="e")
    spool.event("phase", name="launch")
    assert spool.ended() is None
    spool.end("ok", exit_code=0)
    assert [event["event"] for event in spool.controller_events()] == ["header", "phase", "end"]
    assert (spool.ended() or {})["status"] == "ok"


def test_the_end_is_found_behind_a_long_file(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "name", experiment="e")
    for _ in range(2000):
        spool.event("sample", metrics={"system/cpu_utilization_percentage": 1.0}, rss_bytes=123456789)
    spool.end("crashed", "signal 9")
    assert (spool.ended() or {})["cause"] == "signal 9"


@pytest.mark.parametrize("torn", [b'{"event": "pha', b'{"event": "end", "status": "ok"}', b"\xff\x00", b"x" * 200_000])
def test_a_torn_line_is_neither_read_nor_written_on(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "controller.jsonl"
    path.write_bytes(b'{"event": "header"}\n' + torn)
    assert [event["event"] for event in jsonl.read(path)[0]] == ["header"]
    EventWriter(path).write("end")
    assert [event["event"] for event in jsonl.read(path)[0]] == ["header", "end"]
    assert all(json.loads(line) for line in path.read_bytes().splitlines())


def test_a_full_disk_is_told_once_and_the_end_still_fits(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "name", experiment="e")
    file = spool.path / "controller.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 100, hard))  # some of the line would fit
    try:
        with pytest.raises(SpoolFull, match="disk is full"):
            spool.event("phase", name="x" * 200)
        spool.event("phase", name="y" * 200)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert spool.writer.lost == 2
    spool.end("crashed", "the disk is full")
    assert [event["event"] for event in spool.controller_events()] == ["header", "end"]


def test_room_for_the_end_is_kept_until_the_end(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, "name", experiment="e")
    assert (spool.path / ".reserve").stat().st_size > 10_000
    spool.end("ok")
    assert not (spool.path / ".reserve").exists()


def test_a_run_alone_takes_over_the_run_of_mlflow_run_and_one_of_a_sweep_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "abc")
    sweep = Spool.create(tmp_path, "sweep", experiment="e", kind="sweep")
    child = Spool.create(tmp_path, "job", experiment="e", parent=sweep)
    assert sweep.run["resume_run_id"] == "abc"
    assert (child.run["resume_run_id"], child.run["parent_spool_id"]) == (None, sweep.id)


def test_sweeps_come_before_their_runs(tmp_path: Path) -> None:
    sweep = Spool.create(tmp_path, "z", experiment="e", kind="sweep")
    child = Spool.create(tmp_path, "a", experiment="e", parent=sweep)
    (tmp_path / "something else").mkdir()
    assert [spool.id for spool in spools(tmp_path)] == [sweep.id, child.id]
