"""Against real SQLite stores: whatever happens in between, MLflow ends up with the run once, whole and clean."""

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests
from mlflow import MlflowClient
from mlflow.entities import Run, ViewType
from mlflow.exceptions import MlflowException

from tbd.measure.figures import Figures
from tbd.tracking import artifacts, finder
from tbd.tracking.follower import Outcome, follow, open_run, waits
from tbd.tracking.spool import Spool
from tbd.tracking.store import Settings
from tests.tracking import spools

LEAK = "hunter2-hunter2"


def runs(client: MlflowClient, experiment: str = "tests") -> list[Run]:
    found = client.get_experiment_by_name(experiment)
    return list(client.search_runs([found.experiment_id])) if found else []


def only_run(client: MlflowClient) -> Run:
    (run,) = runs(client)
    return client.get_run(run.info.run_id)


def history(client: MlflowClient, run: Run, key: str) -> list[tuple[int, float, int]]:
    points = client.get_metric_history(run.info.run_id, key)
    return sorted((point.step, point.value, point.timestamp) for point in points)


def everything(client: MlflowClient) -> Any:
    """All that MLflow holds of the only run, but for the files' contents."""
    run = only_run(client)
    metrics = {key: history(client, run, key) for key in run.data.metrics}
    files = sorted(item.path for item in client.list_artifacts(run.info.run_id))
    return run.info.status, run.data.params, run.data.tags, metrics, run.inputs.to_dictionary(), files


