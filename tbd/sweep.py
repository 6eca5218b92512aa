"""A Hydra multirun as one sweep: a spool of its own, the parent of its jobs' spools and of their MLflow runs."""

import os
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from tbd.worker import status

SWEEP_VARIABLE = "TBD_SWEEP"  # the sweep's folder, for its jobs, which a launcher may start in other processes
_open: list[Any] = []  # (Spool, Settings) of the sweep that this process began


class SweepCallback(Callback):
    """Named in conf/config.yaml; Hydra calls it before a multirun's first job."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        begin(config)


def begin(config: DictConfig) -> None:
    """Open the sweep's spool, with its parent run in MLflow, for the jobs to find."""
    from tbd.tracking import follower
    from tbd.tracking.spool import Spool
    from tbd.tracking.store import Settings, chosen_uri

    tracking: dict[str, Any] = OmegaConf.to_container(config.tracking, resolve=True)  # type: ignore[assignment]
    spool = Spool.create(
        Path(config.tracking.runs),
        "sweep",
        experiment=config.tracking.experiment,
        tags={"tbd.overrides": " ".join(config.hydra.overrides.task)},
        kind="sweep",
        tracking={**tracking, "uri": chosen_uri(tracking["uri"])},
    )
    where = Settings.of(tracking)
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


def end() -> int:
    """Close the sweep that is open, if one is: ok where it came to its end; its table shows each job's own status.

    Gives the exit code of the first job that has one, 0 where all ended ok. After an interrupt, of which Hydra tells
    nobody, the command calls it as after a whole sweep.
    """
    from tbd.display import sweep_summary
    from tbd.tracking import follower
    from tbd.tracking.sweeps import jobs_of, revise

    if not _open:
        return 0
    spool, where = _open.pop()
    os.environ.pop(SWEEP_VARIABLE, None)
    jobs = jobs_of(spool)
    interrupted = any(job.status == status.INTERRUPTED for job in jobs)
    failed = sum(job.status != status.OK for job in jobs)
    cause = f"{failed} of {len(jobs)} jobs did not end ok" if failed else ""
    spool.end(status.INTERRUPTED if interrupted else status.OK, cause)
    follower.follow(spool, where)
    revise(spool, where)
    sweep_summary(f"sweep {os.path.relpath(spool.path)}", jobs)
    return next((job.exit_code for job in jobs if job.exit_code != 0), 0)
