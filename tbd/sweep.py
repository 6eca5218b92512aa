"""A Hydra multirun as one sweep: a spool of its own, the parent of its jobs' spools and of their MLflow runs."""

import os
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

SWEEP_VARIABLE = "TBD_SWEEP"  # the sweep's spool, for jobs that a launcher starts elsewhere


class SweepCallback(Callback):
    """Named in conf/config.yaml; Hydra calls it around a multirun."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        from tbd.pipeline import begin_sweep

        os.environ[SWEEP_VARIABLE] = str(begin_sweep(config))

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        from tbd.pipeline import end_sweep

        end_sweep(os.environ.pop(SWEEP_VARIABLE), config)