def test_all_of_a_run_is_there(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    spool = spools.finished(tmp_path, tags={"note": "mine"})
    outcome = follow(spool, settings)
    run = only_run(client)
    start = spools.header(spool)
    assert outcome == Outcome("synced", "", True, settings.uri, run.info.experiment_id, run.info.run_id)
    assert run.info.run_name == "resnet50-pytorch"
    assert run.info.start_time == round(spool.run["wall_time"] * 1000)
    assert run.info.end_time == round((start["wall_time"] + 12) * 1000)
    assert run.data.params["model.blocks"] == "1,1,1,1"
    expected = {
        "model": "resnet50",
        "framework": "pytorch",
        "framework_version": "2.13.0",
        "hardware": "cpu",
        "device_names": "A CPU",
        "note": "mine",
        "tbd.status": "ok",
        "tbd.spool_id": spool.id,
        "tbd.throughput_unit": "images",
        "mlflow.source.name": "tbd.train",
        "mlflow.user": spool.run["user"],
    }
    assert {key: run.data.tags.get(key) for key in expected} == expected
    assert run.data.metrics["throughput"] == pytest.approx(spools.ITEMS / spools.STEP_S)
    losses = history(client, run, "loss")
    assert [step for step, _, _ in losses] == list(range(spools.STEPS))
    first_end = start["wall_time"] + 1 + spools.STEP_S
    assert losses[0][1:] == (2.0, pytest.approx(first_end * 1000, abs=1))
    assert len(history(client, run, "system/cpu_utilization_percentage")) == 12
    (data,) = run.inputs.dataset_inputs
    assert (data.dataset.name, data.dataset.digest, json.loads(data.dataset.source)) == (
        "synthetic",
        "abc",
        {"uri": "drawn"},
    )
    files = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert {"request.json", "config.yaml", "events.jsonl", "controller.jsonl", "trace.json.gz"} <= files
    assert {"figures.json", "operators.csv", "summary.html"} <= files
    assert not any(name in files for name in ("mlflow.json", "synced.json", ".follow.lock"))


@pytest.mark.parametrize(
    "status, expected",
    [("ok", "FINISHED"), ("interrupted", "KILLED"), ("out_of_memory", "FAILED"), ("diverged", "FAILED")],
)
def test_ends(tmp_path: Path, settings: Settings, client: MlflowClient, status: str, expected: str) -> None:
    follow(spools.finished(tmp_path, status, "the cause"), settings)
    run = only_run(client)
    assert (run.info.status, run.data.tags["tbd.status"], run.data.tags["tbd.cause"]) == (expected, status, "the cause")


def test_a_run_that_failed_before_its_worker_is_recorded(
    tmp_path: Path, settings: Settings, client: MlflowClient
) -> None:
    spool = Spool.create(tmp_path, "early", experiment="tests")
    spool.end("environment_failed", "pip found no torch")
    assert follow(spool, settings).state == "synced"
    run = only_run(client)
    assert (run.info.status, run.data.tags["tbd.cause"]) == ("FAILED", "pip found no torch")
    assert "throughput" not in run.data.metrics


def test_following_again_changes_nothing(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    spool = spools.finished(tmp_path)
    assert waits(spool, settings)
    follow(spool, settings)
    before = everything(client)
    assert not waits(spool, settings)
    assert follow(Spool.open(spool.path), settings).state == "synced"
    for note in ("mlflow.json", "synced.json"):  # as if the folder came from elsewhere
        (spool.path / note).unlink()
    assert follow(Spool.open(spool.path), settings).state == "synced"
    assert everything(client) == before


@pytest.mark.parametrize("call", ["log_batch", "log_inputs", "log_artifact", "set_terminated"])
def test_a_follower_killed_anywhere_is_made_up_for(
    tmp_path: Path, settings: Settings, client: MlflowClient, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    spool = spools.finished(tmp_path)

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, call, die)
        with pytest.raises(KeyboardInterrupt):
            follow(spool, settings)
    assert only_run(client).info.status == "RUNNING"
    assert waits(spool, settings)
    assert follow(Spool.open(spool.path), settings).state == "synced"
    run = only_run(client)
    assert run.info.status == "FINISHED"
    assert len(history(client, run, "loss")) == spools.STEPS
    assert [len(history(client, run, key)) for key in ("throughput", "loss_first")] == [1, 1]


def test_figures_that_are_there_are_taken(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    follow(spools.finished(tmp_path), settings, Figures(metrics={"throughput": 5.0}))
    assert only_run(client).data.metrics == {"throughput": 5.0}


def test_torn_lines_are_dropped(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    spool = spools.finished(tmp_path)
    with open(spool.path / "events.jsonl", "a") as file:
        file.write('{"event": "losses", "pass": "timing", "phase": "timed", "first": 30, "values": [1.')
    with open(spool.path / "controller.jsonl", "a") as file:
        file.write('{"event": "end", "sta')
    assert follow(spool, settings).state == "synced"
    assert len(history(client, only_run(client), "loss")) == spools.STEPS


def test_an_open_run_is_visible_and_then_finished(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    spool = spools.begun(tmp_path)
    opened = open_run(spool, settings)
    run = only_run(client)
    assert (opened.state, run.info.status, run.data.tags["tbd.status"]) == ("running", "RUNNING", "running")
    assert run.data.params["model.name"] == "resnet50"
    assert follow(spool, settings).state == "running"  # not ended yet
    spool.end("ok")
    assert follow(spool, settings).run_id == opened.run_id
    assert only_run(client).info.status == "FINISHED"


def test_params_with_odd_characters_and_sizes(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    spool = spools.begun(tmp_path)
    spool.write_config("a(1)%: 'x=y, \"z\"\\n'\nlong: " + "v" * 7000 + "\nempty: ''\n'ünï': 漢字\n")
    spool.end("ok")
    assert follow(spool, settings).state == "synced"
    params = only_run(client).data.params
    assert params["a_1__"] == 'x=y, "z"\\n'
    assert params["long"].endswith("[cut: 7000 characters in all]")
    assert params["ünï"] == "漢字"


def test_more_params_than_a_batch_takes(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    spool = spools.begun(tmp_path)
    spool.write_config("".join(f"k{number}: {number}\n" for number in range(250)))
    open_run(spool, settings)
    assert len(only_run(client).data.params) == 250


def test_a_param_that_is_there_with_another_value_stays(
    tmp_path: Path, settings: Settings, client: MlflowClient
) -> None:
    spool = spools.begun(tmp_path)
    run_id = open_run(spool, settings).run_id
    spool.write_config(spools.CONFIG.replace("batch_size: 8", "batch_size: 16") + "new: 1\n")
    spool.end("ok")
    assert follow(spool, settings).state == "synced"
    run = client.get_run(run_id)
    assert (run.data.params["batch_size"], run.data.params["new"]) == ("8", "1")
    assert run.data.tags["tbd.params_kept"] == "batch_size"


def test_figures_computed_anew_are_what_mlflow_shows(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    spool = spools.finished(tmp_path)
    follow(spool, settings)
    events = spool.path / "events.jsonl"
    events.write_text(events.read_text().replace('"images": [8,', '"images": [4,'))
    assert waits(spool, settings)
    for _ in range(2):
        follow(spool, settings)
    run = only_run(client)
    lower = (8 * spools.STEPS - 4) / (spools.STEPS * spools.STEP_S)
    assert run.data.metrics["throughput"] == pytest.approx(lower)
    assert [step for step, _, _ in history(client, run, "throughput")] == [0, 1]


@pytest.mark.parametrize("parent_first", [True, False])
def test_a_sweep_holds_its_runs_in_whatever_order_they_come(
    tmp_path: Path, settings: Settings, client: MlflowClient, parent_first: bool
) -> None:
    sweep = Spool.create(tmp_path, "sweep", experiment="tests", kind="sweep")
    child = spools.finished(tmp_path, parent=sweep)
    sweep.end("ok")
    for spool in (sweep, child) if parent_first else (child, sweep):
        assert follow(spool, settings).state == "synced"
    found = {run.data.tags["tbd.spool_id"]: run for run in runs(client)}
    assert len(found) == 2
    assert found[child.id].data.tags["mlflow.parentRunId"] == found[sweep.id].info.run_id
    assert found[sweep.id].info.status == "FINISHED"


def test_the_run_of_mlflow_run_is_taken_over_in_its_experiment(
    tmp_path: Path, settings: Settings, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = client.create_run(client.create_experiment("of mlflow run"))
    client.log_param(made.info.run_id, "overrides", "model=resnet50")
    monkeypatch.setenv("MLFLOW_RUN_ID", made.info.run_id)
    spool = spools.finished(tmp_path)
    monkeypatch.delenv("MLFLOW_RUN_ID")
    assert follow(spool, settings).run_id == made.info.run_id
    assert runs(client) == []
    run = client.get_run(made.info.run_id)
    assert (run.info.status, run.data.params["overrides"]) == ("FINISHED", "model=resnet50")
    assert run.data.tags["tbd.spool_id"] == spool.id


def test_a_run_of_a_sweep_is_beside_its_parent(
    tmp_path: Path, settings: Settings, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = client.create_run(client.create_experiment("of mlflow run"))
    monkeypatch.setenv("MLFLOW_RUN_ID", made.info.run_id)
    sweep = Spool.create(tmp_path, "sweep", experiment="tests", kind="sweep")
    open_run(sweep, settings)
    child = spools.finished(tmp_path, parent=sweep)
    follow(child, settings)
    found = {run.info.run_id: run for run in runs(client, "of mlflow run")}
    assert len(found) == 2
    assert found[child.mlflow()["run_id"]].data.tags["mlflow.parentRunId"] == made.info.run_id


def test_mlflows_own_variable_names_the_store(
    tmp_path: Path, settings: Settings, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", settings.uri)
    assert follow(spools.finished(tmp_path), Settings()).tracking_uri == settings.uri
    assert len(runs(client)) == 1


def test_the_default_store_is_in_the_working_folder_and_found_again_from_elsewhere(
    tmp_path: Path, settings: Settings, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = spools.finished(tmp_path)
    assert follow(spool, Settings()).tracking_uri == f"sqlite:///{tmp_path}/mlflow.db"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert not waits(spool, Settings())
    assert follow(spool, Settings()).state == "synced"
    assert len(runs(client)) == 1


def test_a_relative_store_is_noted_absolute(tmp_path: Path, settings: Settings) -> None:
    outcome = follow(spools.finished(tmp_path), Settings("sqlite:///mlflow.db"))
    assert outcome.tracking_uri == f"sqlite:///{tmp_path}/mlflow.db"


def test_offline_needs_nothing(tmp_path: Path) -> None:
    spool = spools.finished(tmp_path)
    assert follow(spool, Settings(offline=True)) == Outcome("offline")
    assert not (tmp_path / "mlflow.db").exists()


def test_a_server_that_is_away_leaves_the_run_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as bound:  # bound and not listening: refused at once
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        spool = spools.finished(tmp_path)
        for scheme in ("http", "postgresql"):
            outcome = follow(spool, Settings(f"{scheme}://me:{LEAK}@127.0.0.1:{port}/x"))
            assert (outcome.state, outcome.reached) == ("pending", False)
            assert "127.0.0.1" in outcome.reason and LEAK not in outcome.reason


def test_a_server_that_never_answers_leaves_the_run_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        outcome = open_run(spools.begun(tmp_path), Settings(f"http://127.0.0.1:{server.getsockname()[1]}"))
    assert (outcome.state, outcome.reached) == ("pending", False)


def test_a_deleted_run_is_not_made_again(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    spool = spools.finished(tmp_path)
    client.delete_run(follow(spool, settings).run_id)
    outcome = follow(spool, settings)
    assert outcome.state == "pending" and "deleted" in outcome.reason
    assert runs(client) == []


def test_a_deleted_experiment_is_told(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    client.delete_experiment(client.create_experiment("tests"))
    outcome = follow(spools.finished(tmp_path), settings)
    assert outcome.state == "pending" and "restore" in outcome.reason


def test_no_credential_goes_up(
    tmp_path: Path, settings: Settings, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", LEAK)
    spool = spools.begun(tmp_path, tags={"store": f"s3://me:{LEAK}@host/b"})
    spool.write_config(
        f"tracking: {{uri: 'postgresql://me:{LEAK}@db/x'}}\ndata: {{root: /{LEAK}/x, hub_token: {LEAK}}}\n"
    )
    spool.write_request({"data": {"hub_token": LEAK, "url": f"http://h/?password={LEAK}"}})
    (spool.path / "worker.log").write_text(f"PASSWORD={LEAK}\nusing {LEAK}\n")
    (spool.path / "environment").mkdir()
    (spool.path / "environment" / "pip.txt").write_text(f"torch @ https://me:{LEAK}@index/torch.whl\n")
    events = spools.timing(1.0, 1.0)
    events[3]["source"] = f"https://me:{LEAK}@data/x"
    spools.write_events(spool, events)
    spool.end("crashed", f"no access to https://me:{LEAK}@data/x")
    assert follow(spool, settings).state == "synced"
    folder = tmp_path / "down"
    folder.mkdir()
    down = Path(client.download_artifacts(only_run(client).info.run_id, "", str(folder)))
    texts = {path: path.read_text() for path in down.rglob("*") if path.is_file()}
    assert down / "environment" / "pip.txt" in texts
    assert [str(path) for path, text in texts.items() if LEAK in text] == []
    assert LEAK not in repr(everything(client))
    assert all(json.loads(line) for line in texts[down / "events.jsonl"].splitlines())
    assert LEAK in (spool.path / "request.json").read_text()  # the spool stays as it is


def test_two_processes_open_one_new_store(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tbd.tracking.follower import follow;"
        "from tbd.tracking.spool import Spool; from tbd.tracking.store import Settings;"
        "outcome = follow(Spool.open(Path(sys.argv[1])), Settings()); print(outcome.state, outcome.reason)"
    )
    made = [spools.finished(tmp_path) for _ in range(2)]
    root = Path(__file__).parents[2]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(spool.path)],
            cwd=tmp_path,
            env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "TBD_HOME": str(tmp_path / "home")},
            stdout=subprocess.PIPE,
            text=True,
        )
        for spool in made
    ]
    assert [process.communicate()[0].strip() for process in started] == ["synced", "synced"]
    found = runs(MlflowClient(f"sqlite:///{tmp_path}/mlflow.db"))
    assert {run.data.tags["tbd.spool_id"] for run in found} == {spool.id for spool in made}
    assert {run.info.status for run in found} == {"FINISHED"}


def test_files_come_with_their_checksums(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    spool = spools.finished(tmp_path)
    (spool.path / "pictures").mkdir()
    (spool.path / "pictures" / "a.png").write_bytes(bytes(1000))
    run_id = follow(spool, settings).run_id
    down = client.download_artifacts(run_id, "", str(tmp_path))
    checked = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=down, capture_output=True, text=True, check=True)
    assert "pictures/a.png: OK" in checked.stdout and "trace.json.gz: OK" in checked.stdout
    assert checked.stdout.count(": OK") == len(artifacts.files(spool))


def test_a_file_that_the_store_has_not_whole_is_told_and_sent_again(
    tmp_path: Path, settings: Settings, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = spools.finished(tmp_path)
    send = MlflowClient.log_artifact

    def halve(self: MlflowClient, run_id: str, local_path: str, artifact_path: str | None = None) -> None:
        if local_path.endswith("trace.json.gz"):
            half = tmp_path / "half" / "trace.json.gz"
            half.parent.mkdir()
            half.write_bytes(Path(local_path).read_bytes()[:20])
            local_path = str(half)
        send(self, run_id, local_path, artifact_path)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_artifact", halve)
        outcome = follow(spool, settings)
    assert outcome.state == "pending" and "20 of the " in outcome.reason and "trace.json.gz" in outcome.reason
    assert waits(spool, settings) and only_run(client).info.status == "RUNNING"
    assert follow(spool, settings).state == "synced"
    down = client.download_artifacts(only_run(client).info.run_id, "trace.json.gz", str(tmp_path))
    assert Path(down).read_bytes() == (spool.path / "trace.json.gz").read_bytes()


def test_after_a_crash_the_files_that_are_there_are_not_sent_again(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = spools.finished(tmp_path)
    sent: list[str] = []
    send = MlflowClient.log_artifact

    def count(self: MlflowClient, run_id: str, local_path: str, artifact_path: str | None = None) -> None:
        if Path(local_path).name == "request.json" and "request.json" not in sent:
            sent.append("request.json")
            raise KeyboardInterrupt
        sent.append(Path(local_path).name)
        send(self, run_id, local_path, artifact_path)

    monkeypatch.setattr(MlflowClient, "log_artifact", count)
    with pytest.raises(KeyboardInterrupt):
        follow(spool, settings)
    before = [name for name in sent if name != "request.json"]
    assert before and waits(spool, settings)
    follow(spool, settings)
    # the last one that was sent before may not have been noted
    assert [sent.count(name) for name in before[:-1]] == [1] * len(before[:-1])


def test_what_is_too_large_goes_in_smaller_batches(
    tmp_path: Path, settings: Settings, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As MLflow's client tells of a proxy that answers 413; the real one is in tests/faults."""
    log_batch = MlflowClient.log_batch

    def limited(self: MlflowClient, run_id: str, **batch: Any) -> Any:
        if any(len(batch.get(kind, ())) > 7 for kind in ("metrics", "params", "tags")):
            raise MlflowException("API request to endpoint /x failed with error code 413 != 200")
        return log_batch(self, run_id, **batch)

    monkeypatch.setattr(MlflowClient, "log_batch", limited)
    assert follow(spools.finished(tmp_path), settings).state == "synced"
    assert len(history(client, only_run(client), "loss")) == spools.STEPS


def test_a_file_that_is_too_large_is_named_with_the_way_out(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = requests.Response()
    response.status_code = 413

    def refuse(self: MlflowClient, run_id: str, local_path: str, artifact_path: str | None = None) -> None:
        raise requests.HTTPError("413 Client Error", response=response)

    monkeypatch.setattr(MlflowClient, "log_artifact", refuse)
    outcome = follow(spools.finished(tmp_path), settings)
    assert outcome.state == "pending" and "config.yaml" in outcome.reason and "client_max_body_size" in outcome.reason


@pytest.mark.parametrize("sent_before", [True, False])
def test_two_machines_that_make_a_run_each_agree_on_one(
    tmp_path: Path, settings: Settings, client: MlflowClient, sent_before: bool
) -> None:
    """Both have looked, and found none, before either has made its own."""
    mine = spools.finished(tmp_path / "mine")
    shutil.copytree(mine.path, tmp_path / "copy")
    theirs = Spool.open(tmp_path / "copy")
    first = finder.create(client, theirs, settings)
    if sent_before:
        assert follow(theirs, settings).run_id == first.info.run_id
    second = finder.create(client, mine, settings)
    for spool in (mine, theirs):
        assert follow(spool, settings).state == "synced"
    run = only_run(client)
    assert run.info.run_id == second.info.run_id == mine.mlflow()["run_id"] == theirs.mlflow()["run_id"]
    assert run.info.status == "FINISHED" and len(history(client, run, "loss")) == spools.STEPS
    (deleted,) = client.search_runs([run.info.experiment_id], run_view_type=ViewType.DELETED_ONLY)
    assert deleted.data.tags["tbd.spool_id"] == f"withdrawn in favour of {run.info.run_id}"
