import socket
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tbd.sync import main
from tbd.tracking.spool import write_json
from tbd.tracking.store import Settings
from tests.tracking import spools

Output = pytest.CaptureFixture[str]


def tagged(client: MlflowClient) -> list[str]:
    experiment = client.get_experiment_by_name("tests")
    return (
        [run.data.tags["tbd.spool_id"] for run in client.search_runs([experiment.experiment_id])] if experiment else []
    )


def test_all_that_waits_is_sent_once(tmp_path: Path, settings: Settings, client: MlflowClient, capsys: Output) -> None:
    made = [spools.finished(tmp_path / "runs") for _ in range(2)]
    running = spools.begun(tmp_path / "runs")
    assert main(["--status"]) == 1
    assert capsys.readouterr().out.count("to be sent") == 2
    assert tagged(client) == []
    assert main([]) == 0
    assert "2 sent, 0 still to be sent" in capsys.readouterr().out
    assert sorted(tagged(client)) == sorted(spool.id for spool in made)
    assert main([]) == 0
    assert "0 sent" in capsys.readouterr().out
    assert main(["--status"]) == 0
    assert f"{running.path.name}: running" in capsys.readouterr().out
    assert sorted(tagged(client)) == sorted(spool.id for spool in made)


def test_named_runs_alone_are_sent(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    made = [spools.finished(tmp_path / "runs") for _ in range(2)]
    assert main([str(made[1].path)]) == 0
    assert tagged(client) == [made[1].id]


def test_a_dead_run_is_ended_and_sent(tmp_path: Path, settings: Settings, client: MlflowClient) -> None:
    spool = spools.begun(tmp_path / "runs")
    write_json(spool.path / "run.json", {**spool.run, "boot_id": "another boot"})
    assert main([]) == 0
    assert tagged(client) == [spool.id]


def test_a_server_that_is_away_is_asked_once_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    made = [spools.finished(tmp_path / "runs") for _ in range(3)]
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{bound.getsockname()[1]}")
        assert main([]) == 1
    captured = capsys.readouterr()
    assert "0 sent, 3 still to be sent" in captured.out
    assert len([line for line in captured.err.splitlines() if "not sent" in line]) == 1
    assert made[0].path.name in captured.err


@pytest.mark.parametrize("arguments", [["nowhere"], ["--runs", "nowhere"]])
def test_folders_that_are_no_runs_are_wrong_usage(arguments: list[str], capsys: Output) -> None:
    assert main(arguments) == 2
    assert "nowhere" in capsys.readouterr().err
