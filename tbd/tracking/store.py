"""The MLflow store that a run goes to: which one, reached without long waits, opened by one process at a time."""

import contextlib
import hashlib
import logging
import os
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tbd.tracking import access
from tbd.tracking.redaction import HIDDEN, without_credentials
from tbd.tracking.spool import Spool

if TYPE_CHECKING:
    from mlflow import MlflowClient

LOCK_TIMEOUT_S = 120.0
PROBE_TIMEOUT_S = 3.0
PATIENT_RETRIES, PATIENT_S = 4, 60  # with a server that has answered: how often again, and how long for an answer
PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433, "http": 80, "https": 443}


@dataclass(frozen=True)
class Settings:
    """Where the record goes, and as whom.

    `uri`: as MLFLOW_TRACKING_URI; None: what MLflow itself would take. `offline`: leave the run in its spool.
    `credentials`: a credentials file (tbd/tracking/access.py). `s3_bucket`: "bucket" or "bucket/prefix" that files go
    to directly, by the keys of `s3_profile`; None: they go through the server, which alone has keys.
    """

    uri: str | None = None
    offline: bool = False
    credentials: str | None = None
    s3_bucket: str | None = None
    s3_endpoint: str | None = None
    s3_region: str | None = None
    s3_profile: str | None = None

    @classmethod
    def of(cls, tracking: Mapping[str, Any]) -> Self:
        """From the section `tracking` of a configuration."""
        names = ("uri", "credentials", "s3_bucket", "s3_endpoint", "s3_region", "s3_profile")
        return cls(offline=tracking["mode"] == "offline", **{name: tracking.get(name) for name in names})

    @classmethod
    def of_spool(cls, spool: Spool) -> Self:
        """As the run was started with, to bring it up later: offline ones too."""
        return cls.of({**(spool.run.get("tracking") or {}), "uri": None, "mode": "mlflow"})

    def variables(self) -> dict[str, str]:
        """What MLflow and boto3 are to find in the environment while they work. Raises access.BadCredentials."""
        s3 = {
            "MLFLOW_S3_ENDPOINT_URL": self.s3_endpoint,
            "AWS_DEFAULT_REGION": self.s3_region,
            "AWS_PROFILE": self.s3_profile,
            # MLflow would call a trace.json.gz "gzip-encoded JSON", which its own client then unpacks and saves as .gz
            "MLFLOW_S3_UPLOAD_EXTRA_ARGS": '{"ContentEncoding": "identity"}' if self.s3_bucket else None,
        }
        return {**access.variables(self.credentials), **{name: value for name, value in s3.items() if value}}


class Unreachable(Exception):
    """The store can't take the run now. The message says why."""


def tracking_uri(settings: Settings, spool: Spool | None = None) -> str:
    """The store's URI, credentials included, SQLite's path absolute.

    First of: the settings, MLflow's own (MLFLOW_TRACKING_URI), where the run already is, where it was to go when it
    began, MLflow's default, which is sqlite:///mlflow.db in the working folder.
    """
    import mlflow

    uri = settings.uri
    chosen: bool = mlflow.is_tracking_uri_set()
    if uri is None and not chosen and spool is not None:
        meant = (spool.run.get("tracking") or {}).get("uri")
        known = str(spool.mlflow().get("tracking_uri") or meant or "")
        uri = known if known and HIDDEN not in known else None
    if uri is None:
        uri = mlflow.get_tracking_uri()
        if not chosen:
            uri = urllib.parse.unquote(uri)  # MLflow quotes its default's path, and then takes it as it stands
    return _absolute(uri)


def _absolute(uri: str) -> str:
    database = sqlite_file(uri)
    return uri if database is None else uri.replace(f":///{database}", f":///{database.absolute()}", 1)


def sqlite_file(uri: str) -> Path | None:
    """The database's file where `uri` is SQLite's and not in memory."""
    scheme, _, rest = uri.partition(":///")
    path = rest.partition("?")[0]
    return Path(path) if scheme.partition("+")[0] == "sqlite" and path not in ("", ":memory:") else None


