import numpy as np
import pytest

from tbd.measure.changes import change_points

NOISE = 0.01


def levels(*parts: tuple[int, float], seed: int = 1) -> np.ndarray:
    """A series of (how many values, their level) with noise."""
    random = np.random.default_rng(seed)
    return np.concatenate([random.normal(level, NOISE, count) for count, level in parts])


@pytest.mark.parametrize(
    "parts, expected",
    [
        (((10, 0.0), (10, -0.05)), [10]),
        (((8, 0.0), (3, -0.08), (8, 0.0)), [8, 11]),  # it falls and recovers
        (((6, 0.0), (6, 0.05), (6, 0.1)), [6, 12]),
        (((20, 0.0), (3, -0.1)), [20]),  # the newest runs
    ],
)
def test_steps_are_found_where_they_are(parts: tuple[tuple[int, float], ...], expected: list[int]) -> None:
    assert change_points(levels(*parts)) == expected


def test_one_outlier_is_no_new_level() -> None:
    series = levels((21, 0.0))
    series[10] += 0.05
    assert change_points(series) == []


@pytest.mark.parametrize("length", [6, 12, 40])
def test_noise_alone_has_steps_in_about_5_percent_of_series(length: int) -> None:
    found = [bool(change_points(levels((length, 0.0), seed=100 + number))) for number in range(400)]
    assert 0.02 <= np.mean(found) <= 0.08


def test_too_few_values_have_none() -> None:
    assert change_points(np.array([1.0, 2.0, 3.0, 9.0, 9.0])) == [] and change_points(np.array([1.0])) == []
