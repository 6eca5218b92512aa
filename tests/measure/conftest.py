"""Spools whose every figure is known: written by the sleep framework, with the controller's samples beside."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WORKER = Path(__file__).parent.parent / "sleep_framework" / "worker.py"
START = 1024.0  # times are sums of powers of two from here on, so that floating point holds them exactly


def write_request(spool: Path, options: dict[str, Any], **measure: Any) -> Path:
    request = {
        "schema": 1,
        "spool_id": "0" * 32,
        "output": str(spool),
        "seed": 1,
        "batch_size": 8,
        "precision": "fp32",
        "model": {"name": "none", "size": "small"},
        "framework": {"name": "sleep", "options": {"mode": "scripted", "start": START, **options}},
        "hardware": {"name": "cpu", "device": "cpu", "devices": 1, "nodes": 1, "threads": 2},
        "data": {"name": "synthetic"},
        "measure": {
            "passes": ["timing", "trace", "memory"],
            "steps": 16,
            "warmup_min_steps": 4,
            "warmup_max_steps": 8,
            "trace_steps": 2,
            "peak": True,
            **measure,
        },
        "rank": 0,
        "world_size": 1,
    }
    path = spool / "request.json"
    path.write_text(json.dumps(request))
    return path


def write_controller(spool: Path, *events: dict[str, Any], cores: int | None = 2) -> None:
    header = {"event": "header", "pass": "", "t": START, "schema": 1, "wall_time": 1e9}
    if cores is not None:
        header["cores"] = cores
    lines = [json.dumps({"pass": "", **event}) + "\n" for event in (header, *events)]
    (spool / "controller.jsonl").write_text("".join(lines))


@pytest.fixture
def sleep_run(tmp_path: Path) -> Callable[..., tuple[Path, int]]:
    """Runs the sleep framework's worker with these options and measure settings: (the spool, its exit code)."""

    def run(options: dict[str, Any], **measure: Any) -> tuple[Path, int]:
        request = write_request(tmp_path, options, **measure)
        return tmp_path, subprocess.run([sys.executable, WORKER, request], timeout=60).returncode

    return run
