"""Achieved, peak, and their ratio."""

import numpy as np
import pytest

from tbd.measure.events import Absent, MatrixProduct
from tbd.measure.flops import achieved_tflops, mfu, peak_tflops_measured


def product(size, *seconds, precision="fp32"):
    return MatrixProduct(size, precision, np.array(seconds))


def test_achieved():
    assert achieved_tflops(np.array([1e12, 3e12]), 2.0) == 2.0


@pytest.mark.parametrize("flops", [None, np.zeros(3)])
def test_unknown_flops(flops):
    with pytest.raises(Absent, match="no FLOPs"):
        achieved_tflops(flops, 2.0)


def test_the_peak_is_the_fastest_product():
    assert peak_tflops_measured([product(1000, 0.5, 0.25, 4.0)], "fp32") == pytest.approx(2e9 / 0.25 / 1e12)


def test_of_several_sizes_the_best():
    products = [product(100, 0.25), product(1000, 0.25)]
    assert peak_tflops_measured(products, "fp32") == pytest.approx(2e9 / 0.25 / 1e12)


@pytest.mark.parametrize("products", [[], [product(1000, 1.0, precision="fp64")], [product(1000)], [product(0, 1.0)]])
def test_no_peak_of_this_precision(products):
    with pytest.raises(Absent, match="no matrix product in fp32"):
        peak_tflops_measured(products, "fp32")


def test_mfu():
    assert mfu(1.0, 4.0) == 0.25
    with pytest.raises(Absent, match="achieved 5 TFLOP/s is more than the measured peak of 4"):
        mfu(5.0, 4.0)
