"""Where a series of runs changed its level: a step up or down that noise alone would hardly make."""

import functools

import numpy as np

from tbd.measure.events import Array

SIGNIFICANCE = 0.05  # the chance that noise alone makes the first step that is found
SHORTEST = 3  # values of a level: one alone may be an outlier
OUTLIER = 2.0  # spreads from its neighbours' median, from which on a value counts no more than at that
SIMULATIONS = 1000
SEED = 20180930  # any fixed number: the same series gives the same steps


def change_points(values: Array) -> list[int]:
    """The indices at which a new level begins, in order. `values`: one a run, such as logarithms of throughputs.

    Binary segmentation: of all places to cut a stretch, the one with the largest
    abs(mean after - mean before) sqrt(n1 n2 / (n1 + n2)) / s is a step where it is larger than in 95 % of series of
    normal noise of the same length; then the same within the two parts. s = 1.4826 median(abs(differences of
    neighbours)) / sqrt(2): neighbours differ by the noise alone but at the steps, and the median leaves those out. So
    a level that falls and recovers is found too. Outliers are drawn in first, as of the noise that it is compared
    with. A slow drift is taken for steps.
    """
    if len(values) < 2 * SHORTEST:
        return []
    spread = _spread(values[None, :])
    return _within(_drawn_in(values[None, :], spread)[0], 0, len(values), float(spread[0]))


def _within(values: Array, begin: int, end: int, spread: float) -> list[int]:
    """The change points of values[begin:end]."""
    if end - begin < 2 * SHORTEST:
        return []
    scores = _scores(values[None, begin:end])[0]
    best = int(scores.argmax())
    if scores[best] <= spread * _threshold(len(values), end - begin):
        return []
    at = begin + SHORTEST + best
    return [*_within(values, begin, at, spread), at, *_within(values, at, end, spread)]


def _scores(rows: Array) -> Array:
    """Of each row, for every place to cut it: how far apart the two means are, by their own uncertainty at spread 1."""
    length = rows.shape[1]
    before = np.arange(SHORTEST, length - SHORTEST + 1)
    sums = np.cumsum(rows, axis=1)
    first = sums[:, before - 1] / before
    second = (sums[:, -1:] - sums[:, before - 1]) / (length - before)
    return np.asarray(np.abs(second - first) * np.sqrt(before * (length - before) / length))


def _drawn_in(rows: Array, spread: Array) -> Array:
    """Each value within OUTLIER spreads of the median of itself and the two on either side, which keeps levels of three
    values and more as they are."""
    near = np.lib.stride_tricks.sliding_window_view(np.pad(rows, ((0, 0), (2, 2)), "reflect"), 5, axis=1)
    middle, reach = np.median(near, axis=2), OUTLIER * spread[:, None]
    return np.clip(rows, middle - reach, middle + reach)


def _spread(rows: Array) -> Array:
    """Of each row, the noise of one value."""
    return np.asarray(1.4826 * np.median(np.abs(np.diff(rows, axis=1)), axis=1) / np.sqrt(2))


@functools.lru_cache
def _threshold(length: int, stretch: int) -> float:
    """What the largest score within a stretch, by the spread of the whole series, stays below in 95 % of noise."""
    noise = np.random.default_rng(SEED).normal(size=(SIMULATIONS, length))
    spread = _spread(noise)
    scores = _scores(_drawn_in(noise, spread)[:, :stretch]).max(axis=1)
    return float(np.quantile(scores / spread, 1 - SIGNIFICANCE))
