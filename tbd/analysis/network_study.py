"""The same training over several networks, or over one at several speeds: what a step waits for, as a fitted model."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tbd.analysis.curves import differences, settings
from tbd.analysis.runs import Run
from tbd.analysis.scaling import rest
from tbd.measure.network import GBIT_IN_BYTE, Fit, Point, fit
from tbd.worker import status

NETWORK = "tbd.network"  # the tag that names what joins the machines, as hardware.network says
NEEDED = ("throughput", "step_time_mean_ms", "link_gbit_per_s", "exchanged_mb_per_step", "exchanged_of_ring")


class Speed(NamedTuple):
    """Runs over one network. `items`: of a step, all ranks together. `latency_s`: of a short message, one way."""

    network: str
    point: Point
    items: float
    latency_s: float

    @property
    def gbit(self) -> float:
        return self.point.bytes_per_s * GBIT_IN_BYTE


class Study(NamedTuple):
    """Runs that differ in the network alone, the slowest first. `fit`: None where they are over one network.

    `single`: the throughput of one device with the same batch, None where it was not run.
    """

    label: str
    batch: int
    nodes: int
    unit: str
    speeds: Sequence[Speed]
    fit: Fit | None
    single: float | None

    @property
    def items(self) -> float:
        """Of a step, all ranks together."""
        return math.fsum(speed.items for speed in self.speeds) / len(self.speeds)

    @property
    def sent_bytes(self) -> float:
        return math.fsum(speed.point.sent_bytes for speed in self.speeds) / len(self.speeds)


Key = tuple[tuple[str, str], ...]


def studies(runs: Sequence[Run]) -> list[Study]:
    """Every training on several nodes that tried its link and counted what it sent."""
    groups: dict[tuple[Key, int], list[Run]] = defaultdict(list)
    for run in runs:
        if run.status == status.OK and all(run.metrics.get(name) for name in NEEDED):
            groups[_key(run, ("hardware.network",)), run.batch_size].append(run)
    found = []
    for (key, batch), group in groups.items():
        own = dict(key)
        labels = [own["model.name"], own["framework.name"]]
        alike = [
            dict(other) for other, _ in groups if [dict(other)[f"{k}.name"] for k in ("model", "framework")] == labels
        ]
        speeds = _speeds(group)
        label = " ".join([*labels, *differences(own, alike)])
        fitted = fit([speed.point for speed in speeds]) if len({speed.gbit for speed in speeds}) > 1 else None
        nodes = int(own.get("hardware.nodes", "1"))
        found.append(Study(label, batch, nodes, group[0].unit, speeds, fitted, _single(group[0], runs)))
    return sorted(found, key=lambda study: (study.label, study.batch, study.nodes))


def _key(run: Run, without: Sequence[str]) -> Key:
    return tuple(sorted((key, text) for key, text in settings(run).items() if key not in without))


def _speeds(group: Sequence[Run]) -> list[Speed]:
    """Repeats over one network are one speed, of their means; where the network has no name each run is one."""
    by_network: dict[str, list[Speed]] = defaultdict(list)
    for run in group:
        name = run.tags.get(NETWORK, "")
        by_network[name or run.id].append(speed_of(run, name))
    return sorted((_mean(speeds) for speeds in by_network.values()), key=lambda speed: speed.gbit)


def speed_of(run: Run, name: str = "") -> Speed:
    """What a run on several nodes tells: its link as it was tried, and what each node must send in a step at least.

    That is what a ring sends, and parameter servers beside each worker do as well: 2 (n - 1) / n of the gradients.
    """
    metrics: Mapping[str, float] = run.metrics
    step_s = metrics["step_time_mean_ms"] / 1e3
    sent = metrics["exchanged_mb_per_step"] / metrics["exchanged_of_ring"] * 1e6
    point = Point(metrics["link_gbit_per_s"] / GBIT_IN_BYTE, sent, step_s)
    return Speed(name, point, metrics["throughput"] * step_s, metrics.get("link_latency_us", 0.0) / 1e6)


def _mean(speeds: Sequence[Speed]) -> Speed:
    def mean(values: Sequence[float]) -> float:
        return math.fsum(values) / len(values)

    points = [speed.point for speed in speeds]
    point = Point(*(mean(values) for values in zip(*points, strict=True)))
    return Speed(speeds[0].network, point, mean([s.items for s in speeds]), mean([s.latency_s for s in speeds]))


def _single(run: Run, runs: Sequence[Run]) -> float | None:
    """The mean throughput of one device of the same kind, with as many threads and the same batch."""
    wanted = rest(settings(run))
    alone = [
        other.metrics["throughput"]
        for other in runs
        if other.status == status.OK
        and other.params.get("hardware.devices", "1") == other.params.get("hardware.nodes", "1") == "1"
        and other.batch_size == run.batch_size
        and "throughput" in other.metrics
        and rest(settings(other)) == wanted
    ]
    return math.fsum(alone) / len(alone) if alone else None
