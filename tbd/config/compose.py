"""From the command line to configurations: Hydra's composition, with its errors turned into one plain line each."""

import copy
import itertools
import math
import os
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import hydra.errors
from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from tbd import models
from tbd.config.errors import BadConfig
from tbd.config.schema import Config
from tbd.frameworks.cuda import compute_capability
from tbd.launch.files import project_file


def register() -> None:
    """Tell Hydra the types of tbd/config/schema.py and the resolvers of conf/. May be called again.

    `cores`: those that this process may use, or with a number each one's share of them. `accelerator`: gpu where this
    machine has one, else cpu. `small_on_cpu`: of a device, the size of network that a first look has time for.
    """
    ConfigStore.instance().store(name="schema", node=Config)
    OmegaConf.register_new_resolver("cores", cores, replace=True)
    OmegaConf.register_new_resolver("accelerator", lambda: "gpu" if compute_capability(0) else "cpu", replace=True)
    OmegaConf.register_new_resolver("small_on_cpu", lambda device: "small" if device == "cpu" else "full", replace=True)


def cores(*shared_by: int) -> int:
    """The cores that this process may use, divided by these numbers, at least 1."""
    return max(1, len(os.sched_getaffinity(0)) // math.prod(max(1, number) for number in shared_by))


def config_folder() -> Path:
    """The folder conf/, in the checkout or inside the installed package."""
    return project_file("conf")


def compose_jobs(overrides: list[str], multirun: bool) -> list[DictConfig]:
    """The configuration of every job that these overrides ask for: one, or with `multirun` the product of their lists.

    Raises BadConfig where an override can't be parsed or names what is not there.
    """
    return compose_all(jobs_of(overrides, multirun))


def jobs_of(overrides: list[str], multirun: bool) -> list[list[str]]:
    """The overrides of every job, in the order of Hydra's basic sweeper."""
    parsed = parse(overrides)
    if not multirun:
        for override in parsed:
            if override.is_sweep_override():
                raise BadConfig(
                    f"{override.input_line}: several values need a sweep (add -m), "
                    f"one value with a comma in it needs quotes ('{override.key_or_group}=\"...\"')"
                )
        return [overrides]
    choices: list[list[str]] = []
    for override in parsed:
        if override.is_sweep_override():
            key = override.get_key_element()
            choices.append([f"{key}={value}" for value in override.sweep_string_iterator()])
        else:
            choices.append([str(override.input_line)])
    return [list(job) for job in itertools.product(*choices)]


def parse(overrides: list[str]) -> list[Override]:
    parser = OverridesParser.create()
    parsed = []
    for text in overrides:
        try:
            parsed.append(parser.parse_override(text))
        except hydra.errors.HydraException as error:
            reason = str(error).strip().splitlines()[0]
            raise BadConfig(
                f"{text!r} is no override: {reason}. Write key=value; "
                f"put a value with spaces, commas, = or quotes in quotes of its own: 'key=\"a b\"'"
            ) from None
    return parsed


def compose_one(overrides: list[str]) -> DictConfig:
    """One composed configuration, every interpolation resolvable."""
    return compose_all([overrides])[0]


def compose_all(jobs: list[list[str]], with_hydra: bool = False) -> list[DictConfig]:
    """The configuration of each of these lists of overrides. Hydra is opened once for all.

    Jobs that choose the same of every group and differ in plain values are composed once and then given their values,
    as Hydra itself does: composing takes a third of a second each time. `with_hydra`: Hydra's own section, unresolved,
    is in it.
    """
    register()
    GlobalHydra.instance().clear()
    composed: dict[tuple[str, ...], DictConfig] = {}
    try:
        with initialize_config_dir(str(config_folder()), version_base="1.3"):
            return [_composed(overrides, with_hydra, composed) for overrides in jobs]
    finally:
        GlobalHydra.instance().clear()


def _composed(overrides: list[str], with_hydra: bool, composed: dict[tuple[str, ...], DictConfig]) -> DictConfig:
    try:
        chosen = tuple(text for text in overrides if not _plain_value(text))
        if chosen not in composed:
            composed[chosen] = compose("config", overrides=list(chosen), return_hydra_config=with_hydra)
        config = copy.deepcopy(composed[chosen])
        values = parse([text for text in overrides if _plain_value(text)])
        ConfigLoaderImpl._apply_overrides_to_config(values, config)
        OmegaConf.resolve(without_hydra(config) if with_hydra else config)
    except hydra.errors.MissingConfigException as error:
        raise BadConfig(missing_choice(error, overrides)) from None
    except hydra.errors.ConfigCompositionException as error:
        raise BadConfig(composition_problem(error, overrides)) from None
    except (hydra.errors.HydraException, OmegaConfBaseException, ValueError) as error:
        raise BadConfig(first_line(error)) from None
    return config


def _plain_value(override: str) -> bool:
    """Whether it is key=value of a key that is there, neither a group's choice nor one of Hydra's own."""
    key = override.partition("=")[0]
    named = key != override and re.fullmatch(r"[\w.]+", key) is not None and not key.startswith("hydra.")
    return named and not (config_folder() / key).is_dir()


def without_hydra(config: DictConfig) -> DictConfig:
    """A copy without Hydra's own section, which only Hydra can resolve."""
    return OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])


def missing_choice(error: hydra.errors.MissingConfigException, overrides: list[str]) -> str:
    """`model=resnet5` -> the choices of the group, the near ones first."""
    match = re.search(r"Could not find '([^']+)/([^'/]+)'", str(error))
    if not match:
        return first_line(error)
    group, name = match.groups()
    if group == "model" and name in models.names():
        return (
            f'model={name}: tbd/models/{name} is there, but no conf/model/{name}.yaml: CONTRIBUTING.md, "Add a model"'
        )
    choices = sorted(path.stem for path in (config_folder() / group).glob("*.yaml"))
    return f"{group}={name}: there is no such {group}.{suggestion(name, choices)} Choices: {', '.join(choices)}"


def composition_problem(error: Exception, overrides: list[str]) -> str:
    """An unknown key or a value of the wrong type, with the near keys or what was expected."""
    cause = error.__cause__ or error
    key = getattr(cause, "full_key", None) or next(iter(re.findall(r"Could not override '([^']+)'", str(error))), None)
    if key is None:
        return first_line(cause)
    if key.startswith("framework.options."):
        return f"{key}: options are free, each is to be added: +{key}=..."
    if isinstance(cause, ConfigKeyError | ConfigAttributeError) or cause is error:
        near = suggestion(key, known_keys())
        return f"{key}: there is no such key.{near} python -m tbd.train --cfg job shows all keys"
    written = next((o for o in overrides if o.startswith(f"{key}=")), key)
    return f"{written}: {first_line(cause)}"


def known_keys() -> list[str]:
    """Every key of the default configuration, dotted, and the groups."""
    config = compose_one([])
    groups = [path.name for path in config_folder().iterdir() if path.is_dir()]
    return sorted(set(flatten(OmegaConf.to_container(config))) | set(groups))


def flatten(values: Any, prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}. Lists stay values."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def suggestion(name: str, choices: list[str]) -> str:
    near = get_close_matches(name, choices, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
