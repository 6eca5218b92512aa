"""How throughput grows with the number of devices, against one device of the same kind and the same batch on each."""

from collections.abc import Mapping
from typing import NamedTuple

from tbd.analysis.curves import Curve
from tbd.analysis.evidence import Evidence, devices
from tbd.analysis.values import Value, ratio

# Of the settings of the hardware, what several devices share with one: cpu or gpu, and the threads of each process.
SHARED = ("hardware.device", "hardware.threads")


class Scaled(NamedTuple):
    """Runs on several devices beside those on one. `speedup`: by one device's throughput; `efficiency`: by devices."""

    curve: Curve
    batch: int
    devices: int
    nodes: int
    speedup: Value
    efficiency: Value


def scaled(evidence: Evidence) -> list[Scaled]:
    """Every batch of every curve on several devices whose twin on one device is there."""
    alone: dict[object, Curve] = {}
    for curve in evidence.single:  # the one beside them, where each network has one
        alone.setdefault(rest(curve.settings), curve)
        alone.setdefault((rest(curve.settings), curve.settings.get("hardware.network")), curve)
    found = []
    for curve in evidence.curves:
        count, same = devices(curve), rest(curve.settings)
        one = alone.get((same, curve.settings.get("hardware.network"))) or alone.get(same)
        if count == 1 or one is None:
            continue
        single = one.values("throughput")
        for batch, value in curve.values("throughput").items():
            if batch in single:
                speedup = ratio(value, single[batch])
                efficiency = speedup.times(1 / count)
                nodes = int(curve.settings.get("hardware.nodes", "1"))
                found.append(Scaled(curve, batch, count, nodes, speedup, efficiency))
    return found


def rest(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The settings but for where and on how many devices."""
    return tuple(
        sorted((key, text) for key, text in settings.items() if not key.startswith("hardware.") or key in SHARED)
    )
