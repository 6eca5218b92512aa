"""Runs that differ in their batch alone, put together as curves."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tbd.analysis.runs import Run
from tbd.analysis.values import Value, product, value
from tbd.worker import status

# Params that don't change what is measured, or that are no choice of the user's: by their beginnings.
NOT_SETTINGS = (
    "batch_size", "seed", "tracking.", "measure.", "sweep.", "model.default_batch_size", "framework.python",
    "framework.project", "framework.env_manager", "data.root", "data.python", "data.program", "hardware.port",
    "hardware.slurm",
)  # fmt: skip
# Settings whose value says by itself what it is.
PLAIN = ("precision", "compile", "device_names", "hardware.name", "data.name", "framework_version")
TAGS = ("framework_version", "device_names")  # that are settings as well


@dataclass(frozen=True)
class Curve:
    """Runs of one model in one framework with the same settings, by their batch.

    `points`: {batch: runs that ended ok}, batches rising. `out_of_memory`: batches that did not fit.
    `label`: model, framework, and the settings in which this curve differs from others of the two.
    """

    settings: Mapping[str, str]
    points: Mapping[int, Sequence[Run]]
    out_of_memory: Sequence[int] = ()
    label: str = field(default="", compare=False)

    @property
    def model(self) -> str:
        return self.settings.get("model.name", "")

    @property
    def framework(self) -> str:
        return self.settings.get("framework.name", "")

    @property
    def on_gpu(self) -> bool:
        return self.settings.get("hardware.device") == "gpu"

    def values(self, metric: str) -> dict[int, Value]:
        """{batch: the figure}, of the batches that have it."""
        found = {batch: value(runs, metric) for batch, runs in self.points.items()}
        return {batch: one for batch, one in found.items() if one is not None}

    def largest(self, metric: str) -> tuple[int, Value] | None:
        """The largest batch that has the figure, and the figure."""
        return max(self.values(metric).items(), default=None, key=lambda item: item[0])


def settings(run: Run) -> dict[str, str]:
    """What decides how fast a run is, but for its batch."""
    found = {key: text for key, text in run.params.items() if not key.startswith(NOT_SETTINGS)}
    return found | {name: run.tags[name] for name in TAGS if run.tags.get(name)}


def curves(runs: Iterable[Run]) -> list[Curve]:
    """All curves of these runs, also those of one batch, by model and framework."""
    points: dict[tuple[tuple[str, str], ...], dict[int, list[Run]]] = defaultdict(lambda: defaultdict(list))
    full: dict[tuple[tuple[str, str], ...], set[int]] = defaultdict(set)
    for run in runs:
        if run.status == status.OK:
            points[_key(run)][run.batch_size].append(run)
        elif run.status == status.OUT_OF_MEMORY:
            full[_key(run)].add(run.batch_size)
    found = [
        Curve(dict(key), dict(sorted(by_batch.items())), sorted(_full_of(dict(key), full)))
        for key, by_batch in points.items()
    ]
    return labelled(sorted(found, key=lambda curve: (curve.model, curve.framework, sorted(curve.settings.items()))))


def labelled(found: Sequence[Curve]) -> list[Curve]:
    """The curves with labels by which they can be told apart."""
    alike: dict[tuple[str, str], list[Curve]] = defaultdict(list)
    for curve in found:
        alike[curve.model, curve.framework].append(curve)
    named = []
    for curve in found:
        words = [curve.model, curve.framework]
        words += differences(curve.settings, [other.settings for other in alike[curve.model, curve.framework]])
        named.append(Curve(curve.settings, curve.points, curve.out_of_memory, " ".join(words)))
    return named


def differences(one: Mapping[str, str], others: Sequence[Mapping[str, str]]) -> list[str]:
    """The settings of `one` that not all `others` share, in words: "bf16", "threads=2"; what another implies once."""
    words: list[str] = []
    seen: set[tuple[str, ...]] = set()
    for key in sorted({key for other in others for key in other}, key=lambda key: (key not in PLAIN, key)):
        column = tuple(other.get(key, "") for other in others)
        pattern = tuple(str(column.index(text)) for text in column)
        if len(set(column)) > 1 and pattern not in seen:
            seen.add(pattern)
            text = one.get(key, "")
            words.append(text if key in PLAIN else f"{key.rpartition('.')[2]}={text}")
    return [word for word in words if word]


def gain_a_doubling(small: tuple[int, Value], large: tuple[int, Value]) -> Value:
    """By what the figure was multiplied each time the batch doubled, between two (batch, figure)."""
    power = 1 / math.log2(large[0] / small[0])
    return product([(large[1], power), (small[1], -power)])


def _key(run: Run) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(settings(run).items()))


def _full_of(one: Mapping[str, str], full: Mapping[tuple[tuple[str, str], ...], set[int]]) -> set[int]:
    """Batches that did not fit. A run that ended early may not know its framework's version or device."""
    plain = {key: text for key, text in one.items() if key not in TAGS}
    found: set[int] = set()
    for key, batches in full.items():
        of_run = dict(key)
        same = {name: text for name, text in of_run.items() if name not in TAGS} == plain
        if same and all(of_run[name] == one.get(name) for name in TAGS if name in of_run):
            found |= batches
    return found
