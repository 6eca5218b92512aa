import socket
from pathlib import Path

import pytest
from filelock import FileLock
from mlflow import MlflowClient

from tbd.sync import Sent, main, meant_for, send
from tbd.tracking.spool import Spool, write_json
from tbd.tracking.spool import spools as all_spools
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


def test_status_says_how_much_waits_and_where_it_goes(tmp_path: Path, settings: Settings, capsys: Output) -> None:
    spool = spools.finished(tmp_path / "runs")
    (spool.path / "large.bin").write_bytes(bytes(12_300_000))
    assert main(["--status"]) == 1
    assert f"{spool.path.name}: to be sent: 12.3 MB of files to {settings.uri}" in capsys.readouterr().out


def test_a_run_goes_where_it_was_to_go_when_it_began(
    tmp_path: Path, settings: Settings, client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracking = {"mode": "server", "uri": settings.uri}
    made = spools.finished(tmp_path / "runs", tracking=tracking)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["--runs", str(tmp_path / "runs")]) == 0
    assert tagged(client) == [made.id]


def test_what_is_caught_up_is_what_waits_for_the_same_store(tmp_path: Path) -> None:
    def begun(**tracking: str | None) -> Spool:
        return spools.begun(tmp_path, tracking=tracking)

    same = begun(mode="server", uri="https://one")
    begun(mode="server", uri="https://other")
    begun(mode="offline", uri="https://one")
    usual = begun(mode="mlflow", uri=None)
    spools.begun(tmp_path)  # of a version that noted nothing
    assert [spool.id for spool in meant_for("https://one", all_spools(tmp_path))] == [same.id]
    assert [spool.id for spool in meant_for(None, all_spools(tmp_path))] == [usual.id]


def test_a_run_that_another_process_sends_is_left_to_it(tmp_path: Path, settings: Settings) -> None:
    spool = spools.finished(tmp_path)
    with FileLock(spool.path / ".follow.lock", is_singleton=False):
        assert send([spool], lambda _: settings, turn_s=0.0) == Sent(0, 0, 1)
    assert send([spool], lambda _: settings, turn_s=0.0) == Sent(1, 0, 0)


def test_when_the_time_is_over_no_run_is_begun_with(tmp_path: Path, settings: Settings) -> None:
    assert send([spools.finished(tmp_path)], lambda _: settings, limit_s=0.0) == Sent(0, 1, 0)


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
