"""The jobs of a sweep, before any of them runs: the product of the command line's lists, or several such products.

An experiment may name several grids (sweep.grids), each a list of overrides whose product is a part of the sweep: the
batch sizes of one model are not those of another. What the command line says comes after: of `model` and `framework` it
takes its choices out of each grid, and leaves grids out that have none; of everything else it puts its own in place.
"""

from typing import NamedTuple

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from tbd.config.compose import compose_all, jobs_of, parse, without_hydra
from tbd.config.errors import BadConfig
from tbd.config.plan import Plan, plan
from tbd.config.signature import digest, signature

CHOSEN = ("model", "framework")  # of these the command line picks among the grid's


class Job(NamedTuple):
    """One job of a sweep, resolved."""

    overrides: str
    config: DictConfig
    planned: Plan
    signature: str


class Grid(NamedTuple):
    """One of Hydra's multiruns, with its overrides as on the command line, and its jobs: [] where an optimising sweeper
    will choose them."""

    overrides: list[str]
    jobs: list[Job]


class Asked(NamedTuple):
    """A sweep as it is asked for; `base`: the configuration of the overrides that are no lists."""

    base: DictConfig
    grids: list[Grid]


def asked(overrides: list[str]) -> Asked:
    """What a sweep with these overrides consists of. Raises BadConfig, also where a job's own values are impossible."""
    (whole,) = compose_all([fixed(overrides)], with_hydra=True)
    base = without_hydra(whole)
    if not str(whole.hydra.sweeper._target_).endswith(".BasicSweeper"):
        plan(base)
        return Asked(base, [Grid(overrides, [])])
    named = OmegaConf.to_container(base.sweep.grids, resolve=True) or [[]]
    assert isinstance(named, list)
    merged = [found for grid in named if (found := narrowed([str(text) for text in grid], overrides)) is not None]
    if not merged:
        given = ", ".join(one.input_line or "" for one in parse(overrides) if one.get_key_element() in CHOSEN)
        raise BadConfig(f"{given}: no grid of the experiment has that: leave it out, or leave the experiment out")
    return Asked(base, [Grid(one, jobs(one)) for one in merged])


def fixed(overrides: list[str]) -> list[str]:
    """Those that are no lists."""
    return [text for text, one in zip(overrides, parse(overrides), strict=True) if not one.is_sweep_override()]


def jobs(overrides: list[str]) -> list[Job]:
    """Every job of the product of these overrides."""
    product = jobs_of(overrides, multirun=True)
    planned = [(config, plan(config)) for config in compose_all(product)]
    return [
        Job(" ".join(words), config, done, signature(done.config))
        for words, (config, done) in zip(product, planned, strict=True)
    ]


def signature_of(sweep: Asked) -> str:
    """What the same command has again: of all jobs, or of the base of those that an optimising sweeper chooses."""
    known = [job.signature for grid in sweep.grids for job in grid.jobs]
    if not known:
        known = [*sweep.grids[0].overrides, signature(plan(sweep.base).config)]
    return digest([str(sweep.base.tracking.experiment), *known])


def narrowed(grid: list[str], overrides: list[str]) -> list[str] | None:
    """The grid with the command line's overrides; None where it has none of the models or frameworks asked for."""
    given = {one.get_key_element(): one for one in parse(overrides)}
    kept = []
    for text, own in zip(grid, parse(grid), strict=True):
        key = own.get_key_element()
        if key not in given:
            kept.append(text)
        elif key in CHOSEN:
            common = [value for value in values(given[key]) if value in values(own)]
            if not common:
                return None
            kept.append(f"{key}={','.join(common)}")
    replaced = {one.split("=")[0] for one in kept}
    return [*kept, *(text for text in overrides if text.split("=")[0] not in replaced)]


def values(override: Override) -> list[str]:
    if override.is_sweep_override():
        return list(override.sweep_string_iterator())
    return [override.get_value_element_as_str()]
