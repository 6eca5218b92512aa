"""CPU time within the window, from samples of a cumulative counter."""

import numpy as np
import pytest

from tbd.measure.events import Absent, Sample, Window
from tbd.measure.utilisation import cpu_seconds, cpu_utilization, data_wait_share, emulator_share, other_cpu_cores

WINDOW = Window(begin=10.1, end=12.1, steps=4, cpu_s=None)


def samples(*pairs):
    return [Sample(t, cpu_s, None, None, {}) for t, cpu_s in pairs]


EVERY = [(10 + 0.25 * n, 4.0 * n) for n in range(10)]


def test_the_edges_are_interpolated():
    # 16 CPU seconds a second
    assert cpu_seconds(samples(*EVERY), WINDOW, "cpu_s") == pytest.approx(32)


def test_the_order_of_samples_does_not_matter():
    assert cpu_seconds(samples(*reversed(EVERY)), WINDOW, "cpu_s") == pytest.approx(32)


def test_what_happens_outside_the_window_does_not_count():
    more = [(9.0, -500.0), *EVERY, (13.0, 900.0)]
    assert cpu_seconds(samples(*more), WINDOW, "cpu_s") == pytest.approx(32)


@pytest.mark.parametrize("pairs", [EVERY[1:], EVERY[:8]])
def test_samples_must_enclose_the_window(pairs):
    with pytest.raises(Absent, match="enclose"):
        cpu_seconds(samples(*pairs), WINDOW, "cpu_s")


def test_too_few_samples():
    with pytest.raises(Absent, match=r"only 1 sample\(s\) lie within the timed window of 2.00 s"):
        cpu_seconds(samples((10, 0), (11, 2), (13, 4)), WINDOW, "cpu_s")


def test_a_counter_that_goes_backwards():
    pairs = [(t, cpu - (5 if t > 11 else 0)) for t, cpu in EVERY]
    with pytest.raises(Absent, match="goes backwards"):
        cpu_seconds(samples(*pairs), WINDOW, "cpu_s")


def test_no_sample_of_it():
    with pytest.raises(Absent, match="no sample"):
        cpu_seconds(samples(*EVERY), WINDOW, "controller_cpu_s")


def test_utilization_is_of_all_usable_cores():
    assert cpu_utilization(3.0, 2, WINDOW.seconds) == pytest.approx(0.75)


def test_more_cpu_time_than_cores_is_no_utilization():
    with pytest.raises(Absent, match="5.00 CPU seconds can't be had from 2 cores in 2.00 s"):
        cpu_utilization(5.0, 2, WINDOW.seconds)


def test_unknown_cores():
    with pytest.raises(Absent, match="cores"):
        cpu_utilization(3.0, None, WINDOW.seconds)


def test_a_worker_that_ends_with_its_window_is_not_sampled_again():
    # 1.5 CPU seconds a second, sampled until 0.25 s before the window's end
    pairs = [(t, 1.5 * t) for t in np.arange(9.85, 11.86, 0.25)]
    assert cpu_seconds(samples(*pairs), WINDOW, "cpu_s") == pytest.approx(3.0, rel=1e-9)


def test_the_share_of_emulators_is_of_all_windows():
    assert emulator_share([0.5, 1.0], 6.0) == pytest.approx(0.25)


@pytest.mark.parametrize("waits", [[None], [0.5, None]])
def test_data_that_are_not_played_have_no_emulator_share(waits):
    with pytest.raises(Absent, match="not played"):
        emulator_share(waits, 6.0)


def test_cores_that_others_kept_busy():
    assert other_cpu_cores(5.0, 3.0, 0.5, 2.0) == pytest.approx(0.75)
    assert other_cpu_cores(3.49, 3.0, 0.5, 2.0) == 0.0, "the kernel's ticks round"
    with pytest.raises(Absent, match="less than the run's own"):
        other_cpu_cores(2.0, 3.0, 0.5, 2.0)


def test_data_wait():
    assert data_wait_share(np.array([0.5, 0.5]), WINDOW.seconds) == pytest.approx(0.5)
    with pytest.raises(Absent, match="sum to 1.50 of the window"):
        data_wait_share(np.array([1.5, 1.5]), WINDOW.seconds)
