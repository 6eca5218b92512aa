"""Commands that make the runs which are missing: for the frameworks and the hardware that the runs at hand have."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import yaml

from tbd import models
from tbd.analysis.runs import Run
from tbd.analysis.suite import FIXED_BATCH
from tbd.config import cells
from tbd.launch.files import project_file

FRAMEWORK = "pytorch"  # it has every model


def batches(model: str, device: str) -> list[int]:
    """Four batches in doublings around the model's default on a "cpu" or "gpu"."""
    default = int(_config(model)["default_batch_size"][device])
    if model in FIXED_BATCH:
        return [default]
    first = max(1, default // 4)
    return [first, 2 * first, 4 * first, 8 * first]


def frameworks(model: str, runs: Sequence[Run], place: str) -> list[str]:
    """The frameworks of these runs that have the model on such hardware; else the one that has every model."""
    options = models.create(model, {"size": "full"}).options
    seen = dict.fromkeys(run.framework for run in runs)
    return [name for name in seen if cells.unsupported(model, options, name, device(place)) is None] or [FRAMEWORK]


def hardware(runs: Sequence[Run]) -> str:
    """Where most of these runs ran, of the kinds that have one device; cpu where there are none."""
    names = Counter(run.params.get("hardware.name") for run in runs)
    return "single_gpu" if names["single_gpu"] > names["cpu"] else "cpu"


def device(place: str) -> str:
    """What such hardware trains on."""
    return "gpu" if "gpu" in place or place == "multi_node" else "cpu"


def sweep(
    model: str,
    runs: Sequence[Run],
    *,
    among: Sequence[str] = (),
    on: str = "",
    batch_sizes: Sequence[int] | None = None,
    more: str = "",
) -> str:
    """The command of a sweep of the model over its batches.

    `among`: the frameworks, `on`: the hardware; by default those of `runs`. `more`: further overrides.
    """
    place = on or hardware(runs)
    sizes = batches(model, device(place))
    sizes = sizes if batch_sizes is None else list(batch_sizes)
    words = [f"model={model}", "framework=" + ",".join(among or frameworks(model, runs, place)), f"hardware={place}"]
    words += ["batch_size=" + ",".join(map(str, sizes))] if sizes else []
    words += [more] if more else []
    several = "-m " if any("," in word for word in words) else ""
    return f"python -m tbd.train {several}{' '.join(words)} measure=standard"


@cache
def _config(model: str) -> Any:
    return yaml.safe_load(project_file("conf", "model", f"{model}.yaml").read_text())
