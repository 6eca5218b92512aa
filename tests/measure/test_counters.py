"""Energy, counters and clocks over the timed window, from samples at known times."""

import pytest

from tbd.measure import counters
from tbd.measure.events import Absent, Sample, Window

WINDOW = Window(10.0, 20.0, 100, None)


def samples(values, name="joules", period=1.0, first=8.0):
    return [Sample(first + n * period, None, None, None, {name: value}) for n, value in enumerate(values)]


def test_energy_is_what_the_counter_rose_by_in_the_window():
    # 100 W before the window, 300 W in it and after it
    rising = [max(0, t - 2) * 300 + min(t, 2) * 100 for t in range(16)]
    assert counters.joules(samples(rising), WINDOW, "joules") == pytest.approx(3000)


def test_the_counter_is_interpolated_at_the_windows_edges():
    found = samples([0, 60, 120, 180, 240], period=3.0, first=9.5)
    assert counters.joules(found, WINDOW, "joules") == pytest.approx(200)


def test_samples_that_end_a_little_early_are_scaled():
    assert counters.joules(samples(range(0, 1200, 100)), Window(10.0, 19.5, 1, None), "joules") == pytest.approx(950)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (samples([0, 1, 2]), "don't enclose"),
        (samples(range(20), first=11.0), "don't enclose"),
        (samples([0, 100, 200], period=8.0), "only 1 of its samples"),
        (samples([5, 4, 3, 2, 1] * 4), "went backwards"),
        (samples(range(20), "another"), "not sampled"),
    ],
)
def test_what_the_samples_do_not_tell_is_absent(found, reason):
    with pytest.raises(Absent, match=reason):
        counters.joules(found, WINDOW, "joules")


def test_a_mean_weighs_each_reading_by_its_time_within_the_window():
    # readings of the 4 s before them: 10.5 has 0.5 s in the window, 14.5 and 18.5 four each, 22.5 has 1.5 s
    found = samples([99, 40, 80, 20, 60], period=4.0, first=6.5)
    assert counters.mean(found, WINDOW, "joules") == pytest.approx((0.5 * 40 + 4 * 80 + 4 * 20 + 1.5 * 60) / 10)


def test_clocks_held_down_within_the_window_have_their_reasons():
    bits = [0x40, 0x1, 0x4, 0x2, 0x4 | 0x20, *[0] * 10]
    assert counters.throttled(samples(bits), WINDOW, "joules") == ["power cap", "software thermal slowdown"]
    assert counters.throttled(samples([0x4, 0x1, 0x2, 0x100, *[1] * 10]), WINDOW, "joules") == []
