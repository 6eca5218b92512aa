"""The difference of two runs: against scipy's tests, and how often its interval holds the truth."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tbd.measure import difference
from tbd.measure.difference import Difference, Windows
from tbd.measure.events import Absent
from tbd.measure.run import Run
from tests import sleeping

SLOWER = 1.05  # the second side's step times, of the first's: its throughput is 1 / 1.05
COMPARISONS = 1000


def covers(compare: Callable[[Run, Run], Difference], folder: Path, passes: int, steps: int, **noise: float) -> float:
    """In how many of 1,000 comparisons of runs of the sleep framework the interval holds the true difference."""
    random = np.random.default_rng(7)
    held = 0
    for _ in range(COMPARISONS):
        for name, slower in (("a", 1.0), ("b", SLOWER)):
            sleeping.train(folder / name, sleeping.noisy(random, passes, steps, slower, **noise))
        found = compare(Run(folder / "a"), Run(folder / "b"))
        assert found.low is not None and found.high is not None
        held += found.low <= 1 / SLOWER - 1 <= found.high
    return held / COMPARISONS


def of_blocks(a: Run, b: Run) -> Difference:
    return difference.of_blocks(*(Windows(run.items("images")[0], run.times_s, run.seconds) for run in (a, b)))


def test_the_interval_of_three_repeats_each_covers_the_true_difference(tmp_path: Path) -> None:
    """Each start of the program differs by 5 %, for its whole life, and its slow steps come together."""
    noise = {"of_process": 0.05, "of_step": 0.1, "correlation": 0.7}
    assert 0.93 <= covers(lambda a, b: difference.of_values(a.rates, b.rates), tmp_path, 3, 20, **noise) <= 0.97


def test_the_interval_of_blocks_covers_where_processes_are_alike(tmp_path: Path) -> None:
    assert 0.93 <= covers(of_blocks, tmp_path, 1, 60, of_process=0.0) <= 0.97


def test_it_is_welchs_interval_of_the_logarithms() -> None:
    a, b = [100.0, 103.0, 98.0, 101.0], [110.0, 104.0, 117.0]
    found = difference.of_values(a, b)
    expected = stats.ttest_ind(np.log(b), np.log(a), equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.expm1(expected.low), math.expm1(expected.high)))
    assert math.log1p(found.change) == pytest.approx(np.log(b).mean() - np.log(a).mean())


@pytest.mark.parametrize("alike, b", [(True, [110.0, 104.0, 117.0]), (False, [110.0])])
def test_where_both_spread_alike_it_is_students_interval(alike: bool, b: list[float]) -> None:
    a = [100.0, 103.0, 98.0, 101.0]
    found = difference.of_values(a, b, alike=alike)
    s = difference.spreads(a, b) * math.sqrt(1 / len(a) + 1 / len(b))
    half = stats.t.ppf(0.975, len(a) + len(b) - 2) * s
    centre = math.log1p(found.change)
    assert (found.low, found.high) == pytest.approx((math.expm1(centre - half), math.expm1(centre + half)))


def test_the_other_way_round_it_says_the_same() -> None:
    a, b = [100.0, 103.0, 98.0], [110.0, 104.0, 117.0]
    there, back = difference.of_values(a, b), difference.of_values(b, a)
    assert there.low is not None and back.high is not None
    assert (1 + there.change) * (1 + back.change) == pytest.approx(1)
    assert (1 + there.low) * (1 + back.high) == pytest.approx(1)


def test_values_without_noise_differ_for_sure() -> None:
    found = difference.of_values([10.0] * 3, [11.0] * 3)
    assert (found.change, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))
    assert found.significant and not difference.of_values([10.0] * 3, [10.0] * 3).significant


def test_two_values_have_no_interval() -> None:
    with pytest.raises(Absent, match="an interval needs 3 runs of the two together, there are 2"):
        difference.of_values([1.0], [2.0])


def test_the_repeats_that_are_asked_for_tell_the_margin_with_a_power_of_90_percent() -> None:
    spread, margin = 0.01, 0.01
    more = difference.more_repeats(spread, 3, 4, margin)
    assert more is not None
    n = 3 + more[0]
    assert 4 + more[1] == n
    random = np.random.default_rng(3)
    a, b = random.normal(0, spread, (4000, n)), random.normal(margin, spread, (4000, n))
    s = np.sqrt((a.var(axis=1, ddof=1) + b.var(axis=1, ddof=1)) / 2)
    told = b.mean(axis=1) - a.mean(axis=1) > difference.half_width(1.0, n, n) * s
    assert 0.88 <= told.mean() <= 0.93


def test_a_side_that_has_enough_needs_no_more() -> None:
    more = difference.more_repeats(0.01, 100, 5, 0.01)
    assert more is not None and more[0] == 0 and more[1] > 0
    assert difference.more_repeats(1.0, 3, 3, 0.001) is None
