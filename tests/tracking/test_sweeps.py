from pathlib import Path

import pytest

from tbd.tracking import derived
from tbd.tracking.spool import Spool, write_json
from tbd.tracking.sweeps import SIGNATURE, Job, earlier, jobs_of, results
from tbd.worker.status import EXIT_CODES
from tests.tracking import spools


def test_the_jobs_of_a_sweep_come_from_their_spools(tmp_path: Path) -> None:
    sweep = Spool.create(tmp_path, "sweep", experiment="tests", kind="sweep")
    ok = spools.finished(tmp_path, parent=sweep, tags={"tbd.overrides": "batch_size=8"})
    derived.write(ok)
    failed = spools.begun(tmp_path, parent=sweep, tags={"tbd.overrides": "batch_size=999"})
    failed.end("out_of_memory", "out of memory in the phase timed", 6)
    spools.finished(tmp_path)  # of no sweep
    assert jobs_of(sweep) == [
        Job("batch_size=8", "ok", "", pytest.approx(spools.ITEMS / spools.STEP_S), "images", 0, [], path=ok.path),
        Job(
            "batch_size=999", "out_of_memory", "out of memory in the phase timed", None, "items", 6, [],
            path=failed.path,
        ),
    ]  # fmt: skip


def test_a_job_without_an_end_is_interrupted_or_lost(tmp_path: Path) -> None:
    sweep = Spool.create(tmp_path, "sweep", experiment="tests", kind="sweep")
    lost, killed = (spools.begun(tmp_path, parent=sweep) for _ in range(2))
    write_json(lost.path / "run.json", {**lost.run, "host": "another-host"})
    write_json(killed.path / "run.json", {**killed.run, "boot_id": "another boot"})
    first, second = jobs_of(sweep)
    assert (first.status, first.exit_code) == ("lost_node", EXIT_CODES["lost_node"])
    assert first.cause == "it has no end: it still runs on another-host, or was lost"
    assert (second.status, second.exit_code) == ("interrupted", EXIT_CODES["interrupted"])
    assert second.cause == "the controller was killed: the machine was restarted"


def test_a_sweep_without_jobs_has_none(tmp_path: Path) -> None:
    assert jobs_of(Spool.create(tmp_path, "sweep", experiment="tests", kind="sweep")) == []


def job(root: Path, sweep: Spool, signature: str, status: str) -> Spool:
    return spools.finished(root, status, parent=sweep, tags={SIGNATURE: signature})


def test_what_has_a_result_need_not_run_again_and_the_last_time_counts(tmp_path: Path) -> None:
    sweep = Spool.create(tmp_path, "sweep", experiment="tests", kind="sweep")
    ends = ["ok", "out_of_memory", "diverged", "unsupported", "crashed", "interrupted", "timed_out"]
    for status in ends:
        job(tmp_path, sweep, status, status)
    assert list(results(sweep)) == ends[:4]
    again = job(tmp_path, sweep, "crashed", "ok")
    assert len(jobs_of(sweep)) == len(ends) and results(sweep)["crashed"].path == again.path


def test_a_sweep_is_gone_on_with_where_nobody_is_at_it(tmp_path: Path) -> None:
    other, sweep = (
        Spool.create(tmp_path, "sweep", experiment="tests", kind="sweep", tags={SIGNATURE: name}) for name in "ab"
    )
    other.end("ok")
    assert earlier(tmp_path, "b") is None  # this very process is at it
    sweep.end("interrupted")
    found = earlier(tmp_path, "b")
    assert found is not None and found.id == sweep.id and earlier(tmp_path, "c") is None
    found.resume()
    assert found.ended() is None and earlier(tmp_path, "b") is None
    found.end("ok")
    ended = Spool.open(sweep.path).ended()
    assert ended is not None and ended["status"] == "ok"
