"""Where the operators whose work is known (work.py) stand below what the device can do.

    intensity    operations / bytes of the compulsory traffic, FLOP/byte
    roof         min(peak, intensity x bandwidth): what the device can reach at most at that intensity
    achieved     operations / time

Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance model for multicore architectures",
CACM 52(4). An operator above the roof had its data in a cache, or the peak was measured while others disturbed it.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from tbd.measure.trace import Call

ROWS = 100


class Roof(NamedTuple):
    """`tflops`: 10^12 operations/s; `bandwidth`: 10^9 bytes/s."""

    tflops: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """The intensity from which on arithmetic is the limit, FLOP/byte."""
        return self.tflops * 1e3 / self.bandwidth

    def at(self, intensity: float) -> float:
        """TFLOP/s."""
        return min(self.tflops, intensity * self.bandwidth / 1e3)


def table(calls: Sequence[Call], steps: int, device_us: float, roof: Roof | None) -> list[dict[str, Any]]:
    """The ROWS longest groups of equal calls: operator, shapes, type and phase, with their sums a step.

    `share` is of `device_us`, all time in which the device worked on the steps. `of_peak` is the use of the arithmetic
    units, None without a roof, and `above_mean` whether it is above the mean over all of that time.
    """
    groups: dict[tuple[str, str, str, str], list[Call]] = defaultdict(list)
    for call in calls:
        groups[call.operator, call.work.shapes, call.work.type, call.phase].append(call)
    rows: list[dict[str, Any]] = []
    for (operator, shapes, kind, phase), found in groups.items():
        us, flops = sum(call.us for call in found), sum(call.work.flops for call in found)
        layers = list(dict.fromkeys(call.layer for call in found if call.layer))
        intensity, achieved = found[0].work.flops / found[0].work.bytes, flops / us / 1e6
        rows.append(
            {
                "operator": operator, "shapes": shapes, "type": kind, "phase": phase,
                "layer": layers[0] if len(layers) == 1 else f"{len(layers)} layers" if layers else "",
                "count_per_step": len(found) / steps, "ms_per_step": us / steps / 1e3, "share": us / device_us,
                "gflop": found[0].work.flops / 1e9, "mb": found[0].work.bytes / 1e6, "intensity": intensity,
                "tflops": achieved, "roof_tflops": roof and roof.at(intensity),
                "of_roof": roof and achieved / roof.at(intensity), "of_peak": roof and achieved / roof.tflops,
            }
        )  # fmt: skip
    mean = mean_of_peak(calls, device_us, roof)
    for row in rows:
        row["above_mean"] = None if mean is None else row["of_peak"] > mean
    return sorted(rows, key=lambda row: (-row["ms_per_step"], row["operator"], row["shapes"]))[:ROWS]


def summary(calls: Sequence[Call], device_us: float, roof: Roof | None) -> dict[str, Any]:
    """The roof itself; `known_share`: what of the device's time is in operators with known work."""
    return {
        "peak_tflops": roof and roof.tflops,
        "bandwidth": roof and roof.bandwidth,
        "ridge": roof and roof.ridge,
        "known_share": sum(call.us for call in calls) / device_us,
        "mean_of_peak": mean_of_peak(calls, device_us, roof),
    }


def mean_of_peak(calls: Sequence[Call], device_us: float, roof: Roof | None) -> float | None:
    """Known operations / (the peak x all time in which the device worked): the mean use of the arithmetic units."""
    return roof and sum(call.work.flops for call in calls) / device_us / 1e6 / roof.tflops
