"""The largest batch that a device's memory can hold, predicted by a line; trials find it (measure.find_max_batch)."""

import math
from collections.abc import Sequence

import numpy as np

from tbd.measure.events import Absent

# The fit's own rounding, by how numpy was built, must not turn a line that meets the limit exactly into one above it
ROUNDING_ITEMS = 1e-6


def line(batch_sizes: Sequence[float], peaks: Sequence[float]) -> tuple[float, float]:
    """(fixed, per item): the line peak = fixed + per item x batch size nearest to the peaks (least squares).

    Weights, their gradients and optimizer state don't grow with the batch; feature maps do, in proportion.
    """
    sizes, values = np.array(batch_sizes, dtype=np.float64), np.array(peaks, dtype=np.float64)
    if len(np.unique(sizes)) < 2:
        raise Absent("a line needs the peaks of at least two batch sizes")
    slope, fixed = np.polyfit(sizes, values, 1)
    if slope <= 0:
        raise Absent("the peak doesn't grow with the batch: the sizes are too small to tell")
    return float(fixed), float(slope)


def predicted(batch_sizes: Sequence[float], peaks: Sequence[float], limit: float) -> int:
    """The largest batch whose peak by that line is within the limit; 0 where none is."""
    fixed, slope = line(batch_sizes, peaks)
    return max(0, math.floor((limit - fixed) / slope + ROUNDING_ITEMS))
