"""From a composed configuration to a plan: every value checked and resolved, before anything starts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tbd import models
from tbd.config import cells
from tbd.config.errors import BadConfig

PASSES = ("timing", "trace", "memory")
PRECISIONS = ("fp32", "fp64")
ENV_MANAGERS = ("auto", "interpreter", "pyenv", "virtualenv", "uv", "conda", "local")


class UnsupportedCell(Exception):
    """The values are right, but this combination can't run. The message says why and what would."""


@dataclass(frozen=True)
class Plan:
    """One run, resolved. `config` is what was composed, with the model's options filled in."""

    config: dict[str, Any]

    @property
    def title(self) -> str:
        """What the run is called, such as "resnet50 pytorch cpu"."""
        return " ".join(str(self.config[group]["name"]) for group in ("model", "framework", "hardware"))

    def request(self, spool_id: str, output: Path) -> dict[str, Any]:
        """request.json (docs/request.md)."""
        c = self.config
        measure = {key: value for key, value in c["measure"].items() if key != "timeout_s"}
        return {
            "schema": 1,
            "spool_id": spool_id,
            "output": str(output),
            "seed": c["seed"],
            "batch_size": c["batch_size"],
            "precision": c["precision"],
            "model": {key: value for key, value in c["model"].items() if key != "default_batch_size"},
            "framework": {"name": c["framework"]["name"], "options": c["framework"]["options"]},
            "hardware": c["hardware"],
            "data": c["data"],
            "measure": measure,
            "rank": 0,
            "world_size": 1,
        }


def plan(config: DictConfig) -> Plan:
    """The Plan of a composed configuration.

    Raises BadConfig for a value that is impossible, UnsupportedCell for a combination that can't run.
    """
    values = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    assert isinstance(values, dict)
    values = {str(key): value for key, value in values.items() if key != "hydra"}
    check_given(values)
    check_numbers(values)
    check_choices(values)
    check_hardware(values["hardware"])
    resolve_model(values)
    problem = cells.data_problem(values["model"]["name"], values["data"]["name"])
    if problem:
        raise BadConfig(problem)
    if values["framework"]["project"] is None:
        reason = cells.unsupported(values["model"]["name"], values["framework"]["name"], values["hardware"]["name"])
        if reason:
            raise UnsupportedCell(reason)
    return Plan(values)


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
    }
    for key, (value, minimum) in least.items():
        if value < minimum:
            raise BadConfig(f"{key}={value} is too small: at least {minimum}")
    if values["seed"] >= 2**32:  # what numpy's RandomState takes
        raise BadConfig(f"seed={values['seed']} is too large: at most {2**32 - 1}")
    if not measure["timeout_s"] > 0:
        raise BadConfig(f"measure.timeout_s={measure['timeout_s']} must be above 0 seconds")


def check_choices(values: dict[str, Any]) -> None:
    framework = values["framework"]
    for key, value, choices in [
        ("precision", values["precision"], PRECISIONS),
        ("framework.env_manager", framework["env_manager"], ENV_MANAGERS),
        ("tracking.mode", values["tracking"]["mode"], ("mlflow", "offline")),
        *(("measure.passes", name, PASSES) for name in values["measure"]["passes"]),
    ]:
        if value not in choices:
            raise BadConfig(f"{key}={value} is not one of {', '.join(choices)}")
    passes = values["measure"]["passes"]
    if not passes or len(set(passes)) != len(passes):
        raise BadConfig(f"measure.passes={passes} must name at least one pass, each once: {', '.join(PASSES)}")
    if framework["env_manager"] == "local" and not framework["python"]:
        raise BadConfig("framework.env_manager=local needs the interpreter: add framework.python=/path/to/python")
    if framework["python"] and framework["env_manager"] not in ("auto", "local"):
        raise BadConfig(
            f"framework.python goes with framework.env_manager=local, not with {framework['env_manager']}"
        )


def check_hardware(hardware: dict[str, Any]) -> None:
    name, devices, nodes = hardware["name"], hardware["devices"], hardware["nodes"]
    if name == "multi_node" and nodes < 2:
        raise BadConfig(f"hardware=multi_node with hardware.nodes={nodes}: at least 2 nodes, or hardware=single_gpu")
    if name == "multi_gpu" and devices < 2:
        raise BadConfig(f"hardware=multi_gpu with hardware.devices={devices}: at least 2, or hardware=single_gpu")
    if name in ("cpu", "single_gpu") and (devices, nodes) != (1, 1):
        raise BadConfig(f"hardware={name} is one device of one machine, not {devices} on each of {nodes}")


def resolve_model(values: dict[str, Any]) -> None:
    """Fill in the options that the model's size decides, and check them by the specification itself."""
    model = values["model"]
    own = {key: value for key, value in model.items() if key not in ("name", "default_batch_size")}
    try:
        specification = models.create(model["name"], own)
        count = specification.parameter_count()
    except (ValueError, TypeError) as error:
        raise BadConfig(f"model={model['name']}: {error}") from None
    for name, default in specification.SIZES[model["size"]].items():
        value = specification.options[name]
        if type(value) is not type(default):
            raise BadConfig(f"model.{name}={value} must be of the kind of {default!r}")
        if isinstance(value, int) and value < 1:
            raise BadConfig(f"model.{name}={value} is too small: at least 1")
    if count < 1:
        raise BadConfig(f"model={model['name']} with these options has no parameters")
    model.update(specification.options)
