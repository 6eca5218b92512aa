"""Runs the command line as a user does, with the framework that sleeps by a script (tests/sleep_framework)."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SLEEP = [
    "model=resnet50",
    "model.size=small",
    "framework=custom",
    "framework.name=sleep",
    f"framework.project={ROOT / 'tests' / 'sleep_framework'}",
    f"framework.python={sys.executable}",
    "measure.steps=10",
]


def environment(**more: str) -> dict[str, str]:
    """The variables of a user's shell, with this checkout importable and no store chosen by MLflow's own variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "200", **more}


def options(**values: Any) -> list[str]:
    """framework.options of the sleep framework as overrides."""
    return [f"+framework.options.{name}={hydra(value)}" for name, value in values.items()]


def hydra(value: Any) -> str:
    """A value in the form that Hydra's override parser reads."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{hydra(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(hydra(part) for part in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, str) else str(value)


def start(folder: Path, *overrides: str, **variables: str) -> subprocess.Popen[str]:
    """`python -m tbd.train` with these overrides in the folder, running."""
    return subprocess.Popen(
        [sys.executable, "-m", "tbd.train", *overrides],
        cwd=folder,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str], limit_s: float) -> tuple[str, str]:
    """(stdout, stderr) once it has ended by itself. Else nothing of the group that it leads outlives the test."""
    try:
        return process.communicate(timeout=limit_s)
    except BaseException:
        kill(process)
        raise


def kill(process: subprocess.Popen[str]) -> None:
    """End the process, which nobody has waited for, with the group that it leads."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def train(folder: Path, *overrides: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`python -m tbd.train` to its end, which has to come before pytest's own limit for a test."""
    process = start(folder, *overrides, **variables)
    out, error = ended(process, 570.0)
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def spools(folder: Path) -> list[Path]:
    return sorted(path.parent for path in (folder / "runs").glob("*/run.json"))


def only_spool(folder: Path) -> Path:
    (found,) = spools(folder)
    return found


def events(spool: Path, file: str = "events.jsonl") -> list[dict[str, Any]]:
    path = spool / file
    if not path.exists():
        return []
    whole = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in whole]


def end(spool: Path) -> dict[str, Any]:
    """The run's end, as the controller wrote it last."""
    last = events(spool, "controller.jsonl")[-1]
    assert last["event"] == "end"
    return last


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str], limit_s: float = 120.0) -> None:
    """Look until the condition holds; fails where the process ends before that or `limit_s` pass."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        if time.monotonic() > deadline:
            kill(process)
            raise AssertionError("it did not come to that")
        time.sleep(0.02)


def in_phase(folder: Path, name: str) -> Callable[[], bool]:
    """Whether the run in the folder has begun the phase, of worker or controller."""

    def look() -> bool:
        return any(
            event.get("event") == "phase" and event["name"] == name
            for spool in spools(folder)
            for file in ("events.jsonl", "controller.jsonl")
            for event in events(spool, file)
        )

    return look


def in_rank_phase(folder: Path, name: str, ranks: int) -> Callable[[], bool]:
    """Whether so many ranks of the run in the folder have begun the phase."""

    def look() -> bool:
        there = [
            any(event.get("event") == "phase" and event["name"] == name for event in events(rank))
            for spool in spools(folder)
            for rank in spool.glob("ranks/*")
        ]
        return sum(there) == ranks

    return look


def interrupt(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Ctrl-C, as the terminal sends it to its foreground process group; gives (exit code, what was said)."""
    os.killpg(process.pid, signal.SIGINT)
    _, error = ended(process, 120.0)
    return process.returncode, error


def mlflow_runs(folder: Path) -> list[Any]:
    """The runs in the folder's SQLite store."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    return list(client.search_runs(ids))


def processes_of(spool: Path) -> list[int]:
    """Processes that still have the spool in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes()
            state = (path.parent / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if str(spool).encode() in text and state not in "ZX":
            found.append(int(path.parent.name))
    return found
