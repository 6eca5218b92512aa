"""Making room: the oldest first, traces before figures, and nothing that is nowhere else."""

import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tbd import sync
from tbd.prune import DAY_S, Item, choose, main
from tbd.tracking.follower import follow, waits
from tbd.tracking.spool import Spool, write_json
from tbd.tracking.store import Settings
from tests.tracking import spools
from tests.tracking.conftest import client, empty_database, plain_environment, settings

__all__ = ["client", "empty_database", "plain_environment", "settings"]
Output = pytest.CaptureFixture[str]


def nothing() -> None:
    raise AssertionError("something was removed")


def item(name: str, age: float, raw: int, rest: int, kept: str = "") -> Item:
    return Item(name, -age, {"trace.json.gz": raw, "figures.json": rest}, nothing, nothing, kept)


RUNS = [item("new", 1, 100, 10), item("old", 3, 100, 10), item("middle", 2, 0, 10), item("live", 9, 100, 10, "live")]


@pytest.mark.parametrize(
    "before, down_to, whole, expected",
    [
        (-1.5, None, False, [("old", False)]),
        (-1.5, None, True, [("old", True), ("middle", True)]),
        (None, 340, False, []),
        (None, 339, False, [("old", False)]),
        (None, 0, False, [("old", False), ("new", False)]),
        (None, 140, True, [("old", False), ("new", False)]),
        (None, 139, True, [("old", True), ("new", False)]),
        (None, 0, True, [("old", True), ("middle", True), ("new", True)]),
        (-2.5, 140, False, [("old", False), ("new", False)]),
        (-2.5, 130, True, [("old", True), ("new", False)]),
    ],
)
def test_what_is_chosen(
    before: float | None, down_to: int | None, whole: bool, expected: list[tuple[str, bool]]
) -> None:
    assert [(one.name, everything) for one, everything in choose(RUNS, before, down_to, whole)] == expected


def recorded(root: Path, settings: Settings, days: float, **options: str) -> Spool:
    """A run that began so many days ago and is in MLflow."""
    spool = spools.finished(root, **options)
    write_json(spool.path / "run.json", {**spool.run, "wall_time": time.time() - days * DAY_S})
    spool = Spool.open(spool.path)
    assert follow(spool, settings).state == "synced"
    return spool


def test_traces_of_old_runs_go_and_their_figures_stay(tmp_path: Path, settings: Settings, capsys: Output) -> None:
    old, new = (recorded(tmp_path / "runs", settings, days) for days in (40, 1))
    other = recorded(tmp_path / "runs", settings, 40, experiment="other")
    waiting, running = spools.finished(tmp_path / "runs"), spools.begun(tmp_path / "runs")
    arguments = ["--older-than", "30", "--experiment", "tests"]
    assert main(arguments) == 0
    assert "nothing was removed" in capsys.readouterr().out
    assert (old.path / "trace.json.gz").exists()
    assert main([*arguments, "--yes"]) == 0
    out = capsys.readouterr().out
    assert f"kept     {waiting.path.name}: it is not in MLflow yet" in out and f"kept     {running.path.name}" in out
    assert not (old.path / "trace.json.gz").exists()
    assert all((spool.path / "trace.json.gz").exists() for spool in (new, other, waiting))
    before = (old.path / "figures.json").read_text()
    assert not waits(old, settings)
    assert sync.main([str(old.path)]) == 0
    assert (old.path / "figures.json").read_text() == before


def test_whole_runs_go_when_they_may(tmp_path: Path, settings: Settings) -> None:
    old, new = (recorded(tmp_path / "runs", settings, days) for days in (40, 1))
    waiting = spools.finished(tmp_path / "runs")
    assert main(["--older-than", "30", "--whole", "--yes"]) == 0
    assert sorted((tmp_path / "runs").iterdir()) == sorted([new.path, waiting.path])
    assert main(["--down-to", "0MB", "--whole", "--yes"]) == 0
    assert list((tmp_path / "runs").iterdir()) == [waiting.path]


def test_a_store_is_pruned_by_the_same_rules(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    old, new = (recorded(tmp_path / "runs", settings, days) for days in (40, 1))
    spools.finished(tmp_path / "runs")
    names = {spool.id: str(spool.mlflow()["run_id"]) for spool in (old, new)}

    def files(spool: Spool) -> set[str]:
        return {found.path for found in client.list_artifacts(names[spool.id])}

    assert main(["--mlflow", "--older-than", "30"]) == 0
    assert "trace.json.gz" in files(old)
    assert main(["--mlflow", "--older-than", "30", "--yes"]) == 0
    assert "trace.json.gz" not in files(old) and "figures.json" in files(old) and "trace.json.gz" in files(new)
    assert client.get_run(names[old.id]).data.tags["tbd.pruned"] == "trace.json.gz"
    assert main(["--mlflow", "--older-than", "30", "--whole", "--yes"]) == 0
    assert client.get_run(names[old.id]).info.lifecycle_stage == "deleted" and files(old) == set()
    assert client.get_run(names[new.id]).info.lifecycle_stage == "active"


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "--older-than DAYS, --down-to SIZE"),
        (["--older-than", "30"], "no folder runs"),
        (["--older-than", "x"], "invalid"),
        (["--older-than", "-1"], "no number of days"),
        (["--down-to", "much"], "no size, such as"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: Output) -> None:
    try:
        code: object = main(arguments)
    except SystemExit as exit:
        code = exit.code
    assert code == 2 and said in capsys.readouterr().err


@pytest.mark.parametrize("text, size", [("50GB", 50 * 10**9), ("1.5 mb", 1_500_000), ("2T", 2 * 10**12), ("7", 7)])
def test_sizes(text: str, size: int) -> None:
    from tbd.prune import _bytes

    assert _bytes(text) == size
