"""python -m tbd.tracking.view: our columns and charts, as a view that MLflow's page of an experiment opens with.

MLflow keeps what a person shares of the page as a tag of the experiment, JSON under mlflow.sharedViewState.KEY, and
opens it by viewStateShareKey=KEY in the address (read in MLflow 3.17's own page, mlflow/server/js).
"""

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from tbd.tracking.redaction import without_credentials

if TYPE_CHECKING:
    from mlflow import MlflowClient

KEY = "tbd"
TAG = f"mlflow.sharedViewState.{KEY}"
ADDRESS = "http://127.0.0.1:5000"  # where `mlflow ui` serves
COLUMNS = (
    "tags.`tbd.status`", "params.`model.name`", "params.`framework.name`", "params.`hardware.name`",
    "params.`batch_size`", "params.`precision`", "params.`compile`", "metrics.`throughput`",
    "tags.`tbd.throughput_unit`", "metrics.`mfu`", "metrics.`cpu_utilization`", "metrics.`gpu_compute_utilization`",
    "metrics.`memory/peak_mb`", "metrics.`loss_ratio`",
)  # fmt: skip
BARS = {
    "Speed": ("throughput", "step_time_p50_ms", "step_time_p99_ms", "data_wait_share"),
    "Use of the device": ("mfu", "gpu_compute_utilization", "cpu_utilization", "energy_j_per_item"),
    "Memory": ("memory/peak_mb", "memory/feature_maps_highest_mb", "memory/feature_maps_share_of_structures"),
}
OVER_BATCH = {"Speed": "throughput", "Memory": "memory/peak_mb"}
RUNS_SHOWN = 50


def state() -> str:
    """The view as MLflow keeps it."""
    sections = [
        {"uuid": f"tbd-{number}", "name": name, "display": True, "isReordered": False, "deleted": False}
        for number, name in enumerate(BARS)
    ]
    places = dict(zip(BARS, (str(section["uuid"]) for section in sections), strict=True))
    charts: list[dict[str, Any]] = [
        {**_chart("SCATTER", f"{metric}-batch", places[name]), "xaxis": {"key": "batch_size", "type": "PARAM"},
         "yaxis": {"key": metric, "type": "METRIC"}}
        for name, metric in OVER_BATCH.items()
    ]  # fmt: skip
    charts += [
        {**_chart("BAR", metric, places[name]), "metricKey": metric}
        for name, metrics in BARS.items()
        for metric in metrics
    ]
    view = {
        "selectedColumns": COLUMNS,
        "compareRunSections": sections,
        "compareRunCharts": charts,
        "isAccordionReordered": False,
        "hideEmptyCharts": True,
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
    }
    return json.dumps(view, separators=(",", ":"))


def _chart(kind: str, name: str, section: str) -> dict[str, Any]:
    return {
        "uuid": f"tbd-{name}", "type": kind, "metricSectionId": section, "runsCountToCompare": RUNS_SHOWN,
        "deleted": False, "isGenerated": False,
    }  # fmt: skip


def offer(client: "MlflowClient", experiment: str) -> str | None:
    """The address of the view of the experiment of this name, put there where it is not; None where there is none."""
    found = client.get_experiment_by_name(experiment)
    if found is None:
        return None
    if found.tags.get(TAG) != state():
        client.set_experiment_tag(found.experiment_id, TAG, state())
    served = client.tracking_uri if client.tracking_uri.startswith("http") else ADDRESS
    return f"{without_credentials(served)}/#/experiments/{found.experiment_id}/runs?viewStateShareKey={KEY}"


def main(arguments: list[str] | None = None) -> int:
    """Print where to look, for `make ui` and for a server's users."""
    parser = argparse.ArgumentParser(
        prog="python -m tbd.tracking.view", description="Where MLflow shows an experiment with our columns and charts."
    )
    named = os.environ.get("MLFLOW_EXPERIMENT_NAME", "tbd")
    parser.add_argument("experiment", nargs="?", default=named, help="(MLFLOW_EXPERIMENT_NAME; tbd)")
    experiment = parser.parse_args(arguments).experiment

    from tbd.tracking.store import Settings, opened, sqlite_file, tracking_uri

    uri = tracking_uri(Settings())
    database = sqlite_file(uri)
    if database is not None and not database.exists():
        print("tbd: no run has been recorded here yet: make run")
        return 0
    with opened(uri) as client:
        address = offer(client, experiment)
    if address:
        print(f"tbd: the runs with their figures and charts: {address}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
