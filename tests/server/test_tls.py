"""TLS in front, by deploy/nginx.conf as it is published, its names and paths put in."""

import contextlib
import datetime
import ipaddress
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tbd.server.settings import free_ports
from tests.commands import ROOT
from tests.server.stack import Stack

NAME = "localhost"  # stands for mlflow.example.org: it leads here


@dataclass(frozen=True)
class Proxy:
    https: str
    http: str
    certificate: Path


@pytest.fixture(scope="module")
def proxy(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with nginx(stack, tmp_path_factory.mktemp("nginx")) as started:
        yield started


@contextlib.contextmanager
def nginx(stack: Stack, folder: Path, address: str = "127.0.0.1", **changes: str) -> Iterator[Proxy]:
    """deploy/nginx.conf in front of the server, at an address of this machine; `changes`: the values of its settings,
    by name."""
    certificate(folder, address)
    host = NAME if address == "127.0.0.1" else address
    secure, plain = free_ports(2)
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    for old, new in (
        ("mlflow.example.org", host),
        ("/etc/ssl/tbd", str(folder)),
        ("http://127.0.0.1:5000", stack.url),
        ("listen 443 ssl", f"listen {address}:{secure} ssl"),
        ("listen 80", f"listen {address}:{plain}"),
        ("    listen [::]:443 ssl;\n", ""),
        ("    listen [::]:80;\n", ""),
        ("https://$host$", f"https://$host:{secure}$"),
        ("Host $host", f"Host {NAME}:{stack.settings.port}"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    for name, value in changes.items():
        text, count = re.subn(rf"\b{name}=\w+(/\w)?", f"{name}={value}", text)
        assert count == 1, name
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    logs = f"error_log {folder}/error.log;\npid {folder}/pid;\n"
    (folder / "nginx.conf").write_text(f"{logs}events {{}}\nhttp {{\naccess_log off;\n{temporary}{text}}}\n")
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, "apt-get install nginx"
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [program, "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf", "-g", "daemon off;"], stderr=said
        )
    started = Proxy(f"https://{host}:{secure}", f"http://{host}:{plain}", folder / "certificate.pem")
    try:
        deadline = time.monotonic() + 60
        while True:
            assert process.poll() is None, (folder / "said").read_text()
            try:
                requests.get(f"{started.https}/health", verify=str(started.certificate), timeout=10)
                break
            except requests.ConnectionError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield started
    finally:
        process.terminate()
        process.wait()


def certificate(folder: Path, address: str) -> None:
    """certificate.pem and key.pem for this machine's own name and an address of its."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(NAME), x509.IPAddress(ipaddress.ip_address(address))]), False
        )
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "certificate.pem").write_bytes(made.public_bytes(pem))
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(private)


def test_a_user_works_through_tls(stack: Stack, proxy: Proxy) -> None:
    user = stack.new_user()
    how = {"auth": user.login, "verify": str(proxy.certificate), "timeout": 120}

    def call(path: str, **body: object) -> dict[str, object]:
        answer = requests.post(f"{proxy.https}/api/2.0/mlflow/{path}", json=body, **how)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    experiment = call("experiments/create", name=f"of {user.name}")["experiment_id"]
    run = call("runs/create", experiment_id=experiment, start_time=1)["run"]["info"]["run_id"]  # type: ignore[index]
    content = os.urandom(20_000_000)
    where = f"{proxy.https}/api/2.0/mlflow-artifacts/artifacts/{experiment}/{run}/artifacts/trace.json.gz"
    assert requests.put(where, data=content, **how).status_code == 200
    assert requests.get(where, **how).content == content
    answer = requests.get(f"{proxy.https}/health", **how)
    assert "max-age" in answer.headers["Strict-Transport-Security"]
    assert requests.get(f"{proxy.https}/", verify=str(proxy.certificate), timeout=30).status_code == 401


def test_plain_http_leads_to_tls(proxy: Proxy) -> None:
    answer = requests.get(f"{proxy.http}/api/2.0/mlflow/runs/get", allow_redirects=False, timeout=30)
    assert answer.status_code == 301 and answer.headers["Location"].startswith(proxy.https)


def test_who_asks_too_often_is_put_off(stack: Stack, tmp_path: Path) -> None:
    with nginx(stack, tmp_path, rate="1r/m", burst="5") as proxy:
        asked = [requests.get(f"{proxy.https}/", verify=str(proxy.certificate), timeout=30) for _ in range(10)]
        assert {answer.status_code for answer in asked} == {401, 429}
