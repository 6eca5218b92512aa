"""The command `python -m tbd.report`, on runs that the command line made."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import SLEEP, environment, mlflow_runs, train

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command in this process, in a folder: (exit code, what it printed, what it complained of)."""
    from tbd.report import main

    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        monkeypatch.delenv(name)

    def call(folder: Path, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.chdir(folder)
        return main(list(arguments)), *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swept")
    done = train(folder, "-m", *SLEEP, "batch_size=4,8", "measure.passes=[timing]")
    assert done.returncode == 0, done.stderr
    (place,) = (folder / "runs").glob("*/report/report.html")
    assert f"report   {place.relative_to(folder)}" in done.stdout
    done = train(folder, *SLEEP, "seed=7", "measure.passes=[timing]")
    assert done.returncode == 0, done.stderr
    return folder


FILES = {"report.html", "report.json", "report.csv"}


def sweep_in_mlflow(folder: Path, place: str) -> tuple[set[str], str]:
    """(the files in this folder of the sweep's run, its description) as MLflow has them."""
    from mlflow import MlflowClient

    (sweep,) = [run for run in mlflow_runs(folder) if run.data.tags["tbd.kind"] == "sweep"]
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    found = {file.path.removeprefix(f"{place}/") for file in client.list_artifacts(sweep.info.run_id, place)}
    return found, sweep.data.tags["mlflow.note.content"]


def test_a_sweep_ends_with_its_report_and_mlflow_has_it(swept: Path) -> None:
    (place,) = (swept / "runs").glob("*/report/report.html")
    assert sorted(row["batch_size"] for row in csv.DictReader(place.with_suffix(".csv").open())) == ["4", "8"]
    files, description = sweep_in_mlflow(swept, "report")
    assert files == FILES and "| 13. Network bandwidth" in description and "2 runs: " in description


def test_without_a_filter_it_is_of_the_newest_sweep_and_goes_to_its_run(swept: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tbd.report"], cwd=swept, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert " 1. not enough data" in done.stdout
    rows = list(csv.DictReader((swept / "report.csv").open()))
    assert sorted(row["batch_size"] for row in rows) == ["4", "8"]
    assert "<!doctype html>" in (swept / "report.html").read_text()
    assert len(json.loads((swept / "report.json").read_text())["observations"]) == 13
    assert "logged to the sweep's run" in done.stdout
    files, description = sweep_in_mlflow(swept, "reports/report")
    assert files == FILES and "in the folder reports/report." in description


def test_a_comparison_goes_to_the_sweeps_run_where_that_is_asked_for(
    swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    from tbd.compare import main

    jobs = [path.name for path in sorted((swept / "runs").iterdir()) if "resnet50" in path.name][:2]
    monkeypatch.chdir(swept)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert main([*jobs, "--log"]) == 0
    (sweep,) = [run for run in mlflow_runs(swept) if run.data.tags["tbd.kind"] == "sweep"]
    client = MlflowClient(f"sqlite:///{swept / 'mlflow.db'}")
    (folder,) = client.list_artifacts(sweep.info.run_id, "comparisons")
    names = {file.path.rpartition("/")[2] for file in client.list_artifacts(sweep.info.run_id, folder.path)}
    assert names == {"comparison.html", "comparison.json", "comparison.md"}


def test_a_filter_chooses_and_the_output_is_where_it_is_asked_for(swept: Path, report: Command) -> None:
    code, out, error = report(swept, "params.seed = '7'", "--output", "one.html")
    assert code == 0, error
    assert len(list(csv.DictReader((swept / "one.csv").open()))) == 1
    assert "not logged: the runs are not those of one sweep" in out


def test_mistakes_are_told(swept: Path, tmp_path: Path, report: Command) -> None:
    for folder, arguments, words in [
        (swept, ["params.seed = '99'"], "no run"),
        (swept, ["params.seed ="], "no filter"),
        (tmp_path, [], "has no run"),
        (swept, ["--output", "nowhere/report.html"], "No such file or directory"),
    ]:
        code, _, error = report(folder, *arguments)
        assert code == 2 and words in error, error
    assert list(tmp_path.iterdir()) == []


def test_without_a_store_it_is_made_all_the_same(tmp_path: Path, report: Command) -> None:
    done = train(tmp_path, "-m", *SLEEP, "batch_size=4,8", "measure.passes=[timing]", "tracking=offline")
    assert done.returncode == 0, done.stderr
    code, out, error = report(tmp_path)
    assert code == 0, error
    assert "the sweep is not there yet" in out
    assert len(list(csv.DictReader((tmp_path / "report.csv").open()))) == 2
