"""The types of the configuration in conf/: what Hydra and OmegaConf check of every value before anything starts."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class Hardware:
    name: str = MISSING
    device: str = MISSING  # cpu | gpu
    devices: int = 1  # on each node
    nodes: int = 1
    threads: int = 1  # CPU threads of each worker
    engine: str = "auto"  # what starts several ranks: tbd/launch/engines.py
    network: str | None = None  # what joins the nodes, in the user's words
    port: int | None = None  # where ranks meet; any free one by default
    slurm: dict[str, Any] = field(default_factory=dict)


@dataclass
class Framework:
    name: str = MISSING
    project: str | None = None
    env_manager: str = "auto"
    python: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Measure:
    passes: list[str] = field(default_factory=lambda: ["timing", "trace", "memory"])
    steps: int = 30
    warmup_min_steps: int = 8
    warmup_max_steps: int = 30
    trace_steps: int = 2
    peak: bool = True
    peak_max_age_days: float = 30.0  # a GPU's older one is measured anew; 0: always
    repeats: int = 1
    find_max_batch: bool = False
    memory_limit_mb: float | None = None
    timeout_s: float = 600.0


@dataclass
class Tracking:
    mode: str = MISSING  # mlflow | server | offline
    uri: str | None = None
    experiment: str = MISSING
    runs: str = "runs"
    credentials: str | None = None
    s3_bucket: str | None = None
    s3_endpoint: str | None = None
    s3_region: str | None = None
    s3_profile: str | None = None


@dataclass
class Sweep:
    """How the jobs of a sweep are run: no part of any job's own configuration."""

    grids: list[Any] = field(default_factory=list)  # of lists of overrides: tbd/config/grids.py
    skip_unsupported: bool = False
    fail_fast: bool = False
    force: bool = False
    objective: str = "throughput"


@dataclass
class Config:
    """One run. `model` and `data` are free-form here: their own code checks their options."""

    model: dict[str, Any] = field(default_factory=dict)
    framework: Framework = field(default_factory=Framework)
    hardware: Hardware = field(default_factory=Hardware)
    data: dict[str, Any] = field(default_factory=dict)
    measure: Measure = field(default_factory=Measure)
    tracking: Tracking = field(default_factory=Tracking)
    sweep: Sweep = field(default_factory=Sweep)
    batch_size: int = MISSING
    batch_size_global: int | None = None
    precision: str = "fp32"
    compile: str | None = None
    seed: int = 1
