"""`python -m tbd.serve`: starting, stopping, users, backup: on a real database and object store."""

import hashlib
import json
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests
from mlflow import MlflowClient
from mlflow.entities import Metric

from tbd.server.settings import free_ports
from tests.server.stack import Stack, User, open_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    made = open_folder()
    yield made / "server"
    shutil.rmtree(made)


def test_starting_twice_starts_once(stack: Stack) -> None:
    before = {part: stack.process(part).pid for part in ("postgresql", "seaweedfs", "mlflow")}
    assert "it ran already" in stack.start()
    assert {part: stack.process(part).pid for part in before} == before


def test_status_says_whether_each_part_serves(stack: Stack) -> None:
    called = stack.serve("status", "--json")
    assert called.returncode == 0
    assert {state["name"]: state["problem"] for state in json.loads(called.stdout)} == {
        "postgresql": None,
        "seaweedfs": None,
        "mlflow": None,
    }


@pytest.mark.parametrize("part", ["postgresql", "seaweedfs", "mlflow"])
def test_a_part_that_was_killed_is_noticed_and_comes_back(stack: Stack, part: str) -> None:
    others = {name: stack.process(name).pid for name in ("postgresql", "seaweedfs", "mlflow") if name != part}
    stack.kill(part)
    assert stack.serve("status").returncode == 1
    assert f"started {part} in" in stack.start()
    assert {name: stack.process(name).pid for name in others} == others
    with as_user(stack.admin) as client:
        run = client.create_run("0")
        client.log_text(run.info.run_id, "after", "note.txt")
        assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["note.txt"]


def test_nothing_is_for_other_accounts(stack: Stack) -> None:
    for path in [stack.folder, *stack.folder.rglob("*")]:
        if path.is_socket() or "data" in path.relative_to(stack.folder).parts:
            continue  # the socket lies in a private folder; PostgreSQL and SeaweedFS see to their data's folders
        assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) or path.parent.stat().st_mode & 0o077 == 0, path
    assert stat.S_IMODE(stack.folder.stat().st_mode) == 0o700
    for name in ("secrets.json", "mlflow/auth.ini", "seaweedfs/s3.json", "seaweedfs/.seaweedfs/key.pem"):
        assert stat.S_IMODE((stack.folder / name).stat().st_mode) == 0o600, name


def processes(stack: Stack) -> list[psutil.Process]:
    parts = [stack.process(part) for part in ("postgresql", "seaweedfs", "mlflow")]
    return [process for part in parts for process in (part, *part.children(recursive=True))]


def test_nothing_runs_as_root(stack: Stack) -> None:
    assert [process for process in processes(stack) if 0 in process.uids()] == []


def test_no_command_line_and_no_log_has_a_secret(stack: Stack) -> None:
    said = [" ".join(process.cmdline()) for process in processes(stack)]
    said += [path.read_text(errors="replace") for path in (stack.folder / "logs").iterdir()]
    for name, secret in stack.secrets.items():
        assert not any(secret in text for text in said), name


