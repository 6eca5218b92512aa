"""From a composed configuration to a plan: every value checked and resolved, before anything starts."""

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tbd import data, frameworks, models
from tbd.config import cells
from tbd.config.errors import BadConfig
from tbd.config.schema import Config, Framework, Hardware, Measure, Sweep, Tracking
from tbd.frameworks.base import PRECISIONS
from tbd.launch import engines, managers, project, scheduler
from tbd.launch.engines import Engine
from tbd.launch.environments import home
from tbd.tracking import access
from tbd.tracking.redaction import without_credentials
from tbd.worker import max_batch
from tbd.worker.passes import PASSES

# what MLflow's tracking stores begin with (mlflow/tracking/_tracking_service/utils.py); file: it refuses by now
STORES = ("sqlite:", "postgresql", "mysql", "mssql", "http:", "https:", "databricks")
GO = ".go"  # the file that tells the worker that nothing else is going on any more


@dataclass(frozen=True)
class Plan:
    """One run, resolved. `config` is what was composed, with the model's options filled in.

    `unsupported`: why this combination of model, framework and hardware can't run; None where it can. `engine`: what
    starts several ranks; None where there is one.
    """

    config: dict[str, Any]
    unsupported: str | None
    engine: Engine | None = None

    @property
    def world_size(self) -> int:
        """Ranks: a process for each device of each node."""
        return int(self.config["hardware"]["devices"] * self.config["hardware"]["nodes"])

    @property
    def title(self) -> str:
        """What the run is called, such as "resnet50 pytorch cpu"."""
        return " ".join(str(self.config[group]["name"]) for group in ("model", "framework", "hardware"))

    @property
    def tags(self) -> dict[str, str]:
        """What runs are filtered by in MLflow."""
        named = {
            f"tbd.{group}": str(self.config[group]["name"]) for group in ("model", "framework", "hardware", "data")
        }
        if self.engine is not None:
            named["tbd.engine"] = f"{self.engine.name}: {self.engine.why}"
            named["tbd.ranks"] = str(self.world_size)
        if self.config["hardware"]["network"]:
            named["tbd.network"] = self.config["hardware"]["network"]
        return {**named, **{f"tbd.{key}": self.config[key] for key in ("precision", "compile") if self.config[key]}}

    def request(self, spool_id: str, output: Path) -> dict[str, Any]:
        """request.json (docs/request.md)."""
        c = self.config
        left_out = ("timeout_s", "repeats", "find_max_batch")
        measure = {key: value for key, value in c["measure"].items() if key not in left_out}
        measure["passes"] = passes_of(c["measure"])
        return {
            "schema": 1,
            "spool_id": spool_id,
            "output": str(output),
            "seed": c["seed"],
            "batch_size": c["batch_size"],
            "precision": c["precision"],
            "compile": c["compile"],
            "model": {key: value for key, value in c["model"].items() if key != "default_batch_size"},
            "framework": {"name": c["framework"]["name"], "options": c["framework"]["options"]},
            "hardware": {key: c["hardware"][key] for key in ("name", "device", "devices", "nodes", "threads")},
            "data": c["data"],
            "measure": measure,
            "peaks": str(home() / "peaks"),
            "rank": 0,
            "world_size": self.world_size,
            "go": GO,
        }


def plan(config: DictConfig) -> Plan:
    """The Plan of a composed configuration. Raises BadConfig for a value that is impossible."""
    composed = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    assert isinstance(composed, dict)
    values: dict[str, Any] = {str(key): value for key, value in composed.items() if key != "hydra"}
    check_given(values)
    check_keys(values)
    del values["sweep"]
    resolve_batch_size(values)
    check_numbers(values)
    check_choices(values)
    check_hardware(values["hardware"])
    check_place(values["hardware"])
    check_tracking(values["tracking"])
    resolve_model(values)
    resolve_data(values)
    resolve_project(values["framework"])
    model, hardware = values["model"], values["hardware"]
    reason = None
    framework = values["framework"]["name"]
    if values["framework"]["project"] is None:  # one of somebody else's says itself what it can't do
        if values["compile"] is None:
            values["compile"] = frameworks.facts(framework).COMPILE[0]
        devices = hardware["devices"] * hardware["nodes"]
        reason = cells.unsupported(
            model["name"], model, framework, hardware["device"], values["precision"], values["compile"]
        ) or cells.alone(framework, hardware["device"], devices)
    several = hardware["devices"] * hardware["nodes"] > 1
    return Plan(values, reason, engines.choose(hardware["engine"], hardware["nodes"]) if several else None)


def passes_of(measure: dict[str, Any]) -> list[str]:
    """All passes of the worker in order: measure.passes with the repeats, and the search for the largest batch."""
    return repeated(measure["passes"], measure["repeats"]) + ([max_batch.PASS] if measure["find_max_batch"] else [])


def repeated(passes: list[str], repeats: int) -> list[str]:
    """The passes with the timing pass `repeats` times: timing, timing.2, timing.3, trace, memory."""
    again = [f"timing.{number}" for number in range(2, repeats + 1)]
    return [name for one in passes for name in ([one, *again] if one == "timing" else [one])]


