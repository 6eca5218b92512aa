"""Finds the MLflow run of a spool, or makes it: one, whoever else is doing the same at the same time."""

import contextlib
from typing import TYPE_CHECKING

from tbd.tracking.spool import Spool
from tbd.tracking.store import Settings, Unreachable, experiment_id

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

SPOOL_ID = "tbd.spool_id"
PARENT = "mlflow.parentRunId"


def find(client: "MlflowClient", spool: Spool, public_uri: str) -> "Run | None":
    """The spool's run where the store has it; also the one that `mlflow run` made beforehand."""
    known = spool.mlflow()
    candidates = [known.get("run_id")] if known.get("tracking_uri") == public_uri else []
    for run_id in filter(None, [*candidates, spool.run.get("resume_run_id")]):
        run = get(client, str(run_id))
        if run is None or run.data.tags.get(SPOOL_ID, spool.id) != spool.id:
            continue
        if run.info.lifecycle_stage != "active":
            raise Unreachable(
                f"the run is deleted in MLflow: `mlflow runs restore --run-id {run.info.run_id}` or leave it"
            )
        return run
    above = parent(client, spool)
    if above is not None:
        experiments = [str(above.info.experiment_id)]
    else:
        experiment = client.get_experiment_by_name(str(spool.run["experiment"]))
        experiments = [] if experiment is None else [str(experiment.experiment_id)]
    return next(iter(tagged(client, experiments, spool.id)), None)


def create(client: "MlflowClient", spool: Spool, settings: Settings) -> "Run":
    """The spool's run, made with the original start time; beside its parent, since MLflow's UI nests within one
    experiment only.

    MLflow has no way to make a run only where there is none, so two machines that bring up copies of one spool may make
    one each. Each looks again after it has made its own; whoever looks last sees all of them, and all who look agree
    that the one with the smallest id stays. So when all have looked, there is one.
    """
    above = parent(client, spool)
    if above is not None:
        experiment = str(above.info.experiment_id)
    else:
        experiment = experiment_id(client, str(spool.run["experiment"]), settings.s3_bucket)
    start = round(float(spool.run["wall_time"]) * 1000)
    name = str(spool.run["name"])
    made = client.create_run(experiment, start_time=start, tags={SPOOL_ID: spool.id}, run_name=name)
    stays, *others = tagged(client, [experiment], spool.id) or [made]
    for other in others:
        _withdraw(client, other, stays)
    return stays


def _withdraw(client: "MlflowClient", run: "Run", in_favour_of: "Run") -> None:
    """Make a run of the spool no longer its run: who knows it by its id sees so by the tag, and looks for the other."""
    from mlflow.exceptions import MlflowException

    run_id, other_id = run.info.run_id, in_favour_of.info.run_id
    with contextlib.suppress(MlflowException):  # the other machine does the same
        client.set_tag(run_id, SPOOL_ID, f"withdrawn in favour of {other_id}")
        client.set_terminated(run_id, "KILLED")
        client.delete_run(run_id)  # some may write runs and not delete them: it stays, marked


def parent(client: "MlflowClient", spool: Spool) -> "Run | None":
    """The MLflow run of the sweep that the spool belongs to, where there is one and it is there."""
    run_id, spool_id = spool.run.get("parent_run_id"), spool.run.get("parent_spool_id")
    run = get(client, str(run_id)) if run_id else None
    if run is not None and run.info.lifecycle_stage != "active":
        raise Unreachable(f"the run's sweep is deleted in MLflow: `mlflow runs restore --run-id {run_id}` or leave it")
    if run is None and spool_id:
        experiment = client.get_experiment_by_name(str(spool.run["experiment"]))
        run = next(iter(tagged(client, [str(experiment.experiment_id)] if experiment else [], str(spool_id))), None)
    return run


def get(client: "MlflowClient", run_id: str) -> "Run | None":
    """The run, or None where the store has none of that id."""
    from mlflow.exceptions import MlflowException

    try:
        return client.get_run(run_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def tagged(client: "MlflowClient", experiments: list[str], spool_id: str) -> "list[Run]":
    """The active runs of a spool, the one that stays first."""
    found = client.search_runs(experiments, f"tags.`{SPOOL_ID}` = '{spool_id}'") if experiments else []
    return sorted(found, key=lambda run: str(run.info.run_id))
