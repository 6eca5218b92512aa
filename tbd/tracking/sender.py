"""Sends what a run has to MLflow, in batches; what is there already is not sent, or does no harm when it is sent again.

A metric point is one row of the store, named by all that it is (key, time, step, value): sent twice, it is there once.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tbd.measure.figures import Figures, Point
from tbd.tracking import record
from tbd.tracking.redaction import redact_object, secrets_of
from tbd.tracking.spool import Spool
from tbd.tracking.store import too_large

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PARAMS_A_BATCH = 100
METRICS_A_BATCH = 1000
OLDEST_PARAM_LIMIT = 250  # of servers before MLflow 1.28


def in_batches(send: Callable[[Any], object], items: Sequence[Any], size: int, until: float | None = None) -> bool:
    """Send all items, `size` at a time, and fewer where that many are refused as too large.

    Gives whether all were sent: no batch begins after `until` (monotonic seconds).
    """
    begin = 0
    while begin < len(items):
        if until is not None and time.monotonic() >= until:
            return False
        batch = items[begin : begin + size]
        try:
            send(batch)
        except Exception as error:
            if not too_large(error) or len(batch) == 1:
                raise
            size = len(batch) // 2
            continue
        begin += len(batch)
    return True


def points(
    client: "MlflowClient", run_id: str, found: Mapping[str, Iterable[Point]], until: float | None = None
) -> bool:
    """Send metric points, none that is not finite; gives whether all were sent before `until`."""
    from mlflow.entities import Metric

    metrics = [Metric(key, p.value, ms(p.wall_time), p.step) for key, series in found.items() for p in series]
    return in_batches(
        lambda batch: client.log_batch(run_id, metrics=batch, synchronous=True), metrics, METRICS_A_BATCH, until
    )


def measured(client: "MlflowClient", run: "Run", spool: Spool, figures: Figures, ended: float) -> None:
    """Send figures, at the time of the run's end (Unix seconds), series and the data set."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    scalars = _revised(client, run, record.scalars(figures.metrics, ended))
    kept, skipped = record.finite(scalars | record.series(figures.series))
    points(client, run.info.run_id, kept)
    notes = {
        **figures.tags,
        "tbd.not_finite": ", ".join(f"{key} ({count})" for key, count in skipped.items()),
        "tbd.absent": "; ".join(f"{name}: {reason}" for name, reason in figures.absent.items()),
        "tbd.warnings": "; ".join(figures.warnings),
    }
    tags(client, run, redact_object(notes, secrets_of(os.environ)))
    described = record.dataset(spool.worker_events())
    if described:
        described = redact_object(described, secrets_of(os.environ))
        context = [InputTag("mlflow.data.context", "training")]
        client.log_inputs(run.info.run_id, [DatasetInput(Dataset(**described), context)])


def ms(wall_time: float) -> int:
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


def params(client: "MlflowClient", run: "Run", wanted: Mapping[str, str]) -> dict[str, str]:
    """Send the params that aren't there yet; gives tags that name what could not be sent as it is."""
    from mlflow.entities import Param
    from mlflow.exceptions import MlflowException

    there, shortened = run.data.params, []
    kept = [key for key, value in wanted.items() if there.get(key, value) != value]  # MLflow's params are write-once
    missing = [Param(key, value) for key, value in wanted.items() if key not in there]

    def send(batch: list[Param]) -> None:
        try:
            client.log_batch(run.info.run_id, params=batch, synchronous=True)
        except MlflowException as error:
            if error.error_code != "INVALID_PARAMETER_VALUE":
                raise
            for param in batch:
                if len(param.value) > OLDEST_PARAM_LIMIT:
                    shortened.append(param.key)
                client.log_param(run.info.run_id, param.key, record.cut(param.value, OLDEST_PARAM_LIMIT))

    in_batches(send, missing, PARAMS_A_BATCH)
    notes = {"tbd.params_kept": ", ".join(kept), "tbd.params_shortened": ", ".join(shortened)}
    return {key: record.cut(value, record.MAX_TAG) for key, value in notes.items() if value}


def tags(client: "MlflowClient", run: "Run", wanted: Mapping[str, str]) -> None:
    """Send the tags that aren't there with the same value; empty ones are none."""
    from mlflow.entities import RunTag

    fresh = [
        RunTag(key, record.cut(value, record.MAX_TAG))
        for key, value in wanted.items()
        if value and run.data.tags.get(key) != value
    ]
    in_batches(lambda batch: client.log_batch(run.info.run_id, tags=batch, synchronous=True), fresh, PARAMS_A_BATCH)
