"""A run is sent while it goes on: between its passes alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tbd.tracking import follower
from tbd.tracking.follower import Outcome, follow, stream
from tbd.tracking.spool import Spool
from tbd.tracking.store import Settings
from tbd.tracking.stream import Stream
from tests.commands import SLEEP, events, mlflow_runs, options, start, wait_until
from tests.commands import spools as command_spools
from tests.tracking import spools
from tests.tracking.test_follower import history, only_run


class Silent:
    def phase(self, name: str, pass_name: str = "") -> None: ...
    def steps(self, ends: list[float], items: dict[str, list[float]]) -> None: ...
    def ended(self, pass_name: str) -> None: ...


def going_on(root: Path, losses: int = spools.STEPS) -> Spool:
    """A run whose timing pass is over, with samples enough for means of several."""
    spool = spools.begun(root)
    start, wall_time = spools.header(spool)["t"], spools.header(spool)["wall_time"]
    spools.write_events(spool, spools.timing(start, wall_time, [1.0] * losses))
    for number in range(1203):
        spool.event("sample", t=start + number / 4, metrics={"system/cpu_utilization_percentage": float(number)})
    return spool


def test_what_is_sent_on_the_way_is_what_is_there_at_the_end(
    tmp_path: Path, settings: Settings, client: MlflowClient
) -> None:
    spool = going_on(tmp_path)
    assert stream(spool, settings).state == "running"
    run = only_run(client)
    assert run.info.status == "RUNNING"
    on_the_way = {key: history(client, run, key) for key in run.data.metrics}
    assert set(on_the_way) == {"loss", "system/cpu_utilization_percentage"}
    assert len(on_the_way["loss"]) == spools.STEPS
    assert len(on_the_way["system/cpu_utilization_percentage"]) == 500 + 351  # the last of 703 has no second yet
    spool.event("sample", metrics={"system/cpu_utilization_percentage": 1.0})
    spool.end("ok")
    assert follow(spool, settings).state == "synced"
    at_the_end = {key: history(client, run, key) for key in on_the_way}
    assert at_the_end["loss"] == on_the_way["loss"]
    samples = at_the_end["system/cpu_utilization_percentage"]
    assert samples[:-1] == on_the_way["system/cpu_utilization_percentage"]


def test_losses_of_a_pass_that_goes_on_are_not_sent(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    """What comes later may say when its steps were really done."""
    spool = going_on(tmp_path)
    events = [e for e in spool.worker_events() if e["event"] != "end"]
    spools.write_events(spool, events)
    stream(spool, settings)
    assert set(only_run(client).data.metrics) == {"system/cpu_utilization_percentage"}


def test_no_batch_begins_when_the_time_is_over(
    tmp_path: Path, settings: Settings, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "STREAM_S", 0.0)
    assert stream(going_on(tmp_path), settings).state == "running"
    assert only_run(client).data.metrics == {}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the worker was held, each time that something was sent; the store takes it where this has no None."""
    calls: list[bool] = []

    def send(spool: Spool, settings: Settings) -> Outcome:
        calls.append(not (spool.path / ".go").exists())
        return Outcome("pending" if settings.uri == "away" else "running")

    monkeypatch.setattr(follower, "stream", send)
    return calls


def pass_of(stream: Stream, spool: Spool, name: str, *after: str) -> None:
    """Tell of a pass from its first step on, and write the phases that come after it."""
    stream.phase("timed", name)
    phases = [{"event": "phase", "pass": name, "name": phase, "t": 1.0} for phase in ("timed", "finish", *after)]
    with open(spool.path / "events.jsonl", "a") as file:
        file.writelines(json.dumps(phase) + "\n" for phase in phases)
    stream.ended(name)
    stream.close()


def listening(root: Path, passes: list[str], **settings: Any) -> tuple[Stream, Spool]:
    spool = spools.begun(root)
    go = spool.path / ".go"
    go.touch()
    return Stream(Silent(), spool, Settings(**settings), go, passes), spool


def test_the_next_pass_is_held_while_something_is_sent(tmp_path: Path, sent: list[bool]) -> None:
    stream, spool = listening(tmp_path, ["timing", "timing.2", "trace"])
    for name in ("timing", "timing.2"):
        pass_of(stream, spool, name, "import", "build", "ready")
        assert (spool.path / ".go").exists()
    assert sent == [True, True]


def test_after_the_last_pass_nothing_is_sent(tmp_path: Path, sent: list[bool]) -> None:
    stream, spool = listening(tmp_path, ["timing"])
    stream.phase("timed", "timing")
    assert (spool.path / ".go").exists()
    pass_of(stream, spool, "timing")
    assert sent == []


def test_a_pass_that_is_at_its_steps_already_is_left_alone(tmp_path: Path, sent: list[bool]) -> None:
    stream, spool = listening(tmp_path, ["timing", "timing.2", "trace"])
    pass_of(stream, spool, "timing", "import", "build", "ready", "warmup")
    assert sent == [] and (spool.path / ".go").exists()


def test_a_store_that_did_not_take_it_is_not_tried_again(tmp_path: Path, sent: list[bool]) -> None:
    stream, spool = listening(tmp_path, ["timing", "timing.2", "trace"], uri="away")
    for name in ("timing", "timing.2"):
        pass_of(stream, spool, name)
    assert sent == [True] and (spool.path / ".go").exists()


def test_offline_holds_nobody(tmp_path: Path, sent: list[bool]) -> None:
    stream, spool = listening(tmp_path, ["timing", "trace"], offline=True)
    stream.phase("timed", "timing")
    assert (spool.path / ".go").exists()
    pass_of(stream, spool, "timing")
    assert sent == []


def test_a_run_is_seen_before_its_end(tmp_path: Path) -> None:
    """By the command: what the first of two timing passes left is in MLflow while the second is timed."""
    steps = [0.05] * 10 + [0.3] * 10
    process = start(tmp_path, *SLEEP, *options(step_s=steps, phase_s={"finish": 0.5}), "measure.repeats=2")

    def second_is_timed() -> bool:
        found = [e for spool in command_spools(tmp_path) for e in events(spool)]
        return any(e["event"] == "phase" and (e["pass"], e["name"]) == ("timing.2", "timed") for e in found)

    wait_until(second_is_timed, process)
    (run,) = mlflow_runs(tmp_path)
    assert run.info.status == "RUNNING" and "loss" in run.data.metrics and "throughput" not in run.data.metrics
    _, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    (run,) = mlflow_runs(tmp_path)
    assert run.info.status == "FINISHED" and "throughput" in run.data.metrics