def check_given(values: dict[str, Any], prefix: str = "") -> None:
    """No mandatory value (`???`) is left open."""
    for key, value in values.items():
        if isinstance(value, dict):
            check_given(value, f"{prefix}{key}.")
        elif value == "???":
            raise BadConfig(f"{prefix}{key} must be given: add {prefix}{key}=...")


def check_numbers(values: dict[str, Any]) -> None:
    measure, hardware = values["measure"], values["hardware"]
    least = {
        "batch_size": (values["batch_size"], 1),
        "seed": (values["seed"], 0),
        "hardware.threads": (hardware["threads"], 1),
        "hardware.devices": (hardware["devices"], 1),
        "hardware.nodes": (hardware["nodes"], 1),
        "measure.steps": (measure["steps"], 1),
        "measure.warmup_min_steps": (measure["warmup_min_steps"], 1),
        "measure.warmup_max_steps": (measure["warmup_max_steps"], measure["warmup_min_steps"]),
        "measure.trace_steps": (measure["trace_steps"], 1),
        "measure.repeats": (measure["repeats"], 1),
        "measure.peak_max_age_days": (measure["peak_max_age_days"], 0),
    }
    for key, (value, minimum) in least.items():
        if value < minimum:
            raise BadConfig(f"{key}={value} is too small: at least {minimum}")
    cores = os.cpu_count() or 1
    if hardware["threads"] > cores:
        raise BadConfig(f"hardware.threads={hardware['threads']} is more than this machine's {cores} processors")
    if values["batch_size"] >= 2**31:  # what frameworks count a dimension with
        raise BadConfig(f"batch_size={values['batch_size']} is too large: below {2**31}")
    if values["seed"] >= 2**32:  # what numpy's RandomState takes
        raise BadConfig(f"seed={values['seed']} is too large: at most {2**32 - 1}")
    check_search(measure, hardware)
    if not measure["timeout_s"] > 0:
        raise BadConfig(f"measure.timeout_s={measure['timeout_s']} must be above 0 seconds")


def check_search(measure: dict[str, Any], hardware: dict[str, Any]) -> None:
    """The search for the largest batch has a limit to find, and one process."""
    limit = measure["memory_limit_mb"]
    if limit is not None and not limit > 0:
        raise BadConfig(f"measure.memory_limit_mb={limit:g} must be above 0 MB")
    if not measure["find_max_batch"]:
        return
    if hardware["device"] == "cpu" and limit is None:
        raise BadConfig(
            "measure.find_max_batch=true on a CPU needs measure.memory_limit_mb=N, the resident memory that the "
            "training may take: without one it would be the whole machine's"
        )
    if hardware["devices"] * hardware["nodes"] > 1:
        raise BadConfig("measure.find_max_batch=true searches on one device: take hardware=cpu or single_gpu")


def check_choices(values: dict[str, Any]) -> None:
    framework = values["framework"]
    for key, value, choices in [
        ("precision", values["precision"], PRECISIONS),
        *(("compile", name, cells.compilers()) for name in [values["compile"]] if name and not framework["project"]),
        ("framework.env_manager", framework["env_manager"], (*managers.NAMES, *managers.SYNONYMS)),
        ("tracking.mode", values["tracking"]["mode"], ("mlflow", "server", "offline")),
        *(("measure.passes", name, PASSES) for name in values["measure"]["passes"]),
    ]:
        if value not in choices:
            raise BadConfig(f"{key}={value} is not one of {', '.join(choices)}")
    passes = values["measure"]["passes"]
    if not passes or len(set(passes)) != len(passes):
        raise BadConfig(f"measure.passes={passes} must name at least one pass, each once: {', '.join(PASSES)}")
    if framework["env_manager"] == managers.LOCAL and not framework["python"]:
        raise BadConfig("framework.env_manager=local needs the interpreter: add framework.python=/path/to/python")
    if framework["python"] and framework["env_manager"] not in (managers.AUTO, managers.LOCAL):
        raise BadConfig(f"framework.python goes with framework.env_manager=local, not with {framework['env_manager']}")


def check_hardware(hardware: dict[str, Any]) -> None:
    name, devices, nodes = hardware["name"], hardware["devices"], hardware["nodes"]
    if name == "single_gpu" and (devices, nodes) != (1, 1):
        raise BadConfig(
            f"hardware=single_gpu is one device of one machine, not {devices} on each of {nodes}: "
            "hardware=multi_gpu or multi_node"
        )
    if hardware["engine"] not in engines.NAMES:
        raise BadConfig(f"hardware.engine={hardware['engine']} is not one of {', '.join(engines.NAMES)}")
    if hardware["port"] is not None and not 1 <= hardware["port"] <= 65535:
        raise BadConfig(f"hardware.port={hardware['port']} is no port: 1 to 65535, or null for a free one")
    for key in hardware["slurm"]:
        if key not in engines.SLURM_OPTIONS:
            raise BadConfig(f"hardware.slurm.{key} is not one of {', '.join(engines.SLURM_OPTIONS)}")


