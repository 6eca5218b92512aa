"""Throughput, and how often its interval holds the truth."""

import numpy as np
import pytest

from tbd.measure.events import Absent
from tbd.measure.throughput import interval, interval_of_repeats, over_time, throughput


def test_a_ratio_of_sums_not_a_mean_of_rates():
    # 8 items in 1 s, then 8 in 3 s: 4 items/s; the mean of the rates 8 and 2.67 would be 5.33
    assert throughput(np.array([8.0, 8.0]), 4.0) == 4.0


def test_the_interval_holds_the_throughput_and_is_scaled_to_the_window():
    times = np.random.default_rng(1).uniform(0.5, 1.5, 30)
    items = np.full(30, 8.0)
    seen = interval(items, times, times.sum())
    assert seen.low < throughput(items, times.sum()) < seen.high
    # a window twice as long as the steps' sum halves the rate and both ends
    longer = interval(items, times, 2 * times.sum())
    assert (longer.low, longer.high) == pytest.approx((seen.low / 2, seen.high / 2), rel=1e-12)


def test_a_block_is_a_sixth_of_the_window():
    ones = np.ones(30)
    assert interval(ones, ones, 30.0).source == "bootstrap over blocks of 5 steps"


def test_items_that_explain_the_times_leave_no_uncertainty():
    """Pairs are resampled, not rates: long batches that take long are no noise."""
    items = np.random.default_rng(1).integers(50, 200, 30).astype(float)
    found = interval(items, items / 100, items.sum() / 100)
    assert (found.low, found.high) == pytest.approx((100, 100), rel=1e-12)


def test_correlated_noise_widens_the_interval():
    slow_half = np.repeat([1.0, 1.5], 20)
    mixed = np.tile([1.0, 1.5], 20)
    items = np.ones(40)

    def width(times):
        found = interval(items, times, times.sum())
        return found.high - found.low

    assert width(slow_half) > 3 * width(mixed)


def test_too_few_steps():
    with pytest.raises(Absent, match="at least 12 timed steps, there are 11"):
        interval(np.ones(11), np.ones(11), 11.0)


def test_steps_without_time():
    with pytest.raises(Absent, match="took no time"):
        interval(np.ones(20), np.zeros(20), 1.0)


def correlated(phi, count, generator):
    """Noise of deviation 1 in which neighbours correlate by `phi`: AR(1), after it has forgotten its start."""
    noise = np.zeros(count + 50)
    for index, shock in enumerate(generator.standard_normal(count + 50)):
        noise[index] = phi * noise[index - 1] + np.sqrt(1 - phi**2) * shock
    return noise[50:]


NOISE = {
    "normal": lambda count, generator: 1 + 0.1 * generator.standard_normal(count),
    "log-normal, 30 %": lambda count, generator: np.exp(0.3 * generator.standard_normal(count) - 0.045),
    "correlated by 0.3": lambda count, generator: 1 + 0.1 * correlated(0.3, count, generator),
}


@pytest.mark.parametrize("steps", [20, 50])
@pytest.mark.parametrize("noise", NOISE)
def test_the_interval_holds_the_truth(noise, steps):
    """In 93 to 97 % of windows of known noise with mean 1; beside that, three standard errors of 800 windows."""
    generator = np.random.default_rng(7)
    items = np.full(steps, 8.0)
    held = 0
    for _ in range(800):
        times = NOISE[noise](steps, generator)
        found = interval(items, times, times.sum())
        held += found.low <= 8 <= found.high
    low, high = (0.93, 0.97)
    assert low - 3 * np.sqrt(low * (1 - low) / 800) <= held / 800 <= high + 3 * np.sqrt(high * (1 - high) / 800)


@pytest.mark.parametrize("repeats", [3, 5])
def test_the_interval_of_repeats_holds_the_truth_where_processes_differ(repeats):
    """Processes differ by 3 %, their windows' noise is 0.5 %: in 95 % of 4,000 runs, within three errors of it."""
    generator = np.random.default_rng(11)
    held = 0
    for _ in range(4000):
        rates = 8 * (1 + 0.03 * generator.standard_normal(repeats)) * (1 + 0.005 * generator.standard_normal(repeats))
        seconds = 100 / rates  # the same items in each
        found = interval_of_repeats(list(rates), 100 * repeats / seconds.sum())
        held += found.low <= 8 <= found.high
    assert abs(held / 4000 - 0.95) <= 3 * np.sqrt(0.95 * 0.05 / 4000)


def test_repeats_that_differ_wildly_give_no_negative_rate():
    assert interval_of_repeats([1.0, 1.0, 9.0], 1.4).low == 0


def test_two_repeats_are_no_interval():
    with pytest.raises(Absent, match="at least 3 repeats, there are 2"):
        interval_of_repeats([1.0, 1.1], 1.05)


def test_over_time_keeps_all_items_and_all_time():
    ends = np.cumsum(np.random.default_rng(1).uniform(0.5, 1.5, 1000))
    items = np.arange(1000.0)
    rates = over_time(items, ends, 0.0)
    seconds = np.diff([0.0, *(rate.t for rate in rates)])
    assert len(rates) == 60
    assert sum(rate.rate * s for rate, s in zip(rates, seconds, strict=True)) == pytest.approx(items.sum())
    assert rates[-1].last_step == 999