@contextlib.contextmanager
def opened(uri: str) -> Iterator["MlflowClient"]:
    """A client of the store, whose first use creates or migrates it.

    SQLite takes one writer at a time, and MLflow's first initialisation none beside it, so there we take turns.
    Raises Unreachable, or whatever MLflow raises.
    """
    from mlflow import MlflowClient

    for name in ("mlflow.store.db.utils", "alembic"):  # they tell each step of a migration
        logging.getLogger(name).setLevel(logging.WARNING)
    _probe(uri)
    with _turn(uri):
        yield MlflowClient(tracking_uri=uri)


def patience(retries: int, timeout_s: int) -> contextlib.AbstractContextManager[None]:
    """How long MLflow's HTTP calls try within; what the user has set stays.

    MLflow's own 7 retries of 120 s block for minutes where the server is away. An answer of 408, 429, 500, 502, 503 or
    504 is waited for as the server asks (Retry-After), else 0, 2, 4, ... s; to each wait comes up to a second by
    chance, so that clients that failed together do not come back together.
    """
    return access.environment(
        {
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": str(retries),
            "MLFLOW_HTTP_REQUEST_TIMEOUT": str(timeout_s),
            "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
            "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "1.0",
            "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # what to print is the command's own business
        }
    )


def chosen_uri(uri: str | None) -> str | None:
    """The store that a run begins with: `uri`, else MLflow's variable, without credentials; None: MLflow's default."""
    chosen = uri or os.environ.get("MLFLOW_TRACKING_URI")
    return without_credentials(_absolute(chosen)) if chosen else None


def experiment_id(client: "MlflowClient", name: str, bucket: str | None = None) -> str:
    """The id of the experiment `name`, made where it isn't there, with its files in `bucket` (None: as the server has
    it). Raises Unreachable where it has been deleted, or has its files elsewhere."""
    from mlflow.exceptions import MlflowException

    found: Any = client.get_experiment_by_name(name)
    location = f"s3://{bucket.strip('/')}/{urllib.parse.quote(name, safe='')}" if bucket else None
    if found is None:
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = client.get_experiment_by_name(name)  # another process was faster
    if found.lifecycle_stage != "active":
        raise Unreachable(
            f"the experiment {name!r} is deleted in MLflow: `mlflow experiments restore -x {found.experiment_id}` or "
            "name another one"
        )
    if location and not str(found.artifact_location).startswith(f"s3://{bucket}".rstrip("/") + "/"):
        raise Unreachable(
            f"the experiment {name!r} has its files at {without_credentials(found.artifact_location)}, not in the "
            f"bucket {bucket}: leave tracking.s3_bucket out, or name another tracking.experiment"
        )
    return str(found.experiment_id)


def too_large(error: Exception) -> bool:
    """Whether a server, or a proxy before it, refused a request for its size (HTTP 413)."""
    response = getattr(error, "response", None)
    return getattr(response, "status_code", None) == 413 or "error code 413" in str(error)


def _probe(uri: str) -> None:
    """Raise Unreachable where nobody takes a connection: MLflow would try for minutes. A proxy tells by itself."""
    parts = urllib.parse.urlsplit(uri)
    port = PORTS.get(parts.scheme.partition("+")[0])
    if port is None or not parts.hostname:
        return
    if {parts.scheme, "all"} & set(urllib.request.getproxies()) and not urllib.request.proxy_bypass(parts.hostname):
        return
    try:
        socket.create_connection((parts.hostname, parts.port or port), PROBE_TIMEOUT_S).close()
    except OSError as error:
        raise Unreachable(f"no answer ({error})") from error


@contextlib.contextmanager
def _turn(uri: str) -> Iterator[None]:
    """Wait for our turn at the store, where only one process at a time may have it."""
    database = sqlite_file(uri)
    if database is None:
        yield
        return
    from filelock import FileLock, Timeout

    from tbd.launch.environments import home

    # not beside the database, whose folder is the user's, nor where others could hold it
    name = hashlib.sha256(str(database.resolve()).encode()).hexdigest()[:16]
    path = home() / "locks" / f"mlflow-{name}.lock"
    lock = FileLock(path, timeout=LOCK_TIMEOUT_S)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise Unreachable(f"{database} was in use by another run for {LOCK_TIMEOUT_S:g} s") from error
    except OSError as error:
        raise Unreachable(f"{path.parent}: {error.strerror}; TBD_HOME names another folder for locks") from error
    try:
        yield
    finally:
        lock.release()
