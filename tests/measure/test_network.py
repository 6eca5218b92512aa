"""The fitted model of a step over a network, on points that it made itself; and the costs of an all-reduce, by hand."""

import numpy as np
import pytest

from tbd.measure import network
from tbd.measure.events import Absent
from tbd.measure.network import Link, Point, Step

MB, SPEEDS = 1e6, (0.1, 0.3, 1.0, 3.0, 10.0)


def points(step: Step, sent_bytes: float = 2 * MB, speeds=SPEEDS, noise=None) -> list[Point]:
    """Steps over links of these Gbit/s. `noise`: factors."""
    rates = [gbit / network.GBIT_IN_BYTE for gbit in speeds]
    factors = noise if noise is not None else [1.0] * len(rates)
    return [
        Point(rate, sent_bytes, step.seconds(sent_bytes / rate) * factor)
        for rate, factor in zip(rates, factors, strict=True)
    ]


def test_a_step_waits_for_what_is_not_hidden():
    step = Step(compute_s=0.1, overlap_s=0.04)
    assert [step.seconds(transfer) for transfer in (0.0, 0.04, 0.05, 1.0)] == pytest.approx([0.1, 0.1, 0.11, 1.06])


@pytest.mark.parametrize("overlap_s", [0.01, 0.02, 0.09])
def test_points_of_the_model_give_its_parameters_and_no_error(overlap_s):
    found = network.fit(points(Step(0.1, overlap_s)))
    assert found.step == pytest.approx((0.1, overlap_s), rel=1e-9)
    assert np.abs(found.errors).max() < 1e-9
    assert found.slow_enough and found.fast_enough
    inner = [error for error in found.left_out[1:-1] if error is not None]
    assert len(inner) == 3 and np.abs(inner).max() < 1e-9


def test_what_the_speeds_cannot_tell_is_said():
    slow = network.fit(points(Step(0.1, 0.001), speeds=(0.1, 0.3, 1.0)))
    assert slow.step.seconds(0.16) == pytest.approx(Step(0.1, 0.001).seconds(0.16))
    assert slow.slow_enough and not slow.fast_enough
    fast = network.fit(points(Step(0.1, 0.09), speeds=(1.0, 3.0, 10.0)))
    assert fast.step.compute_s == pytest.approx(0.1)
    assert fast.fast_enough and not fast.slow_enough


def test_noise_of_some_per_cent_moves_the_parameters_by_as_much():
    random = np.random.default_rng(1)
    for _ in range(10):
        noise = np.exp(random.normal(0, 0.02, 2 * len(SPEEDS)))
        found = network.fit(points(Step(0.1, 0.03), speeds=SPEEDS * 2, noise=noise))
        assert found.step.compute_s == pytest.approx(0.1, rel=0.05)
        assert found.step.overlap_s == pytest.approx(0.03, rel=0.25)
        assert max(abs(error) for error in found.left_out) < 0.15


def test_the_fit_is_the_best_of_all_overlaps():
    """Against every overlap on a fine grid, each with its best compute time."""
    noise = [1.1, 0.9, 1.05, 1.0, 0.97]
    made = points(Step(0.1, 0.03), noise=noise)
    best = sum(error**2 for error in network.fit(made).errors)
    measured = np.array([point.step_s for point in made])
    for overlap in np.linspace(0, 0.2, 2001):
        waits = np.array([max(overlap, point.transfer_s) for point in made]) / measured
        serial = max(0.0, ((1 - waits) / measured).sum() / (1 / measured**2).sum())
        assert best <= ((serial / measured + waits - 1) ** 2).sum() + 1e-12


def test_an_overlap_is_no_longer_than_what_is_computed():
    found = network.fit([Point(1e6, 1e6, 0.9), Point(1e7, 1e6, 0.05)])  # less than the transfer: serial work is not < 0
    assert 0 <= found.step.overlap_s <= found.step.compute_s


def test_one_speed_tells_nothing_of_others():
    with pytest.raises(Absent, match="two speeds"):
        network.fit(points(Step(0.1, 0.0), speeds=(1.0, 1.0)))
    assert network.fit(points(Step(0.1, 0.0), speeds=(0.1, 1.0))).left_out == [None, None]


def test_the_network_is_fast_enough_where_a_tenth_of_a_step_waits():
    step = Step(0.09, 0.04)
    rate = step.enough_bytes_per_s(2 * MB)
    assert rate == pytest.approx(2 * MB / 0.05)
    whole = step.seconds(2 * MB / rate)
    assert (whole - step.compute_s) / whole == pytest.approx(0.1)


def test_costs_of_an_all_reduce():
    link = Link(1e9, 1e-3)
    assert network.ring_s(1, 8e6, link) == network.tree_s(1, 8e6, link) == 0
    assert network.ring_s(2, 8e6, link) == pytest.approx(2e-3 + 8e-3)  # 2 (n - 1) / n = 1
    assert network.ring_s(4, 8e6, link) == pytest.approx(6e-3 + 12e-3)
    # h = 3: twice (8 ms + 6 ms + sqrt(8 x 3 x 1 ms x 8 ms))
    assert network.tree_s(8, 8e6, link) == pytest.approx(2 * (8e-3 + 6e-3 + (24 * 8e-6) ** 0.5))


def test_a_tree_of_any_other_number_of_blocks_takes_longer():
    link, size, height = Link(1e9, 1e-4), 64e6, 6
    by_blocks = [
        2 * (2 * height + 2 * k) * (link.latency_s + size / (2 * k) / link.bytes_per_s) for k in range(1, 3000)
    ]
    assert network.tree_s(64, size, link) == pytest.approx(min(by_blocks), rel=1e-4)
    assert network.tree_s(64, size, link) <= min(by_blocks) + 1e-12


def test_many_ranks_with_small_gradients_are_faster_over_a_tree():
    link = Link(12.5e9, 5e-6)
    assert network.tree_s(512, 1e5, link) < network.ring_s(512, 1e5, link)
    assert network.ring_s(8, 1e9, link) < network.tree_s(8, 1e9, link)
