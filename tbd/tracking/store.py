"""The MLflow store that a run goes to: which one, reached without long waits, opened by one process at a time."""

import contextlib
import hashlib
import logging
import os
import socket
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tbd.tracking.redaction import HIDDEN
from tbd.tracking.spool import Spool

if TYPE_CHECKING:
    from mlflow import MlflowClient

LOCK_TIMEOUT_S = 120.0
PROBE_TIMEOUT_S = 3.0
PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}


@dataclass(frozen=True)
class Settings:
    """`uri`: as MLFLOW_TRACKING_URI; None: what MLflow itself would take. `offline`: leave the run in its spool."""

    uri: str | None = None
    offline: bool = False


class Unreachable(Exception):
    """The store can't take the run now. The message says why."""


def tracking_uri(settings: Settings, spool: Spool | None = None) -> str:
    """The store's URI, credentials included, SQLite's path absolute.

    First of: the settings, MLflow's own (MLFLOW_TRACKING_URI), where the run already is, MLflow's default, which is
    sqlite:///mlflow.db in the working folder.
    """
    import mlflow

    uri = settings.uri
    chosen: bool = mlflow.is_tracking_uri_set()
    if uri is None and not chosen and spool is not None:
        known = str(spool.mlflow().get("tracking_uri", ""))
        uri = known if known and HIDDEN not in known else None
    if uri is None:
        uri = mlflow.get_tracking_uri()
        if not chosen:
            uri = urllib.parse.unquote(uri)  # MLflow quotes its default's path, and then takes it as it stands
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


@contextlib.contextmanager
def patience(retries: int, timeout_s: int) -> Iterator[None]:
    """How long MLflow's HTTP calls try within; what the user has set stays.

    MLflow's own 7 retries of 120 s block for minutes where the server is away.
    """
    wanted = {
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": str(retries),
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(timeout_s),
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # what to print is the command's own business
    }
    ours = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def experiment_id(client: "MlflowClient", name: str) -> str:
    """The id of the experiment `name`, made where it isn't there. Raises Unreachable where it has been deleted."""
    from mlflow.exceptions import MlflowException

    found: Any = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = client.get_experiment_by_name(name)  # another process was faster
    if found.lifecycle_stage != "active":
        raise Unreachable(
            f"the experiment {name!r} is deleted in MLflow: `mlflow experiments restore -x {found.experiment_id}` or "
            "name another one"
        )
    return str(found.experiment_id)


def _probe(uri: str) -> None:
    """Raise Unreachable where a database server doesn't answer: MLflow would try for two minutes."""
    parts = urllib.parse.urlsplit(uri)
    port = PORTS.get(parts.scheme.partition("+")[0])
    if port is None or not parts.hostname:
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
