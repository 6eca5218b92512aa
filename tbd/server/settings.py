"""Where a server lives, how it is set up, and its secrets.

The folder (mode 0700, all of it the account's that the server runs as):

settings.json     how it was started last: a later start needs no options
secrets.json      passwords and keys, made at the first start (0600)
postgresql/       the database, where none is given
seaweedfs/        the object store, where none is given
mlflow/           MLflow's own configuration
logs/, running/   what each part printed, and which process it is
"""

import dataclasses
import json
import os
import re
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tbd.server import Refused, accounts

DATABASE_VARIABLE = "TBD_SERVER_DATABASE"
FOLDER_VARIABLE = "TBD_SERVER_FOLDER"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
ADMIN = "admin"

# what a deployment hands over in its own way instead, by environment variables
GIVEN = {
    "database_uri": DATABASE_VARIABLE,
    "admin_password": "MLFLOW_AUTH_ADMIN_PASSWORD",
    "cookie_key": "MLFLOW_FLASK_SERVER_SECRET_KEY",
}
MADE = (
    "admin_password",
    "cookie_key",
    "database_owner_password",
    "database_password",
    "s3_admin_key",
    "s3_admin_secret",
    "s3_key",
    "s3_secret",
    "seaweedfs_signing_key",
)


@dataclass(frozen=True)
class Settings:
    """How a server is to run. `s3` empty: a SeaweedFS of its own."""

    host: str = "127.0.0.1"
    port: int = 5000
    names: tuple[str, ...] = ()  # by which clients reach it, beside the loopback's
    workers: int = 2
    tls_certificate: str = ""
    tls_key: str = ""
    tls_in_front: bool = False
    s3: str = ""  # s3://bucket/prefix
    s3_endpoint: str = ""
    s3_region: str = ""
    seaweedfs_ports: tuple[int, ...] = ()

    def check(self) -> None:
        """Raises Refused where passwords would travel in the clear, or nobody could reach the server."""
        if self.s3 and not re.fullmatch(r"s3://[^/]+(/.*)?", self.s3):
            raise Refused(f"--s3 {self.s3}: not of the form s3://BUCKET/PREFIX")
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise Refused("TLS needs both: --tls-certificate and --tls-key")
        if self.host in LOOPBACK:
            return
        if not self.tls_certificate and not self.tls_in_front:
            raise Refused(
                f"--host {self.host}: passwords would travel in the clear: give --tls-certificate and --tls-key, or "
                "--tls-in-front where a proxy of yours encrypts"
            )
        if not self.names:
            raise Refused(
                f"--host {self.host}: name by --name how clients reach it; requests to other names are refused"
            )

    @property
    def url(self) -> str:
        """As reached from this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(self.host, self.host)
        return f"{'https' if self.tls_certificate else 'http'}://{host}:{self.port}"

    @property
    def allowed_hosts(self) -> list[str]:
        """The Host headers that are answered; against DNS rebinding."""
        names = ["localhost", "127.0.0.1", "[::1]", *self.names]
        return [allowed for name in names for allowed in (name, f"{name}:{self.port}")]

    @property
    def allowed_origins(self) -> list[str]:
        """The pages that may call the server from a browser: its own."""
        return [self.url, *(f"https://{name}" for name in self.names)]


class Home:
    """A server's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.account = accounts.account()

    def part(self, name: str) -> Path:
        return self.path / name

    def make(self) -> None:
        """The folder, for the account alone. Raises Refused where the account can't reach it."""
        if self.path.is_dir() and any(self.path.iterdir()) and not (self.path / "running").exists():
            raise Refused(f"{self.path} is no server's folder and holds other files: name another by --folder")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.path, *(self.path / name for name in ("logs", "running", "mlflow"))):
            accounts.private_folder(folder, self.account)
        accounts.check_reach(self.account, self.path)

    def settings(self) -> Settings | None:
        """None where there is no server yet."""
        saved: dict[str, Any] | None = self._read("settings.json")
        if saved is None:
            return None
        for name in ("names", "seaweedfs_ports"):
            saved[name] = tuple(saved[name])
        return Settings(**saved)

    def save(self, settings: Settings) -> None:
        self.write("settings.json", json.dumps(dataclasses.asdict(settings), indent=1) + "\n")

    def secrets(self) -> dict[str, str]:
        """Passwords and keys by name, made where they are not there yet; those given by variables come first."""
        kept: dict[str, str] = self._read("secrets.json") or {}
        known = {name: secrets.token_urlsafe(32) for name in MADE} | kept
        if uri := os.environ.get(DATABASE_VARIABLE):
            known["database_uri"] = uri
        if known != kept:
            self.change_secrets(known)
        return known | {name: os.environ[variable] for name, variable in GIVEN.items() if os.environ.get(variable)}

    def change_secrets(self, values: dict[str, str]) -> None:
        """Keep these beside those that are there."""
        kept: dict[str, str] = self._read("secrets.json") or {}
        self.write("secrets.json", json.dumps(kept | values, indent=1) + "\n")

    def write(self, name: str, text: str) -> Path:
        """A file for the account alone, whole or not at all."""
        return accounts.private_file(self.path / name, text, self.account)

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text())
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise Refused(f"{self.path / name} is another account's: run this as root or as that account") from error
        except ValueError as error:
            raise Refused(f"{self.path / name} is damaged ({error}): restore it, or remove it") from error


def default_folder() -> Path:
    """TBD_SERVER_FOLDER, else /var/lib/tbd for root, else within the user's own data."""
    if given := os.environ.get(FOLDER_VARIABLE):
        return Path(given)
    if os.geteuid() == 0:
        return Path("/var/lib/tbd")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "tbd" / "server"


def free_ports(count: int) -> tuple[int, ...]:
    """Ports of the loopback that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return tuple(one.getsockname()[1] for one in sockets)
    finally:
        for one in sockets:
            one.close()
