"""How much two runs, or two groups of them, differ, how sure that is, and how many more repeats would tell.

Differences are relative, b / a - 1, and are worked out as logarithms: so that a against b says the same as b against a,
and so that spreads of fast and slow runs, which grow with the value, are alike.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tbd.measure import throughput
from tbd.measure.events import Absent, Array
from tbd.measure.throughput import CONFIDENCE

MIN_VALUES = 3  # of both sides together: the fewest that have a spread and something to compare with
POWER = 0.9  # with which the repeats that are asked for settle what they are asked for
MOST_REPEATS = 1000  # beyond which nobody would wait


class Difference(NamedTuple):
    """b / a - 1 with its 95 % interval; `source`: what that is worked out from. Ends are None where it can't be had,
    and `source` says why. `one_start`: the interval is of one process of each side, and holds nothing of what differs
    from start to start of the same program."""

    change: float
    low: float | None
    high: float | None
    source: str
    one_start: bool = False

    @property
    def significant(self) -> bool:
        """Whether the interval leaves no change out; never, where it is of one start of each side."""
        told = self.low is not None and self.high is not None and not self.low <= 0 <= self.high
        return told and not self.one_start


def of_values(
    a: Sequence[float], b: Sequence[float], what: str = "runs", alike: bool = False, change: float | None = None
) -> Difference:
    """The difference of two samples of positive values, each from a process of its own.

    Of the logarithms: mean(b) - mean(a) -/+ t(0.975, v) s, by Welch's test (Welch 1947), which lets the two sides
    spread differently; Student's with one spread (1908) where a side has one value, or where they are `alike`: the
    same thing measured twice. Raises Absent with fewer than MIN_VALUES values. `change`: what to lay the interval
    around; default: the ratio of the geometric means, less 1. `what` the values are of, for the source.
    """
    if len(a) + len(b) < MIN_VALUES or not a or not b:
        raise Absent(f"an interval needs {MIN_VALUES} {what} of the two together, there are {len(a) + len(b)}")
    centre = _centre(a, b) if change is None else math.log1p(change)
    alike = alike or min(len(a), len(b)) < 2
    half = half_width(spreads(a, b), len(a), len(b)) if alike else _welch(np.log(a), np.log(b))
    test = "Student's" if alike else "Welch's"
    counts = f"{len(a)} and {len(b)} {what}" if len(a) != len(b) else f"{len(a)} {what} each"
    return Difference(
        math.expm1(centre), math.expm1(centre - half), math.expm1(centre + half), f"{test} t over {counts}"
    )


def of_blocks(a: "Windows", b: "Windows") -> Difference:
    """The difference of two throughputs from the steps within their windows, by the block bootstrap of both.

    The quantiles of log(b) - log(a) over independent resamples (tbd/measure/throughput.py), widened for the few blocks
    of each side with Welch's degrees of freedom. It knows nothing of what differs between processes. Raises Absent.
    """
    drawn = [np.log(throughput.resampled(*side, seed=throughput.SEED + number)) for number, side in enumerate((a, b))]
    blocks = [throughput.blocks_in(len(side.items)) for side in (a, b)]
    freedom = _welch_freedom([float(np.var(one)) for one in drawn], [count - 1 for count in blocks])
    low, high = np.quantile(drawn[1] - drawn[0], throughput.ends(min(blocks), freedom))
    centre = math.log(throughput.throughput(b.items, b.window_s) / throughput.throughput(a.items, a.window_s))
    lengths = " and ".join(dict.fromkeys(str(throughput.block_steps(len(side.items))) for side in (a, b)))
    source = f"bootstrap over blocks of {lengths} steps: it knows nothing of what differs between processes"
    return Difference(math.expm1(centre), math.expm1(min(low, centre)), math.expm1(max(high, centre)), source, True)


class Windows(NamedTuple):
    """The timed steps of one side: items and seconds of each, and the wall time of all windows."""

    items: Array
    step_times_s: Array
    window_s: float


def spreads(a: Sequence[float], b: Sequence[float]) -> float:
    """The standard deviation of the logarithms within the two samples, pooled: its square is the squared deviations
    from each side's mean / (na + nb - 2)."""
    freedom = len(a) + len(b) - 2
    squares = [float(((np.log(side) - np.mean(np.log(side))) ** 2).sum()) for side in (a, b)]
    return math.sqrt(sum(squares) / freedom) if freedom else math.nan


def half_width(spread: float, a: int, b: int) -> float:
    """Half of the 95 % interval of a difference of means: t(0.975, a + b - 2) spread sqrt(1 / a + 1 / b)."""
    return _t(a + b - 2, 0.5 + CONFIDENCE / 2) * spread * math.sqrt(1 / a + 1 / b)


def more_repeats(spread: float, a: int, b: int, margin: float) -> tuple[int, int] | None:
    """How many more values each side needs, to tell with a power of 90 % a difference of `margin` (a logarithm).

    The smallest n for both with (t(0.975, 2 n - 2) + z(0.9)) spread sqrt(2 / n) <= margin; a side that has more of them
    needs none, and none needs more than n. None where n would be above MOST_REPEATS.
    """
    for n in range(2, MOST_REPEATS + 1):
        if (_t(2 * n - 2, 0.5 + CONFIDENCE / 2) + _t(math.inf, POWER)) * spread * math.sqrt(2 / n) <= margin:
            return max(0, n - a), max(0, n - b)
    return None


def _centre(a: Sequence[float], b: Sequence[float]) -> float:
    return float(np.log(b).mean() - np.log(a).mean())


def _welch(a: Array, b: Array) -> float:
    """Half of the interval, from logarithms."""
    errors = [float(np.var(side, ddof=1)) / len(side) for side in (a, b)]
    freedom = _welch_freedom(errors, [len(a) - 1, len(b) - 1])
    return _t(freedom, 0.5 + CONFIDENCE / 2) * math.sqrt(sum(errors))


def _welch_freedom(errors: Sequence[float], freedom: Sequence[float]) -> float:
    """Degrees of freedom of a sum of two squared errors (Satterthwaite 1946)."""
    below = sum(error**2 / degrees for error, degrees in zip(errors, freedom, strict=True))
    return sum(errors) ** 2 / below if below > 0 else sum(freedom)


def _t(freedom: float, probability: float) -> float:
    """The quantile of Student's t; of the normal distribution where `freedom` is infinite."""
    # imported here, since scipy takes a while to import and other commands need none of it
    from scipy.special import ndtri, stdtrit

    return float(ndtri(probability) if math.isinf(freedom) else stdtrit(freedom, probability))
