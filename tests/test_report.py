"""The command `python -m tbd.report`, on runs that the command line made."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import SLEEP, environment, mlflow_runs, train


def report(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tbd.report", *arguments],
        cwd=folder, env=environment(**variables), capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swept")
    done = train(folder, "-m", *SLEEP, "batch_size=4,8", "measure.passes=[timing]")
    assert done.returncode == 0, done.stderr
    done = train(folder, *SLEEP, "seed=7", "measure.passes=[timing]")
    assert done.returncode == 0, done.stderr
    return folder


def test_without_a_filter_it_is_of_the_newest_sweep(swept: Path) -> None:
    done = report(swept)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((swept / "report.csv").open()))
    assert sorted(row["batch_size"] for row in rows) == ["4", "8"]
    assert "<!doctype html>" in (swept / "report.html").read_text()
    assert len(json.loads((swept / "report.json").read_text())["observations"]) == 13
    assert " 1. not enough data" in done.stdout


def test_it_is_logged_to_the_sweeps_run(swept: Path) -> None:
    from mlflow import MlflowClient

    assert report(swept).returncode == 0
    (sweep,) = [run for run in mlflow_runs(swept) if run.data.tags["tbd.kind"] == "sweep"]
    client = MlflowClient(f"sqlite:///{swept / 'mlflow.db'}")
    found = {file.path for file in client.list_artifacts(sweep.info.run_id, "report")}
    assert found == {"report/report.html", "report/report.json", "report/report.csv"}
    assert "| 13. Network bandwidth" in sweep.data.tags["mlflow.note.content"]


def test_a_filter_chooses_and_the_output_is_where_it_is_asked_for(swept: Path) -> None:
    done = report(swept, "params.seed = '7'", "--output", "one.html")
    assert done.returncode == 0, done.stderr
    assert len(list(csv.DictReader((swept / "one.csv").open()))) == 1
    assert "not logged: the runs are not those of one sweep" in done.stdout


def test_mistakes_are_told(swept: Path, tmp_path: Path) -> None:
    for folder, arguments, words in [
        (swept, ["params.seed = '99'"], "no run"),
        (swept, ["params.seed ="], "no filter"),
        (tmp_path, [], "has no run"),
        (swept, ["--output", "nowhere/report.html"], "No such file or directory"),
    ]:
        done = report(folder, *arguments)
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_a_store_it_is_made_all_the_same(tmp_path: Path) -> None:
    assert (
        train(tmp_path, "-m", *SLEEP, "batch_size=4,8", "measure.passes=[timing]", "tracking=offline").returncode == 0
    )
    done = report(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the sweep is not there yet" in done.stdout
    assert len(list(csv.DictReader((tmp_path / "report.csv").open()))) == 2
