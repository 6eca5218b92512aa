"""A disk that is full: a real file system of a few megabytes, filled while the run is on it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import SLEEP, end, events, only_spool, options, start, train, wait_until


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB in memory."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tbd-test", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Take all the room that is left."""
    with open(folder / "filler", "ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


def test_a_disk_that_fills_up_during_the_run(tmp_path: Path, small_disk: Path) -> None:
    process = start(tmp_path, *SLEEP, *options(step_s=0.2), "measure.steps=40", f"tracking.runs={small_disk}")
    wait_until(lambda: in_phase_of(small_disk, "timed"), process)
    (spool,) = [path.parent for path in small_disk.glob("*/run.json")]
    fill(small_disk)
    out, error = process.communicate(timeout=120)
    assert process.returncode == 9, error
    assert "Traceback" not in error and "disk is full" in out + error
    assert end(spool)["status"] == "crashed"
    kept = events(spool)
    assert kept[0]["event"] == "header" and any(event["event"] == "steady" for event in kept)


def in_phase_of(folder: Path, name: str) -> bool:
    return any(
        event["event"] == "phase" and event["name"] == name
        for spool in folder.glob("*/run.json")
        for event in events(spool.parent)
    )


def test_a_disk_that_is_full_from_the_start(tmp_path: Path, small_disk: Path) -> None:
    fill(small_disk)
    done = train(tmp_path, *SLEEP, f"tracking.runs={small_disk}", "tracking=offline")
    assert done.returncode == 9
    assert "Traceback" not in done.stderr and "No space left" in done.stderr


def test_room_is_kept_for_the_end(tmp_path: Path) -> None:
    assert train(tmp_path, *SLEEP, "tracking=offline").returncode == 0
    assert not (only_spool(tmp_path) / ".reserve").exists()
