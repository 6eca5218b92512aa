"""What an account of the same machine, without the server's secrets, gets at its inner parts: nothing."""

import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import requests
from botocore.exceptions import ClientError

from tbd.server import postgresql, seaweedfs
from tbd.server import stack as servers
from tbd.server.settings import Home
from tests.server.stack import Stack, open_folder


def port(stack: Stack, name: str) -> int:
    return seaweedfs.port(stack.settings, name)


def test_postgresql_has_no_port_and_a_private_socket(stack: Stack) -> None:
    process = stack.process("postgresql")
    assert process.net_connections("inet") == []
    folder = stack.folder / "postgresql"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / f".s.PGSQL.{postgresql.PORT}").is_socket()


@pytest.mark.parametrize("user", ["tbd", "postgres"])
def test_postgresql_wants_the_password(stack: Stack, user: str) -> None:
    where = f"postgresql://{user}@/tbd?host={stack.folder / 'postgresql'}&port={postgresql.PORT}"
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(where)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(where, password="guessed")


def test_mlflows_role_owns_its_database_and_nothing_else(stack: Stack) -> None:
    with psycopg.connect(postgresql.uri(stack.home)) as connection:
        row = connection.execute(
            "select rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls from pg_roles "
            "where rolname = user"
        ).fetchone()
        assert row == (False,) * 5
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("copy (select 1) to program 'true'")


def test_s3_knows_nobody_without_a_key(stack: Stack) -> None:
    url = f"{seaweedfs.endpoint(stack.settings)}/{stack.bucket}"
    for method, path in (("GET", ""), ("GET", "/artifacts/x"), ("PUT", "/artifacts/x"), ("DELETE", "/artifacts/x")):
        assert requests.request(method, url + path, data=b"x", timeout=30).status_code == 403


def test_mlflows_key_is_good_for_its_bucket_alone(stack: Stack) -> None:
    other = "another-bucket"
    admin = seaweedfs.client(stack.home, stack.settings, admin=True)
    admin.create_bucket(Bucket=other)
    try:
        admin.put_object(Bucket=other, Key="x", Body=b"x")
        client = seaweedfs.client(stack.home, stack.settings)
        for call in (
            lambda: client.get_object(Bucket=other, Key="x"),
            lambda: client.put_object(Bucket=other, Key="y", Body=b"y"),
            lambda: client.list_objects_v2(Bucket=other),
            lambda: client.create_bucket(Bucket="a-third"),
            lambda: client.delete_bucket(Bucket=stack.bucket),
        ):
            with pytest.raises(ClientError, match="AccessDenied|403"):
                call()
        client.put_object(Bucket=stack.bucket, Key="probe", Body=b"y")
        client.delete_object(Bucket=stack.bucket, Key="probe")
    finally:
        admin.delete_object(Bucket=other, Key="x")
        admin.delete_bucket(Bucket=other)


@pytest.fixture
def object_of_ours(stack: Stack) -> Iterator[str]:
    client = seaweedfs.client(stack.home, stack.settings)
    client.put_object(Bucket=stack.bucket, Key="secret/word", Body=b"a secret word")
    yield f"/buckets/{stack.bucket}/secret/word"
    client.delete_object(Bucket=stack.bucket, Key="secret/word")


def test_seaweedfs_inner_servers_want_signed_requests(stack: Stack, object_of_ours: str) -> None:
    filer = f"http://127.0.0.1:{port(stack, 'filer')}"
    for method in ("GET", "PUT", "POST", "DELETE"):
        answer = requests.request(method, filer + object_of_ours, data=b"changed", timeout=30)
        assert answer.status_code in (401, 404) and b"secret" not in answer.content, (method, answer.status_code)
    for number in range(1, 20):
        answer = requests.get(f"http://127.0.0.1:{port(stack, 'volume')}/{number},01637037d6", timeout=30)
        assert answer.status_code in (401, 404) and b"secret" not in answer.content
    body = seaweedfs.client(stack.home, stack.settings).get_object(Bucket=stack.bucket, Key="secret/word")["Body"]
    assert body.read() == b"a secret word"


def test_seaweedfs_own_tools_get_in_with_the_certificate_alone(
    stack: Stack, object_of_ours: str, tmp_path: Path
) -> None:
    asked = [
        str(seaweedfs.program()),
        "shell",
        f"-master=127.0.0.1:{port(stack, 'master')}.{port(stack, 'master_grpc')}",
        f"-filer=127.0.0.1:{port(stack, 'filer')}.{port(stack, 'filer_grpc')}",
    ]

    def told(home: Path) -> str:
        try:
            called = subprocess.run(
                asked,
                input=f"fs.ls {Path(object_of_ours).parent}\nexit\n",
                env={"HOME": str(home)},
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=20,
            )
        except subprocess.TimeoutExpired as error:  # it tries for ever
            return str(error.stdout)
        return called.stdout

    assert "word" in told(stack.folder / "seaweedfs")
    assert "word" not in told(tmp_path)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of a gigabyte, which its account can reach."""
    folder = open_folder()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g,mode=755", "tbd-test", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    folder.rmdir()


def test_a_small_disk_takes_files(small_disk: Path) -> None:
    """Who writes first (SeaweedFS's own log, after a minute; here another bucket) leaves room for the others."""
    home = Home(small_disk / "server")
    _, settings = servers.configure(home, {})
    try:
        servers.start(home, settings, {seaweedfs.NAME})
        admin = seaweedfs.client(home, settings, admin=True)
        for bucket in ("first", seaweedfs.BUCKET):
            admin.create_bucket(Bucket=bucket)
            admin.put_object(Bucket=bucket, Key="x", Body=b"x")
        assert admin.get_object(Bucket=seaweedfs.BUCKET, Key="x")["Body"].read() == b"x"
    finally:
        servers.stop(home, settings, {seaweedfs.NAME})


def test_nothing_of_seaweedfs_is_reached_from_outside(stack: Stack) -> None:
    with socket.socket() as outside:
        outside.connect(("127.0.0.1", port(stack, "s3")))  # the loopback answers
    own = {
        connection.laddr.ip
        for process in (stack.process("seaweedfs"), *stack.process("seaweedfs").children(recursive=True))
        for connection in process.net_connections("inet")
    }
    assert own == {"127.0.0.1"}