def check_place(hardware: dict[str, Any]) -> None:
    """The nodes and devices are those that a scheduler has started this command on, where one has."""
    if hardware["engine"] not in (engines.AUTO, engines.VARIABLES):
        return
    try:
        place = scheduler.place()
        engines.choose(hardware["engine"], 1)
    except scheduler.BadVariables as error:
        raise BadConfig(str(error)) from None
    if place is None:
        return
    devices = place.local_processes if place.local_processes > 1 else hardware["devices"]
    if (hardware["nodes"], hardware["devices"]) != (place.nodes, devices):
        raise BadConfig(
            f"WORLD_SIZE={place.processes} with {place.local_processes} on each node: say hardware.nodes={place.nodes} "
            f"hardware.devices={devices}; or hardware.engine=processes, where each process is a run of its own"
        )


def resolve_batch_size(values: dict[str, Any]) -> None:
    """The batch of a device, where that of all together is given."""
    together, hardware = values["batch_size_global"], values["hardware"]
    if together is None:
        return
    devices = hardware["devices"] * hardware["nodes"]
    if devices < 1 or together < devices or together % devices:
        raise BadConfig(f"batch_size_global={together} can't be shared out evenly among {devices} devices")
    values["batch_size"] = together // devices


def check_keys(values: dict[str, Any]) -> None:
    """Nothing was added (+key=value) that nobody would read."""
    groups = {"framework": Framework, "hardware": Hardware, "measure": Measure, "tracking": Tracking, "sweep": Sweep}
    for prefix, present, group in [("", values, Config), *((f"{key}.", values[key], groups[key]) for key in groups)]:
        for key in present:
            if key not in {field.name for field in fields(group)}:
                raise BadConfig(f"+{prefix}{key}: there is no such key. python -m tbd.train --cfg job shows all keys")
    framework = values["framework"]
    if framework["project"] is None and framework["options"]:  # those of a project of the user's are its own
        options = ", ".join(f"framework.options.{name}" for name in framework["options"])
        raise BadConfig(f"{options}: framework={framework['name']} has no options; a framework.project may have")


def check_tracking(tracking: dict[str, Any]) -> None:
    for key in ("experiment", "runs"):
        if not str(tracking[key]).strip():
            raise BadConfig(f"tracking.{key} is empty: give it a name")
    uri = tracking["uri"]
    if uri is not None and not uri.startswith(STORES):
        raise BadConfig(f"tracking.uri={uri} is no store that MLflow knows: it begins with {', '.join(STORES)}")
    if uri is not None and access.holds_password(uri):  # the run's folder keeps what it was asked with
        raise BadConfig(
            f"tracking.uri={without_credentials(uri)} was given with a password, which the run's folder would keep: "
            "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or tracking.credentials=FILE, or, for a "
            "database, MLFLOW_TRACKING_URI"
        )
    served = (uri or os.environ.get("MLFLOW_TRACKING_URI", "")).startswith("http")
    if tracking["mode"] == "server" and not served:
        raise BadConfig(
            "tracking=server needs the server: tracking.uri=https://HOST, or MLFLOW_TRACKING_URI. Without one: "
            "tracking=local"
        )
    if tracking["s3_bucket"] is None:
        for key in ("s3_endpoint", "s3_region", "s3_profile"):
            if tracking[key]:
                raise BadConfig(
                    f"tracking.{key}={tracking[key]} goes with tracking.s3_bucket=BUCKET, which isn't given"
                )
    elif "://" in tracking["s3_bucket"]:
        raise BadConfig(f"tracking.s3_bucket={tracking['s3_bucket']} is a URI: give the bucket alone, or bucket/prefix")
    if tracking["credentials"] or (served and tracking["mode"] != "offline"):
        try:
            access.variables(tracking["credentials"])
        except access.BadCredentials as error:
            raise BadConfig(f"tracking.credentials: {error}") from None
    if tracking["credentials"]:
        tracking["credentials"] = absolute(tracking["credentials"])


def resolve_model(values: dict[str, Any]) -> None:
    """Check the model's options by the specification itself, and fill in those that the model's size decides."""
    model = values["model"]
    own = {key: value for key, value in model.items() if key not in ("name", "default_batch_size")}
    try:
        specification = models.create(model["name"], own)
        specification.check(values["batch_size"])
    except ValueError as error:
        raise BadConfig(str(error)) from None
    model.update(specification.options)


def resolve_data(values: dict[str, Any]) -> None:
    """Check the data's options, and fill in the source's defaults, by the source itself."""
    problem = cells.data_problem(values["model"]["name"], values["data"]["name"])
    if problem:
        raise BadConfig(problem)
    try:
        values["data"] = data.resolve(values["data"], str(home() / "data"))
    except ValueError as error:
        raise BadConfig(str(error)) from None


def resolve_project(framework: dict[str, Any]) -> None:
    """Make the path of a project of the user's own absolute, and check that a project is there."""
    if framework["project"]:
        framework["project"] = absolute(framework["project"])
        try:
            project.load(Path(framework["project"]))
        except project.BadProject as error:
            raise BadConfig(error.cause) from None


def absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())
