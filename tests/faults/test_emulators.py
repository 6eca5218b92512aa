"""Runs whose emulators, or whose own processes, are killed: a one-line cause, and no process left behind."""

import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.commands import end, in_phase, only_spool, start, train, wait_until

ENDLESS = ["model=a3c", "model.size=small", "framework=pytorch", "batch_size=2", "data.actors_per_row=2",
           "data.processes=2", "measure.passes=[timing]", "measure.steps=1000000", "tracking=offline"]  # fmt: skip


@pytest.fixture
def playing(tmp_path: Path) -> subprocess.Popen[str]:
    """A run in its timed steps."""
    process = start(tmp_path, *ENDLESS)
    wait_until(in_phase(tmp_path, "timed"), process, limit_s=300)
    return process


def below(process: subprocess.Popen[str], words: str) -> list[psutil.Process]:
    """The run's processes that have the words in their command line."""
    return [p for p in psutil.Process(process.pid).children(recursive=True) if words in " ".join(p.cmdline())]


def all_gone(processes: list[psutil.Process]) -> bool:
    gone, alive = psutil.wait_procs(processes, timeout=60)
    return all(p.status() == psutil.STATUS_ZOMBIE for p in alive)


def test_an_emulator_that_is_killed_ends_the_run_as_crashed(tmp_path: Path, playing: subprocess.Popen[str]) -> None:
    emulators = below(playing, "play.py")
    assert len(emulators) == 2
    emulators[0].kill()
    playing.communicate(timeout=120)
    assert playing.returncode == 9
    ending = end(only_spool(tmp_path))
    assert ending["status"] == "crashed"
    assert "an emulator of breakout died (signal 9)" in ending["cause"] and "\n" not in ending["cause"]
    assert all_gone(emulators)


@pytest.mark.parametrize("words", ["tbd.worker.run_pass", "tbd.worker "])
def test_emulators_end_with_a_worker_that_is_killed(playing: subprocess.Popen[str], words: str) -> None:
    emulators = below(playing, "play.py")
    for process in below(playing, words):
        process.kill()
    playing.communicate(timeout=120)
    assert playing.returncode == 9 and len(emulators) == 2
    assert all_gone(emulators)


def test_emulators_end_with_a_controller_that_is_killed(playing: subprocess.Popen[str]) -> None:
    emulators = below(playing, "play.py")
    os.kill(playing.pid, signal.SIGKILL)
    playing.communicate(timeout=120)
    assert len(emulators) == 2
    assert all_gone(emulators)


@pytest.mark.parametrize(
    "options, said",
    [
        (["data.game=brekout"], "data.game=brekout is no game of the emulator; near are breakout"),
        (["data.game=pong"], "data.game=pong has 6 actions, not model.actions=4: set model.actions=6"),
    ],
)
def test_a_game_that_does_not_fit_is_bad_data(tmp_path: Path, options: list[str], said: str) -> None:
    done = train(tmp_path, *ENDLESS, *options)
    assert done.returncode == 3, done.stderr
    ending = end(only_spool(tmp_path))
    assert ending["status"] == "bad_data" and said in ending["cause"]


def test_an_interpreter_that_has_no_emulator(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 7\n")
    python.chmod(0o755)
    done = train(tmp_path, *ENDLESS, f"data.python={python}")
    assert done.returncode == 5, done.stderr
    assert end(only_spool(tmp_path))["status"] == "environment_failed"
