"""Brings MLflow up to date from a spool: at any time, as often as one likes, with the same outcome.

The spool is the truth. A run is found again by its tag tbd.spool_id, metrics keep their original times, and everything
here either is already there or is added; the terminal status comes last, so that what broke off in the middle shows.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from tbd.measure.figures import Figures, series_so_far
from tbd.measure.jsonl import read_object
from tbd.tracking import access, artifacts, derived, finder, record, sender
from tbd.tracking.redaction import redact, redact_object, secrets_of, without_credentials
from tbd.tracking.spool import Spool, write_json
from tbd.tracking.store import (
    LOCK_TIMEOUT_S,
    PATIENT_RETRIES,
    PATIENT_S,
    Settings,
    opened,
    patience,
    tracking_uri,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_deriving = threading.Lock()  # pictures are drawn by matplotlib, for one thread at a time
STREAM_S = 20.0  # no batch begins later than this after a pass: the next one waits


@dataclass(frozen=True)
class Outcome:
    """How far MLflow has got with a run.

    state: "synced" (all of it is there), "running" (it has no end yet; what is known is there), "offline" (by wish),
    "busy" (another process is sending it), or "pending" (`reason` says why; `python -m tbd.sync` brings it up later).
    `reached`: whether the store answered.
    """

    state: str
    reason: str = ""
    reached: bool = True
    tracking_uri: str = ""
    experiment_id: str = ""
    run_id: str = ""


def open_run(spool: Spool, settings: Settings) -> Outcome:
    """Make the run visible in MLflow as RUNNING, with its params and tags. Never raises: the run goes on without."""
    return _guarded(spool, settings, _describe)


def stream(spool: Spool, settings: Settings) -> Outcome:
    """Bring the series that a run has so far into MLflow, for a short time at most. Never raises."""
    return _guarded(spool, settings, _stream, retries=0, timeout_s=10)


def follow(spool: Spool, settings: Settings, figures: Figures | None = None, turn_s: float = LOCK_TIMEOUT_S) -> Outcome:
    """Bring everything of the spool into MLflow, and the terminal status where the run has ended. Never raises.

    `figures`: what derived.write gave, where that was just called; None: compute them here. `turn_s`: how long to wait
    for another process of this machine that is at it.
    """
    return _guarded(spool, settings, lambda client, run, spool: _follow(client, run, spool, figures), turn_s=turn_s)


def waits(spool: Spool, settings: Settings) -> bool:
    """Whether the spool has something that the store has not been sent yet."""
    if spool.pruned:
        return False
    sent = read_object(spool.path / "synced.json")
    store = without_credentials(tracking_uri(settings, spool))
    return sent.get("tracking_uri") != store or sent.get("files") != artifacts.files(spool)


def _guarded(
    spool: Spool,
    settings: Settings,
    work: "Callable[[MlflowClient, Run, Spool], bool]",
    *,
    retries: int = PATIENT_RETRIES,
    timeout_s: int = PATIENT_S,
    turn_s: float = LOCK_TIMEOUT_S,
) -> Outcome:
    """Do `work` on the spool's run; what goes wrong becomes the outcome's reason."""
    if settings.offline:
        return Outcome("offline")
    from filelock import FileLock, Timeout

    reached, store = False, ""
    lock = FileLock(spool.path / ".follow.lock", timeout=turn_s)
    try:
        uri = tracking_uri(settings, spool)
        store = without_credentials(uri)
        with (
            lock,
            access.environment(settings.variables()),
            opened(uri) as client,
        ):
            with patience(retries=min(retries, 1), timeout_s=15):  # the first calls tell whether the server is there
                run = finder.find(client, spool, store)
            reached = True
            with patience(retries, timeout_s):
                run = run or finder.create(client, spool, settings)
                at = store, str(run.info.experiment_id), str(run.info.run_id)
                spool.write_mlflow(*at)
                complete = work(client, run, spool)
        return Outcome("synced" if complete else "running", "", True, *at)
    except Timeout as error:
        return Outcome("busy", str(error), False, store)
    except Exception as error:  # MLflow, SQLAlchemy, boto3 and requests raise all sorts; none of it may end the run
        reason = " ".join(str(error).split()) or type(error).__name__
        reason = reason if reached else f"MLflow at {store} can't take the run now: {reason}"
        return Outcome("pending", record.cut(redact(reason, secrets_of(os.environ)), 500), reached, store)


def _describe(client: "MlflowClient", run: "Run", spool: Spool) -> bool:
    """Send params and tags. Gives whether the run has ended."""
    end = spool.ended()
    secrets = secrets_of(os.environ)
    request = read_object(spool.path / "request.json")
    tags = record.tags(spool.run, request, spool.worker_events(), end)
    parent = finder.parent(client, spool)
    if parent is not None:
        tags[finder.PARENT] = str(parent.info.run_id)
    config = spool.path / "config.yaml"
    if config.exists():
        composed = yaml.safe_load(config.read_text()) or {}
        tags.update(sender.params(client, run, record.params(redact_object(composed, secrets))))
    sender.tags(client, run, redact_object(tags, secrets))
    return end is not None


def _stream(client: "MlflowClient", run: "Run", spool: Spool) -> bool:
    """Send the series so far, of which none will change any more. Gives that this is not all."""
    until = time.monotonic() + STREAM_S
    kept, _ = record.finite(record.series(series_so_far(spool.path), goes_on=True))
    sender.points(client, run.info.run_id, kept, until)
    return False


def _follow(client: "MlflowClient", run: "Run", spool: Spool, figures: Figures | None) -> bool:
    """Send all there is. Gives whether that is all there will be."""
    if not _describe(client, run, spool):
        return False
    end = spool.ended() or {}
    ended = record.clock(spool.controller_events(), float(spool.run["wall_time"])).at(float(end["t"]))
    if spool.run.get("kind") == "sweep":
        _adopt(client, run, spool)
    else:
        if figures is None:
            with _deriving:
                figures = derived.write(spool)
        sender.measured(client, run, spool, figures, ended)
    sent = artifacts.send(client, run.info.run_id, spool, spool.mlflow()["tracking_uri"])
    client.set_terminated(run.info.run_id, record.terminal_status(str(end.get("status"))), sender.ms(ended))
    write_json(spool.path / "synced.json", sent)
    return True


def _adopt(client: "MlflowClient", run: "Run", spool: Spool) -> None:
    """Tie the sweep's runs to it that got here before it."""
    orphans = client.search_runs([run.info.experiment_id], f"tags.`tbd.parent_spool_id` = '{spool.id}'")
    for orphan in orphans:
        if orphan.data.tags.get(finder.PARENT) != run.info.run_id:
            client.set_tag(orphan.info.run_id, finder.PARENT, run.info.run_id)
