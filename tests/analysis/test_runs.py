"""Runs are found alike in the store and in spools that are not there, and are the same wherever they come from."""

import os
import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tbd.analysis.runs import Library, NoRun, Run, Timing, of_spool
from tbd.tracking import derived
from tbd.tracking.follower import follow
from tbd.tracking.spool import Spool
from tbd.tracking.store import Settings
from tests.tracking import spools


def finished(name: str = "resnet50 pytorch cpu", **options: object) -> Spool:
    spool = spools.finished(Path("runs"), name=name, **options)
    derived.write(spool)
    return spool


def names(runs: list[Run]) -> list[str]:
    return [run.name for run in runs]


def test_a_spool_and_its_run_in_mlflow_say_the_same(settings: Settings, tmp_path: Path) -> None:
    spool = finished(tags={"tbd.model": "resnet50", "tbd.framework": "pytorch"})
    offline = of_spool(spool)
    assert [run.id for run in Library(uri=settings.uri).matching()] == [spool.id]  # the store is empty
    follow(spool, settings)
    shutil.rmtree("runs")
    (stored,) = Library(uri=settings.uri).matching()
    assert stored.run_id and not offline.run_id
    for key in ("name", "spool_id", "kind", "parent", "status", "params", "metrics", "model", "framework", "unit"):
        assert getattr(stored, key) == getattr(offline, key), key
    assert stored.start == pytest.approx(offline.start, abs=1e-3)
    assert {key: stored.tags[key] for key in offline.tags} == offline.tags
    assert stored.figures.tables == {"operators": stored.operators} | stored.figures.tables
    assert [row["name"] for row in stored.operators] == ["conv <forward>", "conv <backward>", "relu"]
    (timing,) = stored.timings
    assert timing.rate == pytest.approx(spools.ITEMS / spools.STEP_S)
    assert timing.seconds == pytest.approx([spools.STEP_S] * spools.STEPS)
    assert stored.figures.absent["mfu"]


def test_a_word_is_an_id_a_name_a_folder_or_a_filter(settings: Settings) -> None:
    first, second = finished("first"), finished("second", tags={"tbd.model": "wgan"})
    follow(first, settings)
    library = Library(uri=settings.uri)
    run_id = first.mlflow()["run_id"]
    for word in (run_id, first.id, "first", str(first.path), first.path.name, "tags.`tbd.spool_id` LIKE '%'"):
        assert "first" in names(library.named(word)), word
    for word in (second.id, "second", str(second.path), "tags.`tbd.model` = 'wgan'", "attributes.run_name = 'second'"):
        assert names(library.named(word)) == ["second"], word
    both = "metrics.throughput > 79 and params.`model.name` = 'resnet50'"
    assert names(library.named(both)) == ["first", "second"]
    shutil.rmtree("runs")
    assert names(Library(uri=settings.uri).named(run_id)) == ["first"]
    assert names(Library(uri=settings.uri).named(first.id)) == ["first"]


def test_a_sweep_means_its_jobs(settings: Settings) -> None:
    sweep = Spool.create(Path("runs"), "sweep", experiment="tests", kind="sweep")
    jobs = [finished(name, parent=sweep) for name in ("a", "b")]
    finished("alone")
    sweep.end("ok")
    library = Library(uri=settings.uri)
    assert names(library.named(str(sweep.path))) == ["a", "b"]
    (found,) = library.sweeps()
    assert names(library.jobs_of(found)) == ["a", "b"]
    for spool in (sweep, *jobs):
        follow(spool, settings)
    run_id = sweep.mlflow()["run_id"]
    shutil.rmtree("runs")
    (found,) = Library(uri=settings.uri).sweeps()
    assert names(Library(uri=settings.uri).jobs_of(found)) == ["a", "b"]
    assert names(Library(uri=settings.uri).named(run_id)) == ["a", "b"]


def test_of_a_run_that_the_store_has_in_part_the_spool_is_read(settings: Settings, client: MlflowClient) -> None:
    spool = finished()
    follow(spool, settings)
    client.set_tag(spool.mlflow()["run_id"], "tbd.status", "running")
    (spool.path / "synced.json").unlink()  # as while it is being sent
    (run,) = Library(uri=settings.uri).matching()
    assert run.status == "ok" and run.run_id == spool.mlflow()["run_id"]


def test_without_a_store_none_is_made(tmp_path: Path) -> None:
    finished("first")
    assert names(Library().named("first")) == ["first"]
    assert not (tmp_path / "mlflow.db").exists()


def test_what_is_no_run_or_no_filter_is_said() -> None:
    finished("first")
    with pytest.raises(NoRun, match="no run is called or matches 'third', neither under runs nor in MLflow"):
        Library().named("third")
    with pytest.raises(NoRun, match="'nonsense = 1' is no filter that MLflow can read"):
        Library().named("nonsense = 1")


def test_credentials_of_an_offline_run_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    spool = spools.begun(Path("runs"), tags={"tbd.overrides": "tracking.uri=http://user:hunter22@host"})
    spool.write_config("tracking: {uri: 'http://user:hunter22@host'}\n")
    assert "hunter22" not in repr((of_spool(spool).params, of_spool(spool).tags))


def test_a_run_without_figures_has_them_worked_out() -> None:
    spool = finished()
    os.remove(spool.path / "figures.json")
    assert of_spool(spool).metrics["throughput"] == pytest.approx(spools.ITEMS / spools.STEP_S)


def test_rate_is_a_ratio_of_sums() -> None:
    import numpy as np

    timing = Timing("timing", np.array([1.0, 3.0]), np.array([1.0, 1.0]), 2.0)
    assert timing.rate == 2.0


def test_a_run_of_several_ranks_is_of_the_framework_and_device_of_rank_0(settings: Settings) -> None:
    spool = finished()
    alone = of_spool(spool).tags
    folder = spool.path / "ranks" / "0"
    folder.mkdir(parents=True)
    (spool.path / "events.jsonl").rename(folder / "events.jsonl")
    tags = of_spool(spool).tags
    for name in ("framework_version", "device_names"):
        assert tags[name] and tags[name] == alone[name]
