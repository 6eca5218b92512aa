"""A run whose controller was really killed gets its end; one that lives, or may live, does not."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tbd.tracking import reaper
from tbd.tracking.follower import Outcome
from tbd.tracking.reaper import end_if_dead, reap
from tbd.tracking.spool import Spool, write_json
from tbd.tracking.store import Settings
from tests.tracking import spools

CONTROLLER = """
import sys, time
from pathlib import Path
from tbd.tracking.spool import Spool
spool = Spool.create(Path(sys.argv[1]), "killed", experiment="tests")
spool.event("phase", name="measure")
print(spool.path, flush=True)
time.sleep(600)
"""


def controller(root: Path) -> tuple[subprocess.Popen[str], Spool]:
    """A process that runs a run, and its spool."""
    process = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(root)],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    return process, Spool.open(Path(process.stdout.readline().strip()))


def test_a_killed_controller_s_run_is_ended_and_recorded(
    tmp_path: Path, settings: Settings, client: MlflowClient
) -> None:
    process, spool = controller(tmp_path)
    try:
        assert reap(tmp_path, settings) == []
        assert spool.ended() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    ((reaped, outcome),) = reap(tmp_path, settings)
    assert (reaped.id, outcome.state) == (spool.id, "synced")
    run = client.get_run(outcome.run_id)
    assert run.info.status == "KILLED"
    assert (run.data.tags["tbd.status"], run.data.tags["tbd.cause"]) == ("interrupted", "the controller was killed")
    assert run.info.end_time >= run.info.start_time
    assert reap(tmp_path, settings) == []


def test_a_store_that_is_away_is_asked_once_for_all_the_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def follow(spool: Spool, settings: Settings) -> Outcome:
        asked.append(spool.id)
        return Outcome("pending", "away", reached=False)

    monkeypatch.setattr(reaper, "follow", follow)
    for tracking in ({"mode": "offline"}, {"mode": "server"}, {"mode": "server"}):
        altered(spools.begun(tmp_path, tracking=tracking), boot_id="another boot")
    states = sorted(outcome.state for _, outcome in reap(tmp_path, Settings()))
    assert states == ["offline", "pending", "pending"] and len(asked) == 1


def test_a_dead_controller_that_nobody_waited_for_is_dead(tmp_path: Path) -> None:
    process, spool = controller(tmp_path)
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the process table
    try:
        assert end_if_dead(spool)
    finally:
        process.wait()


def test_what_a_killed_controller_left_torn_does_not_hide_the_end(tmp_path: Path) -> None:
    process, spool = controller(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with open(spool.path / "controller.jsonl", "a") as file:
        file.write('{"event": "sample", "t": 1')
    assert end_if_dead(spool)
    assert [event["event"] for event in spool.controller_events()] == ["header", "phase", "end"]


def altered(spool: Spool, **run: Any) -> Spool:
    write_json(spool.path / "run.json", {**spool.run, **run})
    return Spool.open(spool.path)


@pytest.mark.parametrize(
    "run, dead",
    [
        ({}, False),
        ({"host": "another-host", "pid": 2**22 + 1}, False),
        ({"pid_namespace": "pid:[1]", "pid": 2**22 + 1}, False),
        ({"boot_id": ""}, False),
        ({"boot_id": "another boot"}, True),
        ({"pid": 2**22 + 1}, True),
        ({"start_ticks": 1}, True),  # the id went to another process
    ],
)
def test_who_is_dead(tmp_path: Path, run: dict[str, Any], dead: bool) -> None:
    spool = altered(spools.begun(tmp_path), **run)
    assert end_if_dead(spool) == dead
    assert (spool.ended() is not None) == dead


def test_a_run_that_mlflow_has_whole_is_not_read_again(tmp_path: Path) -> None:
    """synced.json is written after the end alone."""
    spool = altered(spools.begun(tmp_path), boot_id="another boot")
    write_json(spool.path / "synced.json", {})
    (spool.path / "controller.jsonl").unlink()
    assert not end_if_dead(spool)
    assert not (spool.path / "controller.jsonl").exists()


def test_only_the_tail_of_an_ended_run_is_read(tmp_path: Path) -> None:
    """A file of 64 GiB, nearly all of it a hole: no machine of ours could read it whole."""
    spool = altered(spools.begun(tmp_path), boot_id="another boot")
    with open(spool.path / "controller.jsonl", "r+b") as file:
        file.seek(2**36)
        file.write(b'\n{"event": "end", "status": "ok", "t": 1}\n')
    assert not end_if_dead(spool)


def test_an_ended_run_keeps_its_end(tmp_path: Path) -> None:
    spool = altered(spools.finished(tmp_path), boot_id="another boot")
    assert not end_if_dead(spool)
    assert (spool.ended() or {})["status"] == "ok"
