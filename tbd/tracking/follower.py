"""Brings MLflow up to date from a spool: at any time, as often as one likes, with the same outcome.

The spool is the truth. A run is found again by its tag tbd.spool_id, metrics keep their original times, and everything
here either is already there or is added; the terminal status comes last, so that what broke off in the middle shows.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tbd.measure.figures import Figures, Point
from tbd.measure.jsonl import read_object
from tbd.tracking import artifacts, derived, record
from tbd.tracking.redaction import redact, redact_object, secrets_of, without_credentials
from tbd.tracking.spool import Spool, write_json
from tbd.tracking.store import LOCK_TIMEOUT_S, Settings, Unreachable, experiment_id, opened, patience, tracking_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PARAMS_A_BATCH = 100
METRICS_A_BATCH = 1000
OLDEST_PARAM_LIMIT = 250  # of servers before MLflow 1.28


@dataclass(frozen=True)
class Outcome:
    """How far MLflow has got with a run.

    state: "synced" (all of it is there), "running" (it has no end yet; what is known is there), "offline" (by wish), or
    "pending" (`reason` says why; `python -m tbd.sync` brings it up later). `reached`: whether the store answered.
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


def follow(spool: Spool, settings: Settings, figures: Figures | None = None) -> Outcome:
    """Bring everything of the spool into MLflow, and the terminal status where the run has ended. Never raises.

    `figures`: what derived.write gave, where that was just called; None: compute them here.
    """
    return _guarded(spool, settings, lambda client, run, spool: _follow(client, run, spool, figures))


def waits(spool: Spool, settings: Settings) -> bool:
    """Whether the spool has something that the store has not been sent yet."""
    sent = read_object(spool.path / "synced.json")
    store = without_credentials(tracking_uri(settings, spool))
    return sent.get("tracking_uri") != store or sent.get("files") != artifacts.files(spool)


def _guarded(spool: Spool, settings: Settings, work: "Callable[[MlflowClient, Run, Spool], bool]") -> Outcome:
    """Do `work` on the spool's run; what goes wrong becomes the outcome's reason."""
    if settings.offline:
        return Outcome("offline")
    reached, store = False, ""
    try:
        from filelock import FileLock

        uri = tracking_uri(settings, spool)
        store = without_credentials(uri)
        with FileLock(spool.path / ".follow.lock", timeout=LOCK_TIMEOUT_S), opened(uri) as client:
            with patience(retries=1, timeout_s=5):  # the first calls tell whether the server is there
                run = _find(client, spool, store)
            reached = True
            with patience(retries=2, timeout_s=30):
                run = run or _create(client, spool)
                at = store, str(run.info.experiment_id), str(run.info.run_id)
                spool.write_mlflow(*at)
                complete = work(client, run, spool)
        return Outcome("synced" if complete else "running", "", True, *at)
    except Exception as error:  # MLflow, SQLAlchemy, boto3 and requests raise all sorts; none of it may end the run
        reason = " ".join(str(error).split()) or type(error).__name__
        reason = reason if reached else f"MLflow at {store} can't take the run now: {reason}"
        return Outcome("pending", record.cut(redact(reason, secrets_of(os.environ)), 500), reached, store)


def _find(client: "MlflowClient", spool: Spool, public_uri: str) -> "Run | None":
    """The spool's run where the store has it; also the one that `mlflow run` made beforehand."""
    known = spool.mlflow()
    candidates = [known.get("run_id")] if known.get("tracking_uri") == public_uri else []
    for run_id in filter(None, [*candidates, spool.run.get("resume_run_id")]):
        run = _get(client, str(run_id))
        if run is not None and run.data.tags.get("tbd.spool_id", spool.id) == spool.id:
            return run
    parent = _parent(client, spool)
    if parent is not None:
        experiments = [str(parent.info.experiment_id)]
    else:
        experiment = client.get_experiment_by_name(str(spool.run["experiment"]))
        experiments = [] if experiment is None else [str(experiment.experiment_id)]
    return _tagged(client, experiments, "tbd.spool_id", spool.id)


