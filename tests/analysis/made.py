"""Recorded runs that never were, with known figures."""

import csv
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tbd.analysis.files import Folder
from tbd.analysis.runs import Run

NOWHERE = Path("/nonexistent")
_numbers = itertools.count(1)
UNITS = {"seq2seq": "tokens", "transformer": "tokens", "deep_speech2": "audio seconds", "a3c": "frames"}


def made(
    model: str = "resnet50",
    batch: int = 8,
    throughput: float | None = None,
    *,
    framework: str = "pytorch",
    hardware: str = "cpu",
    precision: str = "fp32",
    compiler: str = "eager",
    device: str = "",
    devices: int = 1,
    nodes: int = 1,
    noise: float = 0.01,
    status: str = "ok",
    parent: str = "",
    folder: Path = NOWHERE,
    tags: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    **metrics: float,
) -> Run:
    """A run; its throughput's 95 % interval is `noise` of it to either side. In metrics' names __ stands for /."""
    kind = "cpu" if hardware == "cpu" else "gpu"
    found = {name.replace("__", "/"): value for name, value in metrics.items()}
    if throughput is not None:
        found |= {
            "throughput": throughput,
            "throughput_ci_low": throughput * (1 - noise),
            "throughput_ci_high": throughput * (1 + noise),
        }
    number = next(_numbers)
    return Run(
        name=f"{model} {framework} {hardware}",
        spool_id=f"{number:032x}",
        run_id="",
        kind="run",
        parent=parent,
        status=status,
        start=1.7e9 + number,
        params={
            "model.name": model, "model.size": "full", "framework.name": framework, "hardware.name": hardware,
            "hardware.device": kind, "hardware.devices": str(devices), "hardware.nodes": str(nodes),
            "hardware.threads": "2", "batch_size": str(batch), "precision": precision, "compile": compiler,
            "data.name": "synthetic", "seed": str(number), "measure.steps": "30", "tracking.experiment": "tbd",
            **(params or {}),
        },
        tags={
            "tbd.status": status, "tbd.throughput_unit": UNITS.get(model, "images"), "framework_version": "1.0",
            "device_names": device or ("A CPU" if kind == "cpu" else "A GPU"),
            "tbd.overrides": f"model={model} framework={framework} hardware={hardware} batch_size={batch}",
            **(tags or {}),
        },
        metrics=found,
        files=Folder(folder),
    )  # fmt: skip


def sweep(model: str, rates: Mapping[int, float], **options: Any) -> list[Run]:
    """A run for each {batch: throughput}."""
    return [made(model, batch, rate, **options) for batch, rate in rates.items()]


def traced(folder: Path, rows: Iterable[tuple[str, str, float]]) -> Path:
    """A folder with an operators.csv of (name, category, share)."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "operators.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "category", "count_per_step", "self_ms_per_step", "share"])
        writer.writerows([name, category, 1.0, 10 * share, share] for name, category, share in rows)
    return folder
