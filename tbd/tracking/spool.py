"""The folder of one run (docs/events.md): its identity, what it was to do, and what the controller saw.

Everything in it but controller.jsonl is written whole or not at all.
"""

import contextlib
import datetime
import getpass
import json
import os
import platform
import re
import secrets
import socket
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import tbd
from tbd.measure import jsonl
from tbd.measure.jsonl import read_object
from tbd.tracking import process
from tbd.tracking.source import git_source
from tbd.tracking.writer import EventWriter, last_end

SCHEMA = 1
RESERVE_BYTES = 65536  # kept free for the end of a run on a full disk: a few hundred lines


class NoSpool(ValueError):
    """The folder is no spool that this version reads. The message says why."""


class Spool:
    """One run's folder at `path`; `run` is its run.json.

    kind "run" is one training run; "sweep" is the parent of several and has no worker.
    """

    def __init__(self, path: Path, run: dict[str, Any]):
        self.path = path
        self.run = run
        self._writer: EventWriter | None = None

    @classmethod
    def create(
        cls,
        root: Path,
        name: str,
        *,
        experiment: str,
        tags: Mapping[str, str] | None = None,
        kind: str = "run",
        parent: "Spool | None" = None,
        parent_spool_id: str | None = None,
        parent_run_id: str | None = None,
        tracking: Mapping[str, Any] | None = None,
    ) -> Self:
        """A new spool in a folder of its own under `root`, with run.json and the controller's header written.

        `tags` go to MLflow as they are. A run within a sweep names its `parent`, or, where that is another process's,
        the parent's spool id and MLflow run id as far as they are known. `tracking`: where its record is to go, the
        configuration's section, for whoever brings it up later. A run that stands alone takes over the MLflow
        run that `mlflow run` made for it (MLFLOW_RUN_ID). Raises OSError where `root` can't be written.
        """
        if parent is not None:
            parent_spool_id, parent_run_id = parent.id, parent.mlflow().get("run_id")
        inside = parent_spool_id is not None or parent_run_id is not None
        now = time.time()
        path = _new_folder(root, name, now)
        run = {
            "schema": SCHEMA,
            "spool_id": uuid.uuid4().hex,
            "kind": kind,
            "name": name,
            "experiment": experiment,
            "tags": dict(tags or {}),
            "wall_time": now,
            **_identity(),
            "user": _user(),
            "git": git_source(),
            "tbd": tbd.__version__,
            "parent_spool_id": parent_spool_id,
            "parent_run_id": parent_run_id,
            "tracking": dict(tracking or {}),
            "resume_run_id": None if inside else os.environ.get("MLFLOW_RUN_ID"),
        }
        spool = cls(path, run)
        spool._begin()
        return spool

    def resume(self) -> None:
        """Go on with a sweep in this process, after another one ended it, or was killed."""
        self.run.update(_identity())
        (self.path / "synced.json").unlink(missing_ok=True)
        self._begin()

    def _begin(self) -> None:
        """Write run.json and the header of this process's events."""
        (self.path / ".reserve").write_bytes(bytes(RESERVE_BYTES))
        write_json(self.path / "run.json", self.run)
        self.event(
            "header",
            schema=SCHEMA,
            wall_time=time.time(),
            host=self.run["host"],
            pid=self.run["pid"],
            boot_id=self.run["boot_id"],
            python=platform.python_version(),
            tbd=tbd.__version__,
            cores=process.usable_cores(),
        )

    @classmethod
    def open(cls, path: Path) -> Self:
        """The spool in the folder `path`. Raises NoSpool."""
        try:
            run = json.loads((path / "run.json").read_bytes())
            schema, _ = run["schema"], run["spool_id"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise NoSpool(f"{path} is not the folder of a run: its run.json can't be read ({error})") from error
        if schema != SCHEMA:
            raise NoSpool(f"{path}/run.json has schema {schema}; this version of tbd reads {SCHEMA}: use a newer one")
        return cls(path, run)

    @property
    def id(self) -> str:
        return str(self.run["spool_id"])

    @property
    def writer(self) -> EventWriter:
        """Where the controller's events go. Only the controller of the run, or who ends a dead one, may ask for it."""
        if self._writer is None:
            self._writer = EventWriter(self.path / "controller.jsonl")
        return self._writer

    def write_config(self, yaml: str) -> None:
        write_atomically(self.path / "config.yaml", yaml.encode())

    def write_request(self, request: Mapping[str, Any]) -> Path:
        """Write request.json (docs/request.md); gives its path."""
        write_json(self.path / "request.json", request)
        return self.path / "request.json"

    def tag(self, name: str, value: str) -> None:
        """Give the run one more tag, which MLflow gets when the spool is sent next."""
        self.run["tags"] = {**self.run.get("tags", {}), name: value}
        write_json(self.path / "run.json", self.run)

    def event(self, event: str, **fields: Any) -> None:
        """Append an event to controller.jsonl. Raises SpoolFull, once, where the disk is full."""
        self.writer.write(event, **fields)

    def end(self, status: str, cause: str = "", exit_code: int | None = None, **fields: Any) -> None:
        """Write the last event. Room for it was kept, even on a full disk."""
        with contextlib.suppress(FileNotFoundError):
            (self.path / ".reserve").unlink()
        self.event("end", status=status, cause=cause, exit_code=exit_code, **fields)
        self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    @property
    def events_path(self) -> Path:
        """What the worker wrote; of several ranks, rank 0."""
        of_rank = self.path / "ranks" / "0" / "events.jsonl"
        return of_rank if of_rank.exists() else self.path / "events.jsonl"

    def worker_events(self) -> list[dict[str, Any]]:
        return jsonl.read(self.events_path)[0]

    def controller_events(self) -> list[dict[str, Any]]:
        return jsonl.read(self.path / "controller.jsonl")[0]

    def ended(self) -> dict[str, Any] | None:
        """The controller's `end` event; None while the run is on, or where its controller was killed."""
        return last_end(self.path / "controller.jsonl")

    @property
    def pruned(self) -> bool:
        """Whether `python -m tbd.prune` took something out of it: its figures stand, and can't be computed again."""
        return (self.path / "pruned.json").exists()

    def mlflow(self) -> dict[str, Any]:
        """Where in MLflow this run is: {"tracking_uri", "experiment_id", "run_id"}; {} where it is nowhere yet."""
        return read_object(self.path / "mlflow.json")

    def write_mlflow(self, tracking_uri: str, experiment_id: str, run_id: str) -> None:
        """Note where in MLflow this run is; `tracking_uri` without credentials."""
        where = {"tracking_uri": tracking_uri, "experiment_id": experiment_id, "run_id": run_id}
        if self.mlflow() != where:
            write_json(self.path / "mlflow.json", where)


def spools(root: Path) -> list[Spool]:
    """Every spool right under `root`, sweeps before what is in them, oldest first."""
    found = []
    for file in sorted(root.glob("*/run.json")):
        with contextlib.suppress(NoSpool):
            found.append(Spool.open(file.parent))
    return sorted(found, key=lambda spool: (spool.run.get("kind") != "sweep", spool.run.get("wall_time", 0.0)))


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, and only return when it is on the disk."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name too
    finally:
        os.close(folder)


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, (json.dumps(value, indent=1) + "\n").encode())


def _new_folder(root: Path, name: str, now: float) -> Path:
    """A folder such as 20261130-061500-resnet50-pytorch-3f2a1c (UTC), made here and now."""
    stamp = datetime.datetime.fromtimestamp(now, datetime.UTC).strftime("%Y%m%d-%H%M%S")
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")[:80] or "run"
    root.mkdir(parents=True, exist_ok=True)
    while True:
        path = root.absolute() / f"{stamp}-{plain}-{secrets.token_hex(3)}"
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path


def _identity() -> dict[str, Any]:
    """What this process is known by: its id and start time, within one boot and one PID namespace of one host."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "start_ticks": process.start_ticks(os.getpid()),
        "boot_id": process.boot_id(),
        "pid_namespace": process.pid_namespace(),
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id without an entry in the password file
        return str(os.getuid())