def _create(client: "MlflowClient", spool: Spool) -> "Run":
    """A new run with the original start time; beside its parent, since MLflow's UI nests within one experiment only."""
    parent = _parent(client, spool)
    experiment = str(parent.info.experiment_id) if parent else experiment_id(client, str(spool.run["experiment"]))
    tags = {"tbd.spool_id": spool.id}
    start = round(float(spool.run["wall_time"]) * 1000)
    return client.create_run(experiment, start_time=start, tags=tags, run_name=str(spool.run["name"]))


def _parent(client: "MlflowClient", spool: Spool) -> "Run | None":
    """The MLflow run of the sweep that the spool belongs to, where there is one and it is there."""
    run_id, spool_id = spool.run.get("parent_run_id"), spool.run.get("parent_spool_id")
    run = _get(client, str(run_id)) if run_id else None
    if run is None and spool_id:
        experiment = client.get_experiment_by_name(str(spool.run["experiment"]))
        run = _tagged(client, [str(experiment.experiment_id)] if experiment else [], "tbd.spool_id", str(spool_id))
    return run


def _get(client: "MlflowClient", run_id: str) -> "Run | None":
    """The run, or None where the store has none of that id. Raises Unreachable where it has been deleted."""
    from mlflow.exceptions import MlflowException

    try:
        run = client.get_run(run_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None
    if run.info.lifecycle_stage != "active":
        raise Unreachable(f"the run is deleted in MLflow: `mlflow runs restore --run-id {run_id}` or leave it")
    return run


def _tagged(client: "MlflowClient", experiments: list[str], tag: str, value: str) -> "Run | None":
    runs = client.search_runs(experiments, f"tags.`{tag}` = '{value}'", max_results=1) if experiments else []
    return runs[0] if runs else None


def _describe(client: "MlflowClient", run: "Run", spool: Spool) -> bool:
    """Send params and tags. Gives whether the run has ended."""
    end = spool.ended()
    secrets = secrets_of(os.environ)
    request = read_object(spool.path / "request.json")
    tags = record.tags(spool.run, request, spool.worker_events(), end)
    parent = _parent(client, spool)
    if parent is not None:
        tags["mlflow.parentRunId"] = str(parent.info.run_id)
    config = spool.path / "config.yaml"
    if config.exists():
        composed = yaml.safe_load(config.read_text()) or {}
        tags.update(_send_params(client, run, record.params(redact_object(composed, secrets))))
    _send_tags(client, run, redact_object(tags, secrets))
    return end is not None


def _follow(client: "MlflowClient", run: "Run", spool: Spool, figures: Figures | None) -> bool:
    """Send all there is. Gives whether that is all there will be."""
    if not _describe(client, run, spool):
        return False
    end = spool.ended() or {}
    ended = record.clock(spool.controller_events(), float(spool.run["wall_time"])).at(float(end["t"]))
    if spool.run.get("kind") == "sweep":
        _adopt(client, run, spool)
    else:
        _send_measured(client, run, spool, figures or derived.write(spool), ended)
    sent = _send_artifacts(client, run, spool)
    client.set_terminated(run.info.run_id, record.terminal_status(str(end.get("status"))), _ms(ended))
    write_json(spool.path / "synced.json", sent)
    return True


def _adopt(client: "MlflowClient", run: "Run", spool: Spool) -> None:
    """Tie the sweep's runs to it that got here before it."""
    orphans = client.search_runs([run.info.experiment_id], f"tags.`tbd.parent_spool_id` = '{spool.id}'")
    for orphan in orphans:
        if orphan.data.tags.get("mlflow.parentRunId") != run.info.run_id:
            client.set_tag(orphan.info.run_id, "mlflow.parentRunId", run.info.run_id)


def _send_measured(client: "MlflowClient", run: "Run", spool: Spool, figures: Figures, ended: float) -> None:
    """Figures, at the time of the run's end (Unix seconds), series and the data set."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, Metric

    scalars = _revised(client, run, record.scalars(figures.metrics, ended))
    kept, skipped = record.finite(scalars | record.series(figures.series))
    points = [Metric(key, p.value, _ms(p.wall_time), p.step) for key, found in kept.items() for p in found]
    for begin in range(0, len(points), METRICS_A_BATCH):
        client.log_batch(run.info.run_id, metrics=points[begin : begin + METRICS_A_BATCH], synchronous=True)
    notes = {
        **figures.tags,
        "tbd.not_finite": ", ".join(f"{key} ({count})" for key, count in skipped.items()),
        "tbd.absent": "; ".join(f"{name}: {reason}" for name, reason in figures.absent.items()),
        "tbd.warnings": "; ".join(figures.warnings),
    }
    _send_tags(client, run, redact_object(notes, secrets_of(os.environ)))
    described = record.dataset(spool.worker_events())
    if described:
        described = redact_object(described, secrets_of(os.environ))
        context = [InputTag("mlflow.data.context", "training")]
        client.log_inputs(run.info.run_id, [DatasetInput(Dataset(**described), context)])


def _ms(wall_time: float) -> int:
    """MLflow's times are Unix milliseconds."""
    return round(wall_time * 1000)


def _revised(client: "MlflowClient", run: "Run", scalars: dict[str, list[Point]]) -> dict[str, list[Point]]:
    """`scalars` without those that are there, and those that were there with another value at the next step.

    MLflow shows the value of the highest step: figures computed again by a later version must not hide behind the old.
    """
    there = run.data.metrics
    fresh = {}
    for key, (point,) in scalars.items():
        if key not in there:
            fresh[key] = [point]
        elif there[key] != point.value:
            last = max(metric.step for metric in client.get_metric_history(run.info.run_id, key))
            fresh[key] = [point._replace(step=last + 1)]
    return fresh


def _send_params(client: "MlflowClient", run: "Run", params: Mapping[str, str]) -> dict[str, str]:
    """Send the params that aren't there yet; gives tags that name what could not be sent as it is."""
    from mlflow.entities import Param
    from mlflow.exceptions import MlflowException

    there = run.data.params
    kept = [key for key, value in params.items() if there.get(key, value) != value]  # MLflow's params are write-once
    missing = [Param(key, value) for key, value in params.items() if key not in there]
    shortened = []
    for begin in range(0, len(missing), PARAMS_A_BATCH):
        batch = missing[begin : begin + PARAMS_A_BATCH]
        try:
            client.log_batch(run.info.run_id, params=batch, synchronous=True)
        except MlflowException as error:
            if error.error_code != "INVALID_PARAMETER_VALUE":
                raise
            for param in batch:
                if len(param.value) > OLDEST_PARAM_LIMIT:
                    shortened.append(param.key)
                client.log_param(run.info.run_id, param.key, record.cut(param.value, OLDEST_PARAM_LIMIT))
    notes = {"tbd.params_kept": ", ".join(kept), "tbd.params_shortened": ", ".join(shortened)}
    return {key: record.cut(value, record.MAX_TAG) for key, value in notes.items() if value}


def _send_tags(client: "MlflowClient", run: "Run", tags: Mapping[str, str]) -> None:
    """Send the tags that aren't there with the same value; empty ones are none."""
    from mlflow.entities import RunTag

    fresh = [
        RunTag(key, record.cut(value, record.MAX_TAG))
        for key, value in tags.items()
        if value and run.data.tags.get(key) != value
    ]
    for begin in range(0, len(fresh), PARAMS_A_BATCH):
        client.log_batch(run.info.run_id, tags=fresh[begin : begin + PARAMS_A_BATCH], synchronous=True)


def _send_artifacts(client: "MlflowClient", run: "Run", spool: Spool) -> dict[str, Any]:
    """Send the files that changed since they were last sent to this run. Gives what synced.json is to hold."""
    note = read_object(spool.path / "synced.json")
    where = {"tracking_uri": spool.mlflow()["tracking_uri"], "run_id": run.info.run_id}
    sent = note["files"] if {key: note.get(key) for key in where} == where else {}
    present = artifacts.files(spool)
    for name, state in present.items():
        if sent.get(name) != state:
            folder = Path(name).parent.as_posix()
            with artifacts.without_credentials(spool.path / name) as file:
                client.log_artifact(run.info.run_id, str(file), None if folder == "." else folder)
    return {**where, "files": present}
