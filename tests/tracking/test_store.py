"""Who may have the store when."""

import socket
from pathlib import Path

import pytest
from filelock import FileLock

from tbd.tracking import store
from tbd.tracking.store import Settings, Unreachable, chosen_uri, experiment_id, opened


def test_the_turn_at_a_database_is_a_lock_in_the_users_own_cache(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path}/mlflow.db"):
        (lock,) = (tmp_path / "home" / "locks").glob("mlflow-*.lock")
    assert lock.parent.stat().st_mode & 0o077 == 0


def test_a_database_in_use_is_waited_for_and_then_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    with opened(uri):
        (path,) = (tmp_path / "home" / "locks").glob("*.lock")
    monkeypatch.setattr(store, "LOCK_TIMEOUT_S", 0.1)
    with (
        FileLock(path, is_singleton=False),
        pytest.raises(Unreachable, match=r"mlflow\.db was in use by another run for 0\.1 s"),
        opened(uri),
    ):
        raise AssertionError("it was opened")


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TBD_HOME", str(tmp_path / "file"))
    with pytest.raises(Unreachable, match="file/locks: Not a directory; TBD_HOME names"), opened("sqlite:///mlflow.db"):
        raise AssertionError("it was opened")


def test_a_server_that_takes_no_connection_is_told_at_once() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with (
            pytest.raises(Unreachable, match="no answer"),
            opened(f"http://127.0.0.1:{bound.getsockname()[1]}"),
        ):
            raise AssertionError("it was opened")


@pytest.mark.parametrize("name, probed", [("http_proxy", False), ("all_proxy", False), ("https_proxy", True)])
def test_what_only_a_proxy_reaches_is_not_probed(monkeypatch: pytest.MonkeyPatch, name: str, probed: bool) -> None:
    asked = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        asked.append(address)
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setenv(name, "http://proxy:3128")
    with opened("http://mlflow.example.org"):
        pass
    assert asked == [("mlflow.example.org", 80)] * probed


def test_a_file_that_goes_straight_to_s3_goes_where_the_experiment_has_its_place(settings: Settings) -> None:
    with opened(str(settings.uri)) as client:
        made = experiment_id(client, "one", "bucket/team")
        assert client.get_experiment(made).artifact_location == "s3://bucket/team/one"
        assert experiment_id(client, "one", "bucket/team/") == experiment_id(client, "one") == made
        with pytest.raises(Unreachable, match="'one' has its files at s3://bucket/team/one, not in the bucket other"):
            experiment_id(client, "one", "other")
        with pytest.raises(Unreachable, match="not in the bucket bucket/te:"):
            experiment_id(client, "one", "bucket/te")


def test_the_store_that_a_run_begins_with_is_noted_without_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_uri(None) is None
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:hunter2@host/x")
    assert chosen_uri(None) == "https://host/x"
    assert chosen_uri("sqlite:///mlflow.db") == f"sqlite:///{Path.cwd()}/mlflow.db"
