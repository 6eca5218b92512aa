"""Figures with intervals, and runs put together as curves."""

import math

import numpy as np
import pytest

from tbd.analysis.curves import curves, gain_a_doubling
from tbd.analysis.evidence import Evidence
from tbd.analysis.scaling import scaled
from tbd.analysis.values import Value, above, both, product, ratio, value
from tests.analysis.made import made, sweep


def test_the_interval_of_three_runs_is_students() -> None:
    found = value([made(throughput=rate) for rate in (9.0, 10.0, 11.0)], "throughput")
    assert found is not None
    assert found.value == pytest.approx(10) and found.runs == 3
    assert found.high - found.value == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)  # t(0.975, 2), s = 1


def test_the_interval_of_few_runs_reaches_over_their_own() -> None:
    found = value([made(throughput=100.0, noise=0.02), made(throughput=110.0, noise=0.01)], "throughput")
    assert found == Value(105.0, pytest.approx(98.0), pytest.approx(111.1), 2)
    assert value([made(mfu=0.5)], "mfu") == Value(0.5, 0.5, 0.5)
    assert value([made()], "mfu") is None


@pytest.mark.parametrize("powers", [(1.0, -1.0), (0.5, -0.5), (1.0, -2.0)])
def test_a_products_interval_covers_as_often_as_its_factors_do(powers: tuple[float, float]) -> None:
    """With normal errors of 3 and 5 %, 2,000 times: 95 % within the simulation's error, 3 standard errors."""
    random = np.random.RandomState(0)
    truth, spread, count = (100.0, 50.0), (0.03, 0.05), 2_000
    expected = math.prod(t**p for t, p in zip(truth, powers, strict=True))
    hit = 0
    for draw in random.standard_normal((count, 2)):
        seen = [
            (Value(v, v - 1.96 * s * t, v + 1.96 * s * t), p)
            for t, s, p, z in zip(truth, spread, powers, draw, strict=True)
            for v in [t * (1 + s * z)]
        ]
        found = product(seen)
        hit += found.low <= expected <= found.high
    assert hit / count == pytest.approx(0.95, abs=3 * math.sqrt(0.95 * 0.05 / count))


def test_a_ratio_by_nothing_says_nothing() -> None:
    assert above(ratio(Value(1, 1, 1), Value(0, 0, 0)), 1) is None
    assert ratio(Value(10, 0, 20), Value(5, 5, 5)).low == 0


def test_claims_together() -> None:
    assert both(True, True) is True and both(True, None) is None and both(None, False) is False


def test_runs_that_differ_in_the_batch_alone_are_a_curve() -> None:
    runs = [*sweep("resnet50", {16: 2.0, 8: 1.0}), made(throughput=1.1, params={"tracking.runs": "elsewhere"})]
    (curve,) = curves(runs)
    assert list(curve.points) == [8, 16] and len(curve.points[8]) == 2
    assert curve.label == "resnet50 pytorch"


def test_what_tells_curves_apart_is_in_their_labels() -> None:
    labels = [
        curve.label
        for curve in curves(
            [
                made(),
                made(compiler="inductor"),
                made(precision="bf16", params={"hardware.threads": "1"}),
                made("wgan"),
                made("wgan", framework="jax", precision="bf16"),
            ]
        )
    ]
    assert sorted(labels) == [
        "resnet50 pytorch eager bf16",
        "resnet50 pytorch eager fp32",
        "resnet50 pytorch inductor fp32",
        "wgan jax",
        "wgan pytorch",
    ]


def test_a_gain_is_a_doublings_whatever_the_step() -> None:
    assert gain_a_doubling((8, Value(100, 100, 100)), (32, Value(400, 400, 400))).value == pytest.approx(2)


def test_scaling_is_against_one_device_with_the_same_batch() -> None:
    runs = [
        *sweep("resnet50", {8: 100.0, 16: 150.0}, hardware="single_gpu"),
        made("resnet50", 16, 270.0, hardware="multi_gpu", devices=2),
        made("wgan", 16, 270.0, hardware="multi_gpu", devices=2),
    ]
    (found,) = scaled(Evidence(runs))
    assert (found.devices, found.nodes, found.batch) == (2, 1, 16)
    assert found.speedup.value == pytest.approx(1.8) and found.efficiency.value == pytest.approx(0.9)
