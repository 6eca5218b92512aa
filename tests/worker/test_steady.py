import pytest

from tbd.worker import steady
from tbd.worker.steady import MAX_DRIFT, WINDOW, verdict


def test_equal_steps_are_steady() -> None:
    assert verdict([0.1] * WINDOW, [1.0] * WINDOW) == (True, 0.0, 0.0)


def test_too_few_steps_are_not_steady() -> None:
    assert verdict([0.1] * (WINDOW - 1), [1.0] * (WINDOW - 1)) == (False, None, None)


def test_drift_is_the_ratio_of_the_halves_medians() -> None:
    times = [0.2] * (WINDOW // 2) + [0.1] * (WINDOW // 2)
    found = verdict(times, [1.0] * WINDOW)
    assert not found.steady
    assert found.drift == pytest.approx(0.5)


@pytest.mark.parametrize("excess, steady_expected", [(-0.01, True), (0.01, False)])
def test_drift_on_both_sides_of_its_bound(excess: float, steady_expected: bool) -> None:
    half = WINDOW // 2
    times = [1.0] * half + [1.0 + MAX_DRIFT + excess] * half
    assert verdict(times, [1.0] * WINDOW).steady is steady_expected


def test_variation_is_the_scaled_median_absolute_deviation() -> None:
    times = [1.0, 1.5, 1.0, 1.5] * (WINDOW // 4)
    found = verdict(times, [1.0] * WINDOW)
    assert found.drift == 0.0
    assert found.variation == pytest.approx(1.4826 * 0.25 / 1.25)
    assert not found.steady


def test_only_the_last_steps_count() -> None:
    assert verdict([9.0] * 5 + [0.1] * WINDOW, [1.0] * (5 + WINDOW)).steady


def test_batches_of_different_work_are_compared_by_their_cost() -> None:
    work = [1.0, 3.0, 2.0, 5.0] * (WINDOW // 4)
    assert verdict([0.1 * w for w in work], work).steady
    assert not verdict([0.1 * w for w in work], [1.0] * WINDOW).steady


def test_the_window_has_two_equal_halves() -> None:
    assert steady.WINDOW % 2 == 0
