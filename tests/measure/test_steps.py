"""Step times and their spread."""

import numpy as np
import pytest

from tbd.measure.events import Absent
from tbd.measure.steps import jitter_ms, percentile_ms, step_times, unseen_share


def test_the_first_step_counts_from_the_windows_begin():
    assert step_times(np.array([1.5, 2.0, 4.0]), 1.0).tolist() == [0.5, 0.5, 2.0]


def test_a_step_that_ended_before_the_window():
    with pytest.raises(Absent, match="before the window began"):
        step_times(np.array([1.5]), 2.0)


def test_percentiles_interpolate():
    assert percentile_ms(np.array([0.1, 0.2]), 50) == pytest.approx(150)


def test_jitter_estimates_the_deviation_and_ignores_outliers():
    times = 1 + 0.05 * np.random.default_rng(1).standard_normal(100_000)
    assert jitter_ms(times) == pytest.approx(50, rel=0.02)
    assert jitter_ms(np.append(times, [100.0] * 100)) == pytest.approx(50, rel=0.02)


def test_unseen_share():
    assert unseen_share(np.array([0.25, 0.25]), 1.0) == 0.5
