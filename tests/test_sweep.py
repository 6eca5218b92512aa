"""A sweep: planned first; one parent, a child a job; it goes on after a job that fails, and where it stopped."""

import json
from pathlib import Path

from tbd.analysis.finding import UNKNOWN
from tests.commands import (
    SLEEP,
    end,
    events,
    interrupt,
    mlflow_runs,
    options,
    spools,
    start,
    train,
    wait_until,
)


def kinds(folder: Path) -> dict[str, list[Path]]:
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


def test_an_interrupt_ends_the_sweep_and_the_same_command_goes_on(tmp_path: Path) -> None:
    command = ["-m", *SLEEP, "seed=1,2,3", *options(step_s=0.2), "measure.passes=[timing]"]
    process = start(tmp_path, *command)
    wait_until(lambda: len(kinds(tmp_path)["run"]) == 2 and in_phase_of(kinds(tmp_path)["run"][1], "timed"), process)
    code, error = interrupt(process)
    assert code == 130, error
    found = kinds(tmp_path)
    assert [end(spool)["status"] for spool in found["run"]] == ["ok", "interrupted"]
    assert end(found["sweep"][0])["status"] == "interrupted"
    assert sorted(run.info.status for run in mlflow_runs(tmp_path)) == ["FINISHED", "KILLED", "KILLED"]
    done = train(tmp_path, *command)
    assert done.returncode == 0, done.stderr
    assert "sweep: 3 jobs, 2 to run; 2 of them in about" in done.stdout and "1 done before" in done.stdout
    assert "job 2 of 3: " in done.stderr and "job 1 of 3" not in done.stderr
    found = kinds(tmp_path)
    assert len(found["sweep"]) == 1 and end(found["sweep"][0])["status"] == "ok"
    assert sorted(end(spool)["status"] for spool in found["run"]) == ["interrupted", "ok", "ok", "ok"]
    assert sorted(run.info.status for run in mlflow_runs(tmp_path)) == ["FINISHED"] * 4 + ["KILLED"]
    again = train(tmp_path, *command)
    assert again.returncode == 0 and "3 jobs, 0 to run" in again.stdout and len(spools(tmp_path)) == 5


def in_phase_of(spool: Path, name: str) -> bool:
    return any(event.get("event") == "phase" and event["name"] == name for event in events(spool))


def test_a_sweep_outlives_memory_crash_hang_and_its_own_controller(tmp_path: Path) -> None:
    kinds_of_faults = ["{kind:out_of_memory}", "{kind:signal,signal:11}", "{kind:hang}", "{kind:nothing,step:999}"]
    command = ["-m", *SLEEP, f"+framework.options.fault={','.join(kinds_of_faults)}", "batch_size=4"]
    command += ["measure.passes=[timing]", "measure.timeout_s=3"]
    process = start(tmp_path, *command)
    wait_until(lambda: len(kinds(tmp_path)["run"]) == 3 and in_phase_of(kinds(tmp_path)["run"][2], "timed"), process)
    process.kill()
    process.communicate()
    done = train(tmp_path, *command)
    assert done.returncode == 6 and "sweep: 4 jobs, 3 to run" in done.stdout and "1 done before" in done.stdout
    found = kinds(tmp_path)
    assert [end(spool)["status"] for spool in found["run"]] == [
        "out_of_memory", "crashed", "interrupted", "crashed", "timed_out", "ok"
    ]  # fmt: skip
    (sweep,) = found["sweep"]
    assert end(sweep)["status"] == "ok" and end(sweep)["cause"] == "3 of 4 jobs did not end ok"
    assert "out of memory in the phase timed" in done.stdout
    assert sorted(run.info.status for run in mlflow_runs(tmp_path)) == ["FAILED"] * 4 + ["FINISHED"] * 2 + ["KILLED"]
    found_in = json.loads((sweep / "report" / "report.json").read_text())
    assert [one["number"] for one in found_in["observations"]] == list(range(1, 14))
    for one in found_in["observations"]:
        assert one["verdict"] != UNKNOWN or one["missing"] and all(command for _, command in one["missing"])


def test_fail_fast_runs_no_more_jobs_and_what_has_a_result_stays(tmp_path: Path) -> None:
    faults = "+framework.options.fault={kind:out_of_memory},{kind:none_of_it_happens,step:999}"
    command = ["-m", *SLEEP, faults, "measure.passes=[timing]", "tracking=offline"]
    done = train(tmp_path, *command, "sweep.fail_fast=true")
    assert done.returncode == 6 and len(kinds(tmp_path)["run"]) == 1
    assert "job 1 of 2 failed: out_of_memory: out of memory in the phase timed" in done.stderr
    assert "1 were not run (sweep.fail_fast)" in end(kinds(tmp_path)["sweep"][0])["cause"]
    done = train(tmp_path, *command)  # out of memory is a result of the first job: the second is missing
    assert done.returncode == 6
    assert sorted(end(spool)["status"] for spool in kinds(tmp_path)["run"]) == ["ok", "out_of_memory"]
    done = train(tmp_path, *command, "sweep.fail_fast=true", "sweep.force=true")
    assert len(kinds(tmp_path)["sweep"]) == 2 and len(kinds(tmp_path)["run"]) == 3


def test_an_optimising_sweeper_is_told_the_throughput_of_each_job(tmp_path: Path) -> None:
    search = ["hydra/sweeper=optuna", "hydra.sweeper.direction=maximize", "hydra.sweeper.n_trials=2"]
    search += ["hydra.sweeper.n_jobs=1", "hydra.sweeper.sampler.seed=1", "batch_size=choice(4,8)"]
    done = train(tmp_path, "-m", *SLEEP, *search, "measure.passes=[timing]", "tracking=offline")
    assert done.returncode == 0, done.stderr
    found = kinds(tmp_path)
    assert len(found["sweep"]) == 1 and found["run"]
    (results,) = (tmp_path / "runs" / "sweeps").glob("*/optimization_results.yaml")
    rates = [json.loads((spool / "figures.json").read_text())["metrics"]["throughput"] for spool in found["run"]]
    assert f"best_value: {max(rates)}" in results.read_text()


def test_jobs_that_a_launcher_starts_in_processes_of_their_own_are_the_sweeps(tmp_path: Path) -> None:
    launcher = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "tracking=offline", "measure.passes=[timing]"]
    done = train(tmp_path, "-m", *SLEEP, *launcher, "seed=1,2")
    assert done.returncode == 0, done.stderr
    found = kinds(tmp_path)
    (sweep,) = found["sweep"]
    own = json.loads((sweep / "run.json").read_text())["spool_id"]
    assert [json.loads((spool / "run.json").read_text())["parent_spool_id"] for spool in found["run"]] == [own] * 2
    assert end(sweep)["status"] == "ok"
