"""Ctrl-C and signals to the controller, in every phase of a run."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.commands import (
    SLEEP,
    end,
    events,
    in_phase,
    interrupt,
    mlflow_runs,
    only_spool,
    options,
    processes_of,
    spools,
    start,
    train,
    wait_until,
)

SLOW = {"import": 60, "data": 60, "build": 60, "finish": 60}


def slow_in(phase: str) -> list[str]:
    """The sleeping framework, which stays in this phase for a long time."""
    if phase in SLOW:
        return options(phase_s={phase: 60})
    times = {"compile": {"compile_s": [60]}, "warmup": {"warmup_s": [60]}, "timed": {"step_s": 60}}
    return options(**times[phase])


@pytest.mark.parametrize("phase", ["import", "data", "build", "compile", "warmup", "timed", "finish"])
def test_ctrl_c_while_the_worker_is_at_work(tmp_path: Path, phase: str) -> None:
    process = start(tmp_path, *SLEEP, *slow_in(phase))
    wait_until(in_phase(tmp_path, phase), process)
    code, error = interrupt(process)
    assert code == 130 and "Traceback" not in error, error
    spool = only_spool(tmp_path)
    assert end(spool)["status"] == "interrupted" and f"phase {phase}" in end(spool)["cause"]
    (run,) = mlflow_runs(tmp_path)
    assert (run.info.status, run.data.tags["tbd.status"]) == ("KILLED", "interrupted")
    assert processes_of(spool) == []


def test_ctrl_c_while_an_environment_is_built(tmp_path: Path) -> None:
    project = tmp_path / "slow"
    project.mkdir()
    (project / "MLproject").write_text(
        "name: tbd-slow\nentry_points:\n"
        '  worker:\n    parameters: {request: string}\n    command: "true {request}"\n'
        '  verify:\n    command: "sleep 60"\n'
    )
    home = tmp_path / "home"
    process = start(tmp_path, *SLEEP, f"framework.project={project}", TBD_HOME=str(home))
    wait_until(in_phase(tmp_path, "environment"), process)
    wait_until(lambda: any(c.name() == "sleep" for c in psutil.Process(process.pid).children(recursive=True)), process)
    code, error = interrupt(process)
    assert code == 130 and "Traceback" not in error, error
    assert end(only_spool(tmp_path))["status"] == "interrupted"
    assert not list(home.rglob("ready.json"))


def test_ctrl_c_while_the_record_is_made_lets_it_finish(tmp_path: Path) -> None:
    process = start(tmp_path, *SLEEP, "measure.passes=[timing]")
    wait_until(
        lambda: any(e["event"] == "end" for s in spools(tmp_path) for e in events(s, "controller.jsonl")), process
    )
    code, error = interrupt(process)
    assert "Traceback" not in error
    (run,) = mlflow_runs(tmp_path)
    assert run.info.status == "FINISHED" and "throughput" in run.data.metrics
    assert code in (0, 130)  # 130 where the signal found the command at its last line


def test_sigterm_is_as_ctrl_c(tmp_path: Path) -> None:
    process = start(tmp_path, *SLEEP, *slow_in("timed"))
    wait_until(in_phase(tmp_path, "timed"), process)
    process.terminate()
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert end(only_spool(tmp_path))["status"] == "interrupted"
    assert [run.info.status for run in mlflow_runs(tmp_path)] == ["KILLED"]


def test_a_killed_controller_takes_the_worker_with_it_and_is_closed_at_the_next_start(tmp_path: Path) -> None:
    process = start(tmp_path, *SLEEP, *slow_in("timed"))
    wait_until(in_phase(tmp_path, "timed"), process)
    spool = only_spool(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    gone = psutil.wait_procs([psutil.Process(pid) for pid in processes_of(spool)], timeout=60)[1]
    assert gone == []
    assert [run.info.status for run in mlflow_runs(tmp_path)] == ["RUNNING"]
    assert train(tmp_path, *SLEEP, "measure.passes=[timing]").returncode == 0
    assert end(spool)["status"] == "interrupted" and "killed" in end(spool)["cause"]
    assert sorted(run.info.status for run in mlflow_runs(tmp_path)) == ["FINISHED", "KILLED"]
