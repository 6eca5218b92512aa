"""Runs of the sleep framework without a process of their own: its worker on a scripted clock, a thousand in seconds."""

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.sleep_framework import worker

STEP_S = 0.1
ITEMS = 8


def train(
    folder: Path, passes: Sequence[Sequence[float]], others: Sequence[str] = (), version: str = "", **options: Any
) -> None:
    """A run in `folder` whose timing passes have steps of these seconds, each of ITEMS images.

    `others`: passes after those. `options`: more of the sleep framework's. `version`: another one of it.
    """
    names = ["timing", *(f"timing.{number}" for number in range(2, len(passes) + 1))]
    request = {
        "schema": 1,
        "output": str(folder),
        "model": {"name": "sleep"},
        "precision": "fp32",
        "rank": 0,
        "world_size": 1,
        "framework": {
            "name": "sleep",
            "options": {
                "mode": "scripted",
                "start": 0.0,
                "warmup_s": [],
                "step_s": [second for one in passes for second in one],
                "items": {"images": ITEMS},
                **options,
            },
        },
        "measure": {
            "passes": [*names, *others],
            "steps": len(passes[0]),
            "warmup_min_steps": 1,
            "peak": False,
            "trace_steps": 1,
        },
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "request.json").write_text(json.dumps(request))
    (folder / "events.jsonl").unlink(missing_ok=True)
    before, worker.VERSION = signal.getsignal(signal.SIGTERM), version or worker.VERSION
    try:
        assert worker.main(str(folder / "request.json")) == 0
    finally:
        signal.signal(signal.SIGTERM, before)


def noisy(
    random: np.random.Generator,
    passes: int,
    steps: int,
    slower: float = 1.0,
    of_process: float = 0.02,
    of_step: float = 0.1,
    correlation: float = 0.0,
) -> list[list[float]]:
    """Step times of `passes` processes, log-normal around STEP_S * slower: each process has a speed of its own too.

    `correlation`: of neighbouring steps, whose noise is then a first-order autoregression of the same spread.
    """
    own = np.exp(random.normal(0, of_process, (passes, 1)))
    noise = random.normal(0, of_step, (passes, steps))
    for step in range(1, steps if correlation else 1):
        noise[:, step] = correlation * noise[:, step - 1] + np.sqrt(1 - correlation**2) * noise[:, step]
    times = STEP_S * slower * own * np.exp(noise)
    return [[float(second) for second in one] for one in times]
