"""Who may have the store when."""

from pathlib import Path

import pytest
from filelock import FileLock

from tbd.tracking import store
from tbd.tracking.store import Unreachable, opened


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
