"""A sweep: one parent, a child a job, and it goes on after a job that fails."""

from pathlib import Path

from tests.commands import SLEEP, end, in_phase, interrupt, mlflow_runs, options, spools, start, train, wait_until


def kinds(folder: Path) -> dict[str, list[Path]]:
    import json

    found: dict[str, list[Path]] = {"run": [], "sweep": []}
    for spool in spools(folder):
        found[json.loads((spool / "run.json").read_text())["kind"]].append(spool)
    return found


def test_one_parent_and_a_child_a_job(tmp_path: Path) -> None:
    done = train(tmp_path, "-m", *SLEEP, "seed=1,2", "batch_size=4,8", "measure.passes=[timing]")
    assert done.returncode == 0, done.stderr
    found = kinds(tmp_path)
    assert len(found["sweep"]) == 1 and len(found["run"]) == 4
    runs = mlflow_runs(tmp_path)
    (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in runs if run is not parent]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert {(run.data.params["seed"], run.data.params["batch_size"]) for run in children} == {
        ("1", "4"), ("1", "8"), ("2", "4"), ("2", "8")
    }  # fmt: skip
    assert {run.info.status for run in runs} == {"FINISHED"}


def test_a_failed_job_does_not_end_the_sweep(tmp_path: Path) -> None:
    faults = "+framework.options.fault={kind:out_of_memory},{kind:none_of_it_happens,step:999}"
    done = train(tmp_path, "-m", *SLEEP, faults, "measure.passes=[timing]")
    assert done.returncode == 6
    found = kinds(tmp_path)
    assert sorted(end(spool)["status"] for spool in found["run"]) == ["ok", "out_of_memory"]
    assert end(found["sweep"][0])["cause"] == "1 of 2 jobs did not end ok"
    assert "out of memory in the phase timed" in done.stdout
    assert sorted(run.info.status for run in mlflow_runs(tmp_path)) == ["FAILED", "FINISHED", "FINISHED"]


def test_an_interrupt_ends_the_whole_sweep(tmp_path: Path) -> None:
    process = start(tmp_path, "-m", *SLEEP, "seed=1,2,3", *options(step_s=1.0), "measure.steps=100")
    wait_until(in_phase(tmp_path, "timed"), process)
    code, error = interrupt(process)
    assert code == 130, error
    found = kinds(tmp_path)
    assert [end(spool)["status"] for spool in found["run"]] == ["interrupted"]
    assert end(found["sweep"][0])["status"] == "interrupted"
    assert {run.info.status for run in mlflow_runs(tmp_path)} == {"KILLED"}
