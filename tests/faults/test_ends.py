"""Everything that can end a run, brought about for real: the right status, exit code, MLflow status and cause."""

from pathlib import Path

import pytest

from tests.commands import SLEEP, end, events, mlflow_runs, only_spool, options, processes_of, train

# fault of the sleeping framework: (status, exit code, what the cause says)
FAULTS = {
    "killed": ({"kind": "signal", "signal": 9}, "crashed", 9, "SIGKILL"),
    "segmentation fault": ({"kind": "signal", "signal": 11}, "crashed", 9, "SIGSEGV"),
    "hangs": ({"kind": "hang"}, "timed_out", 8, "no event from the worker for 3 s in the phase timed"),
    "stopped": ({"kind": "signal", "signal": 19}, "timed_out", 8, "in the phase timed"),
    "leaves without a word": ({"kind": "no_end"}, "crashed", 9, "0 ends for 3 passes"),
    "unforeseen error": ({"kind": "error"}, "crashed", 9, "a mistake that nobody foresaw"),
    "out of memory": ({"kind": "out_of_memory"}, "out_of_memory", 6, "try a smaller batch_size"),
    "loss is not a number": ({"kind": "nan_loss", "step": 3}, "diverged", 7, "nan at step 3 of the phase timed"),
    "no room in its spool": ({"kind": "disk_full"}, "crashed", 9, "the disk is full"),
    "killed in the trace": ({"kind": "signal", "pass": "trace", "phase": "trace"}, "crashed", 9, "SIGKILL"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_end_has_its_status_code_and_cause(tmp_path: Path, name: str) -> None:
    fault, status, code, cause = FAULTS[name]
    done = train(tmp_path, *SLEEP, *options(fault=fault), "measure.timeout_s=3")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    spool = only_spool(tmp_path)
    assert end(spool)["status"] == status and cause in end(spool)["cause"]
    assert "\n" not in end(spool)["cause"]
    (run,) = mlflow_runs(tmp_path)
    assert run.info.status == "FAILED"
    assert run.data.tags["tbd.status"] == status and cause in run.data.tags["tbd.cause"]
    assert processes_of(spool) == []
    assert any(event["event"] == "header" for event in events(spool)), "what was measured until then is kept"


def test_what_was_measured_before_a_failed_pass_stays(tmp_path: Path) -> None:
    fault = {"kind": "signal", "pass": "trace", "phase": "trace"}
    train(tmp_path, *SLEEP, *options(fault=fault, items={"images": 2}))
    (run,) = mlflow_runs(tmp_path)
    assert run.info.status == "FAILED" and run.data.metrics["throughput"] > 0


def test_no_figure_is_made_up_for_a_run_that_has_none(tmp_path: Path) -> None:
    train(tmp_path, *SLEEP, *options(fault={"kind": "signal"}))
    (run,) = mlflow_runs(tmp_path)
    assert "throughput" not in run.data.metrics
    assert "throughput: " in run.data.tags["tbd.absent"]


def test_an_environment_that_does_not_import_its_framework(tmp_path: Path) -> None:
    project = tmp_path / "broken"
    project.mkdir()
    (project / "MLproject").write_text(
        "name: tbd-broken\nentry_points:\n"
        '  worker:\n    parameters: {request: string}\n    command: "python w.py {request}"\n'
        "  verify:\n    command: \"python -c 'import no_such_framework'\"\n"
    )
    done = train(tmp_path, *SLEEP, f"framework.project={project}")
    assert done.returncode == 5
    assert end(only_spool(tmp_path))["status"] == "environment_failed"
    assert "no_such_framework" in end(only_spool(tmp_path))["cause"]
    (run,) = mlflow_runs(tmp_path)
    assert run.info.status == "FAILED"


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    done = train(tmp_path, *SLEEP, "framework.python=/nowhere/python")
    assert done.returncode == 5
    assert "/nowhere/python" in end(only_spool(tmp_path))["cause"]


@pytest.mark.parametrize("content, said", [(None, "MLproject"), ("name: [", "MLproject"), ("name: x\n", "entry point")])
def test_a_project_folder_that_is_none(tmp_path: Path, content: str | None, said: str) -> None:
    project = tmp_path / "mine"
    project.mkdir()
    if content is not None:
        (project / "MLproject").write_text(content)
    done = train(tmp_path, *SLEEP, f"framework.project={project}")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("tbd: bad configuration: ") and said in line
    assert not (tmp_path / "runs").exists()
