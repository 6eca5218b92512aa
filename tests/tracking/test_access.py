"""Who we are at the server: where it is found, and what is refused."""

import os
from pathlib import Path

import pytest

from tbd.tracking import access
from tbd.tracking.access import BadCredentials
from tbd.tracking.store import Settings

FILE = "[mlflow]\nmlflow_tracking_username = me\nmlflow_tracking_password = hun%ter2\n"
FOUND = {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "hun%ter2"}


def credentials(path: Path, text: str = FILE, mode: int = 0o600) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_file_says_who_we_are(tmp_path: Path) -> None:
    assert access.variables(credentials(tmp_path / "mine"), {}) == FOUND


def test_mlflows_own_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert access.variables(None, {}) == {}
    credentials(tmp_path / ".mlflow" / "credentials")
    assert access.variables(None, {}) == FOUND


@pytest.mark.parametrize("name", ["MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"])
def test_what_the_user_set_comes_first(tmp_path: Path, name: str) -> None:
    assert access.variables(credentials(tmp_path / "mine"), {name: "other"}) == {}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(BadCredentials, match=f"mode {mode:04o}.*chmod 600"):
        access.read(Path(credentials(tmp_path / "mine", mode=mode)))


@pytest.mark.parametrize(
    "text", ["hunter2", "[mlflow]\nhunter2\n", "[other]\nx = hunter2\n", "[mlflow]\nx = hunter2\n"]
)
def test_a_file_of_another_form_is_told_without_a_word_of_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadCredentials, match="must have a section") as told:
        access.read(Path(credentials(tmp_path / "mine", text)))
    assert "hunter2" not in str(told.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadCredentials, match="nowhere can't be read: No such file"):
        access.read(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "uri, holds",
    [
        ("https://me:secret@host", True),
        ("https://token@host", True),
        ("postgresql://me:secret@host/x", True),
        ("postgresql://me@host/x", False),
        ("https://host/x@y", False),
        ("sqlite:////home/me/mlflow.db", False),
    ],
)
def test_passwords_in_a_uri(uri: str, holds: bool) -> None:
    assert access.holds_password(uri) == holds


def test_variables_are_there_within_alone_and_the_users_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    settings = Settings(s3_bucket="b", s3_endpoint="http://s3", s3_region="eu-1", s3_profile="other")
    with access.environment(settings.variables()):
        assert os.environ["MLFLOW_S3_ENDPOINT_URL"] == "http://s3"
        assert (os.environ["AWS_DEFAULT_REGION"], os.environ["AWS_PROFILE"]) == ("eu-1", "mine")
    assert "MLFLOW_S3_ENDPOINT_URL" not in os.environ and os.environ["AWS_PROFILE"] == "mine"
