"""A Hydra multirun as one sweep: a spool of its own, the parent of its jobs' spools and of their MLflow runs."""

import os
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from tbd.worker import status

SWEEP_VARIABLE = "TBD_SWEEP"  # the sweep's folder, for jobs that a launcher starts in other processes


class SweepCallback(Callback):
    """Named in conf/config.yaml; Hydra calls it around a multirun."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        from hydra.core.hydra_config import HydraConfig

        begin(config, HydraConfig.instance().cfg.hydra.overrides.task if HydraConfig.initialized() else [])

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        end(config.tracking)


def begin(config: DictConfig, overrides: list[str]) -> None:
    """Open the sweep's spool, with its parent run in MLflow, for the jobs to find."""
    from tbd.record import announce
    from tbd.tracking.spool import Spool

    spool = Spool.create(
        Path(config.tracking.runs),
        "sweep",
        experiment=config.tracking.experiment,
        tags={"tbd.sweep": " ".join(overrides)},
        kind="sweep",
    )
    announce(spool, config.tracking)
    os.environ[SWEEP_VARIABLE] = str(spool.path)


def parent() -> Any:
    """The Spool of the sweep that this job belongs to, or None."""
    from tbd.tracking.spool import Spool

    folder = os.environ.get(SWEEP_VARIABLE)
    return Spool.open(Path(folder)) if folder else None
