"""One run from the command line to its record."""

import json
from pathlib import Path

import pytest

from tests.commands import (
    SLEEP,
    end,
    environment,
    events,
    mlflow_runs,
    only_spool,
    options,
    spools,
    start,
    train,
)

STEP_S = 0.05


def test_a_run_leaves_a_whole_record(tmp_path: Path) -> None:
    done = train(tmp_path, *SLEEP, *options(step_s=STEP_S, items={"images": 4}), "seed=3")
    assert done.returncode == 0, done.stderr
    spool = only_spool(tmp_path)
    assert end(spool)["status"] == "ok"
    (run,) = mlflow_runs(tmp_path)
    assert run.info.status == "FINISHED"
    assert 0 < run.data.metrics["throughput"] <= 4 / STEP_S
    assert run.data.params["seed"] == "3" and run.data.params["model.name"] == "resnet50"
    tags = run.data.tags
    assert tags["tbd.status"] == "ok" and tags["tbd.throughput_unit"] == "images"
    assert (tags["tbd.model"], tags["tbd.framework"], tags["tbd.hardware"]) == ("resnet50", "sleep", "cpu")
    assert "images/s" in done.stdout and "mlflow ui" in done.stdout
    for name in ("request.json", "events.jsonl", "controller.jsonl", "config.yaml", "trace.json.gz", "memory.json",
                 "figures.json", "summary.html", "environment.txt"):  # fmt: skip
        assert (spool / name).stat().st_size > 0, name


def test_progress_names_the_phases(tmp_path: Path) -> None:
    done = train(tmp_path, *SLEEP, "tracking=offline")
    for phase in ("environment", "warming up", "timing: timing", "recording"):
        assert phase in done.stderr


def test_offline_needs_no_store_and_sync_brings_it_up(tmp_path: Path) -> None:
    import subprocess
    import sys

    assert train(tmp_path, *SLEEP, "tracking=offline").returncode == 0
    assert not (tmp_path / "mlflow.db").exists()
    for _ in range(2):  # twice leaves one run
        subprocess.run([sys.executable, "-m", "tbd.sync"], cwd=tmp_path, env=environment(), check=True, timeout=120)
    (run,) = mlflow_runs(tmp_path)
    assert run.info.status == "FINISHED" and "throughput" in run.data.metrics


def test_mlflows_own_variables_are_honoured(tmp_path: Path) -> None:
    store = tmp_path / "elsewhere"
    store.mkdir()
    done = train(
        tmp_path,
        *SLEEP,
        MLFLOW_TRACKING_URI=f"sqlite:///{store / 'mlflow.db'}",
        MLFLOW_EXPERIMENT_NAME="of my own",
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "mlflow.db").exists()
    (run,) = mlflow_runs(store)
    from mlflow import MlflowClient

    experiment = MlflowClient(f"sqlite:///{store / 'mlflow.db'}").get_experiment(run.info.experiment_id)
    assert experiment.name == "of my own"


def test_two_runs_at_once_in_one_folder(tmp_path: Path) -> None:
    both = [start(tmp_path, *SLEEP) for _ in range(2)]
    for process in both:
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
    assert len(spools(tmp_path)) == 2
    assert [run.info.status for run in mlflow_runs(tmp_path)] == ["FINISHED"] * 2


@pytest.mark.parametrize("value", ["a=b", "a,b", "a b", "it's", 'say "so"', "a: {b}", "ü#@%"])
def test_values_with_odd_characters_arrive_as_they_are(tmp_path: Path, value: str) -> None:
    quoted = "'" + value.replace("'", "\\'") + "'"
    done = train(tmp_path, *SLEEP, f"+framework.options.note={quoted}", "tracking=offline")
    assert done.returncode == 0, done.stderr
    request = json.loads((only_spool(tmp_path) / "request.json").read_text())
    assert request["framework"]["options"]["note"] == value


def test_relative_paths_are_from_the_users_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(Path(__file__).parent / "sleep_framework")
    done = train(tmp_path, *SLEEP, "framework.project=mine", "tracking=offline")
    assert done.returncode == 0, done.stderr


def test_repeats_are_whole_processes_of_the_timing_pass(tmp_path: Path) -> None:
    assert train(tmp_path, *SLEEP, "measure.repeats=3", "tracking=offline").returncode == 0
    headers = [event["pass"] for event in events(only_spool(tmp_path)) if event["event"] == "header"]
    assert headers == ["timing", "timing.2", "timing.3", "trace", "memory"]


def test_a_cell_that_cannot_run_is_recorded_as_unsupported(tmp_path: Path) -> None:
    done = train(tmp_path, "framework=pytorch", "precision=tf32")
    assert done.returncode == 4
    assert end(only_spool(tmp_path))["status"] == "unsupported"
    (run,) = mlflow_runs(tmp_path)
    assert run.info.status == "FAILED" and "tf32 is for a gpu" in run.data.tags["tbd.cause"]
