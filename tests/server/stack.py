"""A real server for tests: PostgreSQL, SeaweedFS and MLflow with authentication, as `python -m tbd.serve` starts them.

A folder of tests that wants it imports the fixture into its conftest.py: `from tests.server.stack import stack`.
It is started once for all tests of a process, in an own folder of /tmp on free ports, and removed at their end. Whoever
breaks a part (kill, or faults of its own) mends it by `start()`.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tbd.server import processes, seaweedfs
from tbd.server.settings import Home, Settings, free_ports
from tests import commands


@dataclass(frozen=True)
class User:
    """One who may log in. `variables`: what makes MLflow's client, and tbd, be that user at the server."""

    name: str
    password: str
    url: str

    @property
    def variables(self) -> dict[str, str]:
        return {
            "MLFLOW_TRACKING_URI": self.url,
            "MLFLOW_TRACKING_USERNAME": self.name,
            "MLFLOW_TRACKING_PASSWORD": self.password,
        }

    @property
    def login(self) -> tuple[str, str]:
        """For requests: auth=user.login."""
        return self.name, self.password


class Stack:
    """One server in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def serve(self, *arguments: str, words: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """`python -m tbd.serve` on this server, to its end; `words` is its standard input."""
        return subprocess.run(
            [sys.executable, "-m", "tbd.serve", "--folder", str(self.folder), *arguments],
            env=commands.environment(**variables),
            input=words,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def done(self, *arguments: str, words: str | None = None) -> str:
        """The same where it must succeed; gives what was printed."""
        called = self.serve(*arguments, words=words)
        assert called.returncode == 0, called.stderr
        return called.stdout

    def start(self, *options: str) -> str:
        """Start what doesn't run."""
        return self.done("start", *options)

    def stop(self) -> str:
        return self.done("stop")

    @property
    def home(self) -> Home:
        return Home(self.folder)

    @property
    def settings(self) -> Settings:
        settings = self.home.settings()
        assert settings is not None
        return settings

    @property
    def url(self) -> str:
        return self.settings.url

    @property
    def secrets(self) -> dict[str, str]:
        return self.home.secrets()

    @property
    def admin(self) -> User:
        return User("admin", self.secrets["admin_password"], self.url)

    def new_user(self) -> User:
        """One whom nobody knows, and who may see nothing."""
        name, password = f"user-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
        self.done("user", "add", name, "--password-stdin", words=f"{password}\n")
        return User(name, password, self.url)

    def allow(self, user: User, level: str, experiment: str) -> None:
        """Let the user read, edit or manage the experiment, which is made where it isn't there."""
        self.done("user", "allow", user.name, level, experiment)

    def process(self, part: str) -> psutil.Process:
        """Of `postgresql`, `seaweedfs` or `mlflow`."""
        found = processes.running(self.home, part)
        assert found is not None, f"{part} doesn't run"
        return found

    def kill(self, part: str) -> None:
        """SIGKILL to the part, all of its processes at once. `start()` brings it back."""
        os.killpg(self.process(part).pid, signal.SIGKILL)
        while processes.running(self.home, part) is not None:
            pass

    @property
    def bucket(self) -> str:
        return seaweedfs.BUCKET

    @property
    def s3_variables(self) -> dict[str, str]:
        """What makes boto3, and MLflow where it goes to S3 itself, reach the object store as MLflow's server does."""
        return {
            "MLFLOW_S3_ENDPOINT_URL": seaweedfs.endpoint(self.settings),
            "AWS_ENDPOINT_URL_S3": seaweedfs.endpoint(self.settings),
            "AWS_DEFAULT_REGION": seaweedfs.REGION,
            "AWS_ACCESS_KEY_ID": self.secrets["s3_key"],
            "AWS_SECRET_ACCESS_KEY": self.secrets["s3_secret"],
        }

    @property
    def s3(self) -> object:
        """boto3's client with the same rights."""
        return seaweedfs.client(self.home, self.settings)


def open_folder() -> Path:
    """A new folder that the server's account can reach: pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="tbd-server-"))
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    folder = open_folder()
    running = Stack(folder / "server")
    try:
        running.start("--port", str(free_ports(1)[0]))
        yield running
    finally:
        running.serve("stop")
        shutil.rmtree(folder, ignore_errors=True)
