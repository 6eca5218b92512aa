"""What deploy/ shows: parts as systemd and containers run them, MLflow on a database and an S3 given from elsewhere."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
import yaml

from tbd import serve
from tbd.server import accounts, mlflow_server, postgresql, processes, seaweedfs
from tbd.server.settings import GIVEN, free_ports
from tbd.server.stack import states
from tests import commands
from tests.server import outside
from tests.server.stack import Stack, User, open_folder

DEPLOY = commands.ROOT / "deploy"


@pytest.fixture
def folder() -> Iterator[Path]:
    made = open_folder()
    yield made / "server"
    shutil.rmtree(made)


def new_run(user: User) -> tuple[str, str]:
    """(run, its artifact's path below the server's proxy) of a run with a note."""
    base = f"{user.url}/api/2.0/mlflow"
    made = requests.post(f"{base}/experiments/create", json={"name": f"of {user.name}"}, auth=user.login, timeout=60)
    body = {"experiment_id": made.json()["experiment_id"], "start_time": 1}
    run = requests.post(f"{base}/runs/create", json=body, auth=user.login, timeout=60).json()["run"]["info"]["run_id"]
    where = f"/api/2.0/mlflow-artifacts/artifacts/{body['experiment_id']}/{run}/artifacts/note.txt"
    assert requests.put(user.url + where, data=b"kept", auth=user.login, timeout=60).status_code == 200
    return run, where


def test_all_is_there_when_the_units_start_after_a_power_cut_in_any_order(stack: Stack, tmp_path: Path) -> None:
    """All is killed at once; then the ids that are noted everywhere are another process's, as after a boot."""
    user = stack.new_user()
    _, where = new_run(user)
    parts = ("mlflow", "seaweedfs", "postgresql")
    for process in [stack.process(part) for part in parts]:
        os.killpg(process.pid, signal.SIGKILL)
    for part in parts:
        while processes.running(stack.home, part) is not None:
            time.sleep(0.02)
    other = subprocess.Popen([*accounts.becoming(stack.home.account), "sleep", "600"])
    folder = stack.folder / "postgresql"
    for lock in (folder / "data" / "postmaster.pid", folder / f".s.PGSQL.{postgresql.PORT}.lock"):
        _, rest = lock.read_text().split("\n", 1)
        lock.write_text(f"{other.pid}\n{rest}")
    for part in parts:
        note = processes.record(stack.home, part)
        note.write_text(json.dumps(json.loads(note.read_text()) | {"pid": other.pid}))
    assert (folder / f".s.PGSQL.{postgresql.PORT}").is_socket()  # left over too
    said = tmp_path / "said"
    with said.open("w") as output:
        units = [
            subprocess.Popen(
                [sys.executable, "-m", "tbd.serve", "--folder", str(stack.folder), "run", part],
                env=commands.environment(),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            for part in parts
        ]
    try:
        deadline = time.monotonic() + 300
        while any(state.problem for state in states(stack.home, stack.settings)):  # not by a process a look
            time.sleep(0.2)
            assert all(unit.poll() is None for unit in units) and time.monotonic() < deadline, said.read_text()
        assert [stack.process(part).pid for part in parts] == [unit.pid for unit in units]
        assert requests.get(user.url + where, auth=user.login, timeout=60).content == b"kept"
    finally:
        other.kill()
        other.wait()
        for unit in units:  # as the units' KillSignal and KillMode do
            unit.send_signal(signal.SIGINT)
        for unit in units:
            unit.wait(120)
        stack.start()


def test_a_replica_serves_a_database_and_an_s3_given_from_elsewhere(stack: Stack, folder: Path) -> None:
    user, stranger = stack.new_user(), stack.new_user()
    run, where = new_run(user)
    given = {
        GIVEN["database_uri"]: postgresql.uri(stack.home),
        GIVEN["admin_password"]: stack.secrets["admin_password"],
        GIVEN["cookie_key"]: stack.secrets["cookie_key"],
        **{name: value for name, value in stack.s3_variables.items() if name.startswith("AWS_")},
    }
    replica = Stack(folder)
    options = ["--s3", mlflow_server.artifacts(stack.settings), "--s3-region", "us-east-1", "--workers", "1"]
    with outside.machine() as other, outside.forwarded(seaweedfs.port(stack.settings, "s3")) as s3:
        options += ["--s3-endpoint", f"http://{other.here}:{s3}", "--port", str(free_ports(1)[0])]
        try:
            called = replica.serve("start", *options, **given)
            assert called.returncode == 0, called.stderr
            assert [state["name"] for state in json.loads(replica.done("status", "--json"))] == ["mlflow"]
            there = User(user.name, user.password, replica.url)
            asked = f"{there.url}/api/2.0/mlflow/runs/get"
            assert requests.get(asked, params={"run_id": run}, auth=there.login, timeout=60).status_code == 200
            assert requests.get(there.url + where, auth=there.login, timeout=60).content == b"kept"
            line = " ".join(psutil.Process(replica.process("mlflow").pid).cmdline())
            assert not any(secret in line for secret in given.values() if len(secret) > 20)
            files_go_there_directly(replica.url, where, there, stranger)
        finally:
            replica.serve("stop")


def files_go_there_directly(url: str, where: str, user: User, stranger: User) -> None:
    """An S3 that clients reach gives them its files by itself; to those who may have them."""
    direct = {
        how: url + where.replace("/artifacts/", f"/{how}/", 1) for how in ("presigned", "mpu/create", "mpu/abort")
    }
    folder = direct["mpu/create"].rpartition("/")[0]
    part = {"path": "large.bin", "num_parts": 1}
    for denied in (
        requests.get(direct["presigned"], auth=stranger.login, timeout=60),
        requests.post(folder, json=part, auth=stranger.login, timeout=60),
        requests.post(direct["mpu/abort"], json={"path": "x", "upload_id": "x"}, auth=stranger.login, timeout=60),
    ):
        assert denied.status_code == 403, denied.text
    signed = requests.get(direct["presigned"], auth=user.login, timeout=60).json()
    assert requests.get(signed["url"], headers=signed["headers"], timeout=60).content == b"kept"
    begun = requests.post(folder, json=part, auth=user.login, timeout=60).json()
    assert requests.put(begun["credentials"][0]["url"], data=b"large", timeout=60).status_code == 200


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def test_what_is_published_is_what_the_command_takes() -> None:
    """The commands in deploy/ are ones of tbd.serve, and its variables those that the server reads."""
    kinds = {document["kind"]: document for document in documents(DEPLOY / "kubernetes" / "server.yaml")}
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    options = serve.parser().parse_args(container["args"])
    assert (options.action, options.part, options.tls_in_front) == ("run", "mlflow", True)
    assert {entry["name"] for entry in container["env"]} == {"TBD_SERVER_FOLDER", *GIVEN.values()}
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["capabilities"] == {"drop": ["ALL"]}

    (compose,) = documents(DEPLOY / "compose" / "compose.yaml")
    parts = {serve.parser().parse_args(s["command"]).part for s in compose["services"].values() if "command" in s}
    assert parts == set(serve.PARTS)
    assert [name for name, service in compose["services"].items() if "ports" in service] == ["proxy"]

    unit = (DEPLOY / "systemd" / "tbd-server@.service").read_text()
    target = (DEPLOY / "systemd" / "tbd-server.target").read_text()
    assert "python -m tbd.serve run %i\n" in unit and "User=tbd\n" in unit
    assert all(f"tbd-server@{part}.service" in target for part in serve.PARTS)


def test_the_role_in_aws_is_for_one_prefix_of_one_bucket() -> None:
    policy = json.loads((DEPLOY / "aws" / "iam-policy.json").read_text())
    listing, objects = policy["Statement"]
    assert listing["Action"] == "s3:ListBucket" and listing["Resource"] == "arn:aws:s3:::BUCKET"
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["PREFIX", "PREFIX/*"]}}
    assert objects["Resource"] == "arn:aws:s3:::BUCKET/PREFIX/*"
    assert all(action.startswith("s3:") and "*" not in action for action in objects["Action"])
    (trust,) = json.loads((DEPLOY / "aws" / "trust-policy.json").read_text())["Statement"]
    assert trust["Condition"]["StringEquals"]["OIDC:sub"] == "system:serviceaccount:tbd:tbd-server"
