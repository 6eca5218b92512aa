"""A Hydra multirun as one sweep: a spool of its own, the parent of its jobs' spools and of their MLflow runs."""

import os
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from tbd.worker import status

SWEEP_VARIABLE = "TBD_SWEEP"  # the sweep's folder, for its jobs, which a launcher may start in other processes
_open: list[Any] = []  # (Spool, Settings) of the sweep that this process began


class SweepCallback(Callback):
    """Named in conf/config.yaml; Hydra calls it around a multirun."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        begin(config)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        end()


def begin(config: DictConfig) -> None:
    """Open the sweep's spool, with its parent run in MLflow, for the jobs to find."""
    from tbd.tracking import follower
    from tbd.tracking.spool import Spool
    from tbd.tracking.store import Settings

    spool = Spool.create(
        Path(config.tracking.runs),
        "sweep",
        experiment=config.tracking.experiment,
        tags={"tbd.overrides": " ".join(config.hydra.overrides.task)},
        kind="sweep",
    )
    where = Settings(uri=config.tracking.uri, offline=config.tracking.mode == "offline")
    follower.open_run(spool, where)
    os.environ[SWEEP_VARIABLE] = str(spool.path)
    _open.append((spool, where))


def run_job(config: DictConfig) -> int:
    """Run one job, within the sweep where there is one; gives its exit code."""
    from tbd import pipeline
    from tbd.tracking.spool import Spool

    folder = os.environ.get(SWEEP_VARIABLE)
    parent = Spool.open(Path(folder)) if folder else None
    return pipeline.run_job(config, " ".join(HydraConfig.get().overrides.task), parent)


def end() -> None:
    """Close the sweep that is open, if one is: ok where it came to its end; its table shows each job's own status.

    Hydra calls it at a multirun's end, and the command once more after an interrupt, of which Hydra tells nobody.
    """
    from tbd.display import sweep_summary
    from tbd.tracking import follower
    from tbd.tracking.spool import read_object, spools

    if not _open:
        return
    spool, where = _open.pop()
    os.environ.pop(SWEEP_VARIABLE, None)
    rows = []
    for job in spools(spool.path.parent):
        if job.run.get("parent_spool_id") != spool.id:
            continue
        ending = job.ended() or {"status": status.INTERRUPTED, "cause": "it wrote no end"}
        figures = read_object(job.path / "figures.json")
        unit = figures.get("tags", {}).get("tbd.throughput_unit", "items")
        throughput = figures.get("metrics", {}).get("throughput")
        rows.append(
            {
                "job": job.run["tags"].get("tbd.overrides", ""),
                "status": ending["status"],
                "throughput": f"{throughput:,.2f} {unit}/s" if throughput is not None else "",
                "cause": ending["cause"],
            }
        )
    interrupted = any(row["status"] == status.INTERRUPTED for row in rows)
    failed = sum(row["status"] != status.OK for row in rows)
    cause = f"{failed} of {len(rows)} jobs did not end ok" if failed else ""
    spool.end(status.INTERRUPTED if interrupted else status.OK, cause)
    follower.follow(spool, where)
    sweep_summary(f"sweep {os.path.relpath(spool.path)}", rows)