def test_it_listens_on_the_loopback_alone(stack: Stack) -> None:
    addresses = {
        connection.laddr.ip
        for process in processes(stack)
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses == {"127.0.0.1"}


def test_a_host_beyond_the_loopback_needs_tls_and_a_name(folder: Path) -> None:
    called = Stack(folder).serve("start", "--host", "0.0.0.0")
    assert called.returncode == 2 and "in the clear" in called.stderr and "Traceback" not in called.stderr
    called = Stack(folder).serve("start", "--host", "0.0.0.0", "--tls-in-front")
    assert called.returncode == 2 and "--name" in called.stderr


def test_a_folder_of_something_else_is_left_alone(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    (folder / "letter.txt").write_text("mine")
    called = Stack(folder).serve("start")
    assert called.returncode == 2 and "holds other files" in called.stderr
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_where_there_is_no_server_that_is_said(folder: Path) -> None:
    for action in (["stop"], ["status"], ["user", "list"], ["backup", str(folder / "x")]):
        called = Stack(folder).serve(*action)
        assert called.returncode == 2 and "there is no server in" in called.stderr
    assert not folder.exists()


def test_users_and_roles(stack: Stack) -> None:
    ann, bea = stack.new_user(), stack.new_user()
    experiment = f"of {ann.name}"
    stack.allow(ann, "edit", experiment)
    stack.done("role", "add", ann.name)
    stack.done("role", "allow", ann.name, "read", experiment)
    with as_user(ann) as client:
        made = client.get_experiment_by_name(experiment).experiment_id
        run = client.create_run(made).info.run_id
    assert status(bea, run) == 403
    stack.done("role", "give", ann.name, bea.name)
    assert status(bea, run) == 200
    assert write(bea, run) == 403
    assert f"{ann.name}: read {experiment}" in stack.done("role", "list")
    assert f"{bea.name}: {ann.name}" in stack.done("user", "list")
    stack.done("role", "allow", ann.name, "edit", experiment)
    assert write(bea, run) == 200
    stack.done("role", "take", ann.name, bea.name)
    assert status(bea, run) == 403
    stack.done("user", "forbid", ann.name, experiment)
    assert status(ann, run) == 403
    stack.done("role", "remove", ann.name)
    assert ann.name not in stack.done("role", "list")


def test_a_new_password_and_a_removed_user(stack: Stack) -> None:
    user = stack.new_user()
    password = stack.done("user", "password", user.name).split()[-1]
    new = User(user.name, password, user.url)
    assert requests.get(f"{stack.url}/api/2.0/mlflow/users/current", auth=new.login, timeout=30).status_code == 200
    stack.done("user", "remove", user.name)
    assert user.name not in stack.done("user", "list")


def test_what_mlflow_refuses_is_said_in_a_line(stack: Stack) -> None:
    for action, words in (
        (["user", "remove", "nobody"], "nobody"),
        (["role", "give", "no-role", "admin"], "there is no role 'no-role'"),
        (["user", "forbid", "admin", "no-experiment"], "there is no experiment 'no-experiment'"),
    ):
        called = stack.serve(*action)
        assert called.returncode == 2 and words in called.stderr and "Traceback" not in called.stderr


def test_a_taken_port_is_named(stack: Stack, folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        second = Stack(folder)
        try:
            called = second.serve("start", "--port", str(port))
            assert called.returncode == 2 and f"port {port}" in called.stderr
        finally:
            second.serve("stop")


def test_all_is_back_after_dump_and_restore_into_an_empty_server(stack: Stack, folder: Path) -> None:
    """The whole content of the server is dumped while it serves, and restored into one that has nothing."""
    copy = folder.parent / "backup"
    user = stack.new_user()
    with as_user(user) as client:
        experiment = client.create_experiment(f"kept of {user.name}")
        runs = [client.create_run(experiment).info.run_id for _ in range(3)]
        for number, run in enumerate(runs):
            points = [Metric("loss", number + step / 7, 1000 + step, step) for step in range(50)]
            client.log_batch(run, metrics=points)
            client.log_param(run, "seed", number)
            client.log_text(run, "x" * 1_000_000 * number, "events.jsonl")
            client.log_text(run, f"<b>{number}</b>", "pages/summary.html")
        before = content(client, runs)
    stack.done("backup", str(copy))
    assert stack.serve("backup", str(copy)).returncode == 2  # never over another

    second = Stack(folder)
    try:
        second.start("--port", str(free_ports(1)[0]), "--workers", "1")
        assert second.admin.password != stack.admin.password
        second.done("restore", str(copy))
        assert second.admin.password == stack.admin.password
        for there in (User(user.name, user.password, second.url), second.admin):
            with as_user(there) as client:
                assert content(client, runs) == before

        (damaged := next((copy / "objects").iterdir())).write_bytes(b"other")
        called = second.serve("restore", str(copy))
        assert called.returncode == 2 and f"{damaged} is missing or damaged" in called.stderr
    finally:
        second.serve("stop")


def content(client: MlflowClient, runs: list[str]) -> list[object]:
    """All that the runs hold, artifacts by their sums."""
    found: list[object] = []
    for run in runs:
        data = client.get_run(run)
        points = [(m.step, m.timestamp, m.value) for m in client.get_metric_history(run, "loss")]
        names = ["events.jsonl", "pages/summary.html"]
        sums = [hashlib.sha256(Path(client.download_artifacts(run, name)).read_bytes()).hexdigest() for name in names]
        found.append((data.info.status, data.info.start_time, data.data.params, data.data.tags, points, sums))
    return found


class as_user:
    """MLflow's client as the user: it is told by the environment."""

    def __init__(self, user: User) -> None:
        self.user = user

    def __enter__(self) -> MlflowClient:
        self.patch = pytest.MonkeyPatch()
        for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
            self.patch.delenv(name)
        for name, value in self.user.variables.items():
            self.patch.setenv(name, value)
        return MlflowClient(self.user.url)

    def __exit__(self, *_: object) -> None:
        self.patch.undo()


def status(user: User, run: str) -> int:
    url = f"{user.url}/api/2.0/mlflow/runs/get"
    return requests.get(url, params={"run_id": run}, auth=user.login, timeout=30).status_code


def write(user: User, run: str) -> int:
    url = f"{user.url}/api/2.0/mlflow/runs/set-tag"
    body = {"run_id": run, "key": "note", "value": "x"}
    return requests.post(url, json=body, auth=user.login, timeout=30).status_code
