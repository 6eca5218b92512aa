"""Holds the record on a server against the spools that it was made from: nothing lost, nothing twice, nothing wrong."""

import collections
import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from tbd.measure import figures
from tbd.tracking import access, artifacts, record, sender
from tbd.tracking.spool import Spool, spools
from tests.server.stack import User

Point = tuple[str, int, int, float]


@dataclass(frozen=True)
class Account:
    """Of all runs of a folder. `wrong`: what else is not as it should be, in words."""

    runs: int = 0
    points: int = 0
    lost: int = 0
    duplicated: int = 0
    files: int = 0
    files_wrong: int = 0
    wrong: tuple[str, ...] = ()

    def __add__(self, other: "Account") -> "Account":
        return Account(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def clean(self) -> bool:
        return self.runs > 0 and not (self.lost or self.duplicated or self.files_wrong or self.wrong)


def account(root: Path, user: User) -> Account:
    """Everything under the folder of runs, as this user sees it on the server."""
    with access.environment({**user.variables, "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}):
        client = MlflowClient(tracking_uri=user.url)
        return sum((of_spool(spool, client) for spool in spools(root)), Account())


def of_spool(spool: Spool, client: MlflowClient) -> Account:
    experiment = client.get_experiment_by_name(str(spool.run["experiment"]))
    found = client.search_runs([experiment.experiment_id], f"tags.`tbd.spool_id` = '{spool.id}'") if experiment else []
    if len(found) != 1:
        return Account(runs=1, wrong=(f"{spool.path.name}: {len(found)} runs on the server",))
    (run,) = found
    wanted, there = expected(spool), points(client, run)
    lost = sum((wanted - there).values())
    duplicated = sum((there - wanted).values())
    wrong = [f"{spool.path.name}: lost {point}" for point in wanted - there]
    wrong += [f"{spool.path.name}: twice, or never measured {point}" for point in there - wanted]
    status = record.terminal_status(str((spool.ended() or {}).get("status")))
    if run.info.status != status:
        wrong.append(f"{spool.path.name}: status {run.info.status}, not {status}")
    files, files_wrong = check_files(spool, client, run.info.run_id)
    wrong += [f"{spool.path.name}: {name}" for name in files_wrong]
    return Account(1, wanted.total(), lost, duplicated, files, len(files_wrong), tuple(wrong))


def expected(spool: Spool) -> "collections.Counter[Point]":
    """Every point that the spool gives, once."""
    computed = figures.compute(spool.path)
    clock = record.clock(spool.controller_events(), 0.0)
    ended = clock.at(float((spool.ended() or {})["t"]))
    kept, _ = record.finite(record.scalars(computed.metrics, ended) | record.series(computed.series))
    return collections.Counter(
        (key, point.step, sender.ms(point.wall_time), point.value) for key, found in kept.items() for point in found
    )


def points(client: MlflowClient, run: Any) -> "collections.Counter[Point]":
    return collections.Counter(
        (key, metric.step, metric.timestamp, metric.value)
        for key in run.data.metrics
        for metric in client.get_metric_history(run.info.run_id, key)
    )


def check_files(spool: Spool, client: MlflowClient, run_id: str) -> tuple[int, list[str]]:
    """(files, those of them that are not there, or not as SHA256SUMS and the spool have them), as downloaded."""
    with tempfile.TemporaryDirectory() as folder:
        down = Path(client.download_artifacts(run_id, "", folder))
        lines = (down / artifacts.SUMS).read_text().splitlines() if (down / artifacts.SUMS).exists() else []
        sums = dict(line.split("  ", 1)[::-1] for line in lines)
        present = artifacts.files(spool)
        wrong = []
        for name in present:
            sha = digest(down / name)
            same_as_here = Path(name).suffix not in artifacts.BINARY or sha == digest(spool.path / name)
            if sha is None or sha != sums.get(name) or not same_as_here:
                wrong.append(name)
        return len(present), wrong


def digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None
