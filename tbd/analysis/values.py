"""Figures with their intervals, and what can be said of two of them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from tbd.analysis.runs import Run
from tbd.measure.metrics import find as metric_of

CONFIDENCE = 0.95


class Value(NamedTuple):
    """A figure and its 95 % interval; one that has none is taken as exact. `runs`: of how many it is the mean."""

    value: float
    low: float
    high: float
    runs: int = 1

    def times(self, factor: float) -> "Value":
        return Value(self.value * factor, self.low * factor, self.high * factor, self.runs)


def value(runs: Sequence[Run], metric: str) -> Value | None:
    """The figure of runs with the same settings: their mean. None where no run has it.

    The interval of three runs and more is Student's t over them (1908), since what differs between whole runs is more
    than one run can know of; of one or two it reaches from the lowest to the highest end of their own.
    """
    found = [run for run in runs if metric in run.metrics]
    if not found:
        return None
    values = [run.metrics[metric] for run in found]
    mean = math.fsum(values) / len(values)
    if len(values) >= 3:
        half = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * float(np.std(values, ddof=1))
        half /= math.sqrt(len(values))
        return Value(mean, max(0.0, mean - half), mean + half, len(values))
    ends = metric_of(metric).interval
    lows, highs = (
        [run.metrics.get(ends[side], run.metrics[metric]) if ends else run.metrics[metric] for run in found]
        for side in (0, 1)
    )
    return Value(mean, min(lows), max(highs), len(values))


def product(factors: Sequence[tuple[Value, float]]) -> Value:
    """The product of the values to their powers, with its interval, by MOVER on the logarithms.

    The distances from each figure to its interval's ends, times its power, are added as squares (Zou and Donner,
    Statistics in Medicine 27, 2008): of ends that are 95 % each the result is 95 % again, where no two factors come
    from the same runs. An interval that reaches to 0 makes an end of the product 0 or infinite.
    """
    runs = min(factor.runs for factor, _ in factors)
    if not all(factor.value > 0 for factor, _ in factors):
        return Value(math.nan, 0.0, math.inf, runs)
    middle = math.exp(math.fsum(power * math.log(factor.value) for factor, power in factors))
    falls = [(_log(factor.value, factor.low), _log(factor.high, factor.value)) for factor, _ in factors]
    down = math.hypot(*(power * fall[power < 0] for fall, (_, power) in zip(falls, factors, strict=True)))
    up = math.hypot(*(power * fall[power > 0] for fall, (_, power) in zip(falls, factors, strict=True)))
    return Value(middle, middle * math.exp(-down), middle * math.exp(up), runs)


def ratio(a: Value, b: Value) -> Value:
    """a / b with its interval."""
    return product([(a, 1.0), (b, -1.0)])


def above(a: Value, limit: float) -> bool | None:
    """Whether the figure is above the limit; None where its interval holds the limit."""
    if a.low > limit:
        return True
    return False if a.high < limit else None


def both(*claims: bool | None) -> bool | None:
    """Whether all the claims are true: one that is false decides, else one that can't be told leaves it open."""
    if False in claims:
        return False
    return None if None in claims else True


def _log(large: float, small: float) -> float:
    return math.log(large / small) if small > 0 else math.inf
