"""Throughput: items in the window by its wall time, and how sure that is."""

import math
from typing import NamedTuple

import numpy as np

from tbd.measure.events import Absent, Array

CONFIDENCE = 0.95
OVER_TIME_POINTS = 60
RESAMPLES = 10_000  # the widened 95 % interval's ends are the quantiles 0.004 and 0.996: 40 resamples lie beyond each
SEED = 20180930  # any fixed number: the same spool gives the same interval

# A block is a fixed share of the window, a sixth. Blocks must be long against the noise's correlation, and how long
# that is can't be estimated from a few dozen steps; with a fixed share the interval pays for its few blocks by its
# width instead (Kiefer and Vogelsang 2005, Econometric Theory 21(6), "fixed-b"). The share was chosen by simulation,
# among n/5 to n/10, n^(1/3), n^(1/2) and Politis and White's rule, for coverage at 20 to 50 steps: docs/metrics.md.
BLOCKS = 6
MIN_STEPS = 2 * BLOCKS  # a block of one step says nothing of how neighbours depend on each other


# The fewest whole processes whose own spread is an interval: Student's t of two has one degree of freedom, 12.7
# standard errors wide.
MIN_REPEATS = 3


class Interval(NamedTuple):
    """`source`: what it is worked out from, in the user's words."""

    low: float
    high: float
    source: str


class Rate(NamedTuple):
    """Items per second over consecutive steps; `t`: the monotonic time at which the last of them ended."""

    t: float
    last_step: int
    rate: float


def throughput(items: Array, window_s: float) -> float:
    """Items per second: sum(items) / wall time of the window between two synchronisations.

    A ratio of sums, never a mean of rates, which is biased upwards where steps differ (Jensen's inequality).
    `items`: real items, without padding, of every step in the window.
    """
    return float(items.sum() / window_s)


def interval_of_repeats(rates: list[float], rate: float) -> Interval:
    """The 95 % confidence interval of the throughput `rate` from those of whole processes that did the same.

    rate -/+ t(0.975, n - 1) s / sqrt(n), s the sample standard deviation of the n `rates` (Student 1908). Around
    `rate`, which is items / time over all of them, and not around their mean, which is biased upwards; never below 0.
    It holds what differs between processes and what differs within one. Raises Absent below MIN_REPEATS.
    """
    if len(rates) < MIN_REPEATS:
        raise Absent(f"an interval needs at least {MIN_REPEATS} repeats, there are {len(rates)}: raise measure.repeats")
    from scipy.special import stdtrit

    half = float(stdtrit(len(rates) - 1, 0.5 + CONFIDENCE / 2)) * float(np.std(rates, ddof=1)) / math.sqrt(len(rates))
    return Interval(max(0.0, rate - half), rate + half, f"Student's t over {len(rates)} repeats")


def interval(items: Array, step_times_s: Array, window_s: float) -> Interval:
    """The 95 % confidence interval of the throughput, in items per second, from the steps within the windows.

    Circular block bootstrap (Politis and Romano 1992) of the pairs (items, time) with the ratio estimator
    sum(items) / sum(time): blocks of consecutive steps keep the dependence between neighbours. The percentile interval
    is widened for the few blocks as in Hesterberg 2015, The American Statistician 69(4) ("expanded percentile"), each
    block counting as one observation: with m = steps / block, its ends are the quantiles
    Phi(-/+ sqrt(m / (m - 1)) t(0.975, m - 1)). Step times are scaled to sum to the window.

    It is about noise within the windows; whole processes differ by more, so three and more have interval_of_repeats.
    Raises Absent below MIN_STEPS steps.
    """
    rates = resampled(items, step_times_s, window_s)
    blocks = blocks_in(len(items))
    low, high = np.quantile(rates, ends(blocks, blocks - 1))
    rate = throughput(items, window_s)
    block = block_steps(len(items))
    return Interval(min(float(low), rate), max(float(high), rate), f"bootstrap over blocks of {block} steps")


def block_steps(steps: int) -> int:
    """The steps of a block."""
    return math.ceil(steps / BLOCKS)


def blocks_in(steps: int) -> float:
    """How many blocks that many steps are."""
    return steps / block_steps(steps)


def ends(blocks: float, freedom: float) -> tuple[float, float]:
    """The quantiles of resampled values that are the 95 % interval's ends, from so many blocks with `freedom` degrees:
    Phi(-/+ sqrt(blocks / (blocks - 1)) t(0.975, freedom)), Hesterberg's "expanded percentile"."""
    # imported here, since scipy.stats takes a second to import and other commands need none of it
    from scipy.special import ndtr, stdtrit

    low = float(ndtr(-math.sqrt(blocks / (blocks - 1)) * stdtrit(freedom, 0.5 + CONFIDENCE / 2)))
    return low, 1 - low


def resampled(items: Array, step_times_s: Array, window_s: float, seed: int = SEED) -> Array:
    """RESAMPLES throughputs of windows drawn anew from this one's blocks. Raises Absent below MIN_STEPS steps."""
    steps = len(items)
    if steps < MIN_STEPS:
        raise Absent(f"an interval needs at least {MIN_STEPS} timed steps, there are {steps}: raise measure.steps")
    if step_times_s.sum() <= 0:
        raise Absent("the timed steps took no time by the worker's clock")
    block = block_steps(steps)
    random = np.random.default_rng(seed)
    starts = random.integers(0, steps, (RESAMPLES, math.ceil(steps / block)))
    last_length = steps - (starts.shape[1] - 1) * block  # so that a resample has as many steps as the window

    def drawn(values: Array) -> Array:
        sums = np.concatenate(([0.0], np.cumsum(np.concatenate((values, values)))))
        first, last = starts[:, :-1], starts[:, -1]
        whole = (sums[first + block] - sums[first]).sum(axis=1)
        return np.asarray(whole + sums[last + last_length] - sums[last])

    return np.asarray(drawn(items) / drawn(step_times_s * (window_s / step_times_s.sum())))


def repeats(rates: list[float]) -> tuple[float, float]:
    """(median, (largest - smallest) / median) of the throughputs of whole processes that did the same.

    Processes differ by more than a window's own noise: memory layout, neighbours, temperature.
    Raises Absent for only one.
    """
    if len(rates) < 2:
        raise Absent("fewer than two timing passes have a throughput: measure.repeats asks for more")
    median = float(np.median(rates))
    return median, (max(rates) - min(rates)) / median if median else math.nan


def over_time(items: Array, ends: Array, begin: float, points: int = OVER_TIME_POINTS) -> list[Rate]:
    """Items per second over each of at most `points` groups of consecutive steps, for a plot."""
    rates = []
    edges = np.unique(np.linspace(0, len(ends), min(points, len(ends)) + 1).astype(int))
    for first, after in zip(edges[:-1], edges[1:], strict=True):
        seconds = ends[after - 1] - (begin if first == 0 else ends[first - 1])
        if seconds > 0:
            rates.append(Rate(float(ends[after - 1]), int(after - 1), float(items[first:after].sum() / seconds)))
    return rates
