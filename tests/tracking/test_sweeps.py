from pathlib import Path

import pytest

from tbd.tracking import derived
from tbd.tracking.spool import Spool, write_json
from tbd.tracking.sweeps import Job, jobs_of
from tests.tracking import spools


def test_the_jobs_of_a_sweep_come_from_their_spools(tmp_path: Path) -> None:
    sweep = Spool.create(tmp_path, "sweep", experiment="tests", kind="sweep")
    ok = spools.finished(tmp_path, parent=sweep, tags={"tbd.overrides": "batch_size=8"})
    derived.write(ok)
    failed = spools.begun(tmp_path, parent=sweep, tags={"tbd.overrides": "batch_size=999"})
    failed.end("out_of_memory", "out of memory in the phase timed", 6)
    spools.finished(tmp_path)  # of no sweep
    assert jobs_of(sweep) == [
        Job("batch_size=8", "ok", "", pytest.approx(spools.ITEMS / spools.STEP_S), "images", 0, []),
        Job("batch_size=999", "out_of_memory", "out of memory in the phase timed", None, "items", 6, []),
    ]


def test_a_job_without_an_end_is_interrupted(tmp_path: Path) -> None:
    sweep = Spool.create(tmp_path, "sweep", experiment="tests", kind="sweep")
    lost, killed = (spools.begun(tmp_path, parent=sweep) for _ in range(2))
    write_json(lost.path / "run.json", {**lost.run, "host": "another-host"})
    write_json(killed.path / "run.json", {**killed.run, "boot_id": "another boot"})
    first, second = jobs_of(sweep)
    assert (first.status, first.exit_code, second.status) == ("interrupted", 130, "interrupted")
    assert first.cause == "it has no end: it still runs, or was lost"
    assert second.cause == "the controller was killed: the machine was restarted"


def test_a_sweep_without_jobs_has_none(tmp_path: Path) -> None:
    assert jobs_of(Spool.create(tmp_path, "sweep", experiment="tests", kind="sweep")) == []
