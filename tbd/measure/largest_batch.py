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


def interval(
    batch_sizes: Sequence[float], peaks: Sequence[float], limit: float, confidence: float = 0.95
) -> tuple[int, int]:
    """(low, high) of the same: the batches n of which a new peak could be the limit, by how far peaks lie off the line.

        abs(limit - fixed - slope n) <= t s sqrt(1 + 1/k + (n - mean)^2 / sum((sizes - mean)^2))

    with k peaks, s^2 = sum of squared residuals / (k - 2), and Student's t for k - 2: the inverse prediction of Draper
    and Smith, Applied Regression Analysis (3rd ed. 1998), section 3.2. It takes the peaks to scatter about a line alike
    at every size. Raises Absent with fewer than three sizes, or where they are too near to no line at all.
    """
    # imported here, since every command reads this file and few need it
    from scipy.special import stdtrit

    sizes, values = np.array(batch_sizes, dtype=np.float64), np.array(peaks, dtype=np.float64)
    if len(np.unique(sizes)) < 3:
        raise Absent("an interval needs the peaks of at least three batch sizes")
    fixed, slope = line(batch_sizes, peaks)
    mean, freedom = sizes.mean(), len(sizes) - 2
    spread = ((sizes - mean) ** 2).sum()
    residual = ((values - fixed - slope * sizes) ** 2).sum() / freedom
    noise = float(stdtrit(freedom, (1 + confidence) / 2)) ** 2 * residual
    above = limit - fixed - slope * mean
    # the bounds as a quadratic equation in n - mean
    square = slope**2 - noise / spread
    if square <= 0:
        raise Absent("the peaks scatter so much about the line that they bound no batch")
    root = math.sqrt(above**2 * noise / spread + square * noise * (1 + 1 / len(sizes)))
    ends = (mean + (above * slope - root) / square, mean + (above * slope + root) / square)
    return max(0, math.floor(ends[0])), max(0, math.floor(ends[1]))
