"""Runs against a real server that fails, or is failed: afterwards every point once, every file whole, the right status.

These faults stand for their kinds; `make server-faults` does all of them and writes docs/server-faults.md.
"""

import base64
import contextlib
import gzip
import subprocess
import uuid
from pathlib import Path

import psutil
import pytest
from mlflow import MlflowClient

from tbd.tracking import access
from tbd.tracking.spool import spools
from tests import commands
from tests.faults.server_accounts import account
from tests.faults.server_faults import FAULTS, Scene
from tests.server.stack import Stack, User, stack

__all__ = ["stack"]

HERE = [
    "server killed in the phase timed",
    "server killed while it is sent to",
    "database restarted while it is sent to",
    "storage fails half-way through a file",
    "network gone for the whole run",
    "controller killed while it sends",
    "sync from two machines at once",
    "proxy answers 503 to every third request",
]


@pytest.fixture(scope="session")
def user(stack: Stack) -> User:
    return stack.new_user()


@pytest.mark.parametrize("name", HERE)
def test_nothing_is_lost_and_nothing_is_twice(stack: Stack, user: User, tmp_path: Path, name: str) -> None:
    scene = Scene(stack, user, tmp_path)
    FAULTS[name](scene)
    found = account(scene.runs, user)
    assert found.clean, found


def told_in(root: Path, secrets: list[str]) -> list[str]:
    """The files under `root` that hold one of the secrets, unpacked where they are packed."""
    found = []
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            found += [f"{path.name}: {secret}" for secret in secrets if secret.encode() in content]
    return found


def environments_below(process: "subprocess.Popen[str]") -> dict[str, bytes]:
    """{command: environment} of all that a run has started."""
    found = {}
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            command = " ".join(child.cmdline())
            found[command] = Path(f"/proc/{child.pid}/environ").read_bytes()
    return found


@pytest.mark.parametrize("way", ["variables", "file"])
def test_credentials_are_nowhere_but_in_the_calls(stack: Stack, user: User, tmp_path: Path, way: str) -> None:
    """Neither the server's nor S3's: all that a run leaves here and there, and what its children see, is searched."""
    s3_secret = "s3-" + uuid.uuid4().hex
    secrets = [user.password, base64.b64encode(f"{user.name}:{user.password}".encode()).decode(), s3_secret]
    given = dict(user.variables)
    options = []
    if way == "file":
        file = tmp_path / "credentials"
        text = f"[mlflow]\nmlflow_tracking_username = {user.name}\nmlflow_tracking_password = {user.password}\n"
        file.write_text(text)
        file.chmod(0o600)
        options = [f"tracking.credentials={file}", f"tracking.uri={user.url}"]
        given = {}
    folder = tmp_path / "work"
    folder.mkdir()
    scene = Scene(stack, user, folder)
    process = commands.start(
        folder,
        *scene.overrides(*options),
        **given,
        AWS_SECRET_ACCESS_KEY=s3_secret,
        AWS_ACCESS_KEY_ID="AKIA" + "A" * 16,
    )
    commands.wait_until(commands.in_phase(folder, "timed"), process)
    seen = environments_below(process)
    assert any("worker.py" in command for command in seen)
    children = {f"{command}: {s}" for command, text in seen.items() for s in secrets if s.encode() in text}
    assert children == set()
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    assert "MLflow   experiment" in out, out  # it is recorded
    assert [secret for secret in secrets if secret in out + error] == []
    assert told_in(folder, secrets) == []
    assert account(scene.runs, user).clean
    with access.environment(user.variables):
        client = MlflowClient(tracking_uri=user.url)
        (spool,) = spools(scene.runs)
        run = client.get_run(str(spool.mlflow()["run_id"]))
        fetched = tmp_path / "fetched"
        fetched.mkdir()
        down = Path(client.download_artifacts(run.info.run_id, "", str(fetched)))
        assert told_in(down, secrets) == []
        assert [secret for secret in secrets if secret in str(run.to_dictionary())] == []


def test_files_go_straight_to_s3(stack: Stack, tmp_path: Path) -> None:
    """With keys of this machine's own, into an experiment that has its place there, which an administrator made."""
    scene = Scene(stack, stack.admin, tmp_path)
    given = stack.s3_variables
    direct = ["tracking.s3_bucket=tbd/direct", f"tracking.s3_endpoint={given['MLFLOW_S3_ENDPOINT_URL']}"]
    keys = {name: value for name, value in given.items() if name.startswith("AWS_") and "ENDPOINT" not in name}
    assert "MLflow   experiment" in scene.run(*direct, **keys)
    with access.environment(given):
        assert account(scene.runs, stack.admin).clean
    (spool,) = spools(scene.runs)
    listed = stack.s3.list_objects_v2(Bucket=stack.bucket, Prefix=f"direct/{tmp_path.name}/")  # type: ignore[attr-defined]
    assert any(one["Key"].endswith(f"{spool.mlflow()['run_id']}/artifacts/events.jsonl") for one in listed["Contents"])
    assert "not in the bucket tbd/other" in scene.run("tracking.s3_bucket=tbd/other", **keys)


def test_a_user_without_the_right_to_the_experiment_loses_nothing(stack: Stack, user: User, tmp_path: Path) -> None:
    other = stack.new_user()
    scene = Scene(stack, other, tmp_path)
    stack.allow(user, "manage", tmp_path.name)
    out = scene.run()
    assert "not recorded yet" in out and "Permission denied" in out, out
    stack.allow(other, "edit", tmp_path.name)
    scene.sync()
    assert account(scene.runs, other).clean
