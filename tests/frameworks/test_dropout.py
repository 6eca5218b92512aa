"""What each framework's dropout makes of ones, through its adapter: masks.py."""

import pathlib
import subprocess

import numpy
import pytest

from tbd.frameworks import facts
from tests.frameworks.masks import NETWORKS, RATE
from tests.parity import cells

SCRIPT = pathlib.Path(__file__).with_name("masks_facts.py")


def made(framework, precision, seed, folder):
    path = folder / f"{precision}-{seed}.npz"
    command = [cells.framework_python(framework), str(SCRIPT), framework, precision, str(seed), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    with numpy.load(path) as found:
        return dict(found)


@pytest.fixture(scope="module", params=sorted(NETWORKS))
def framework(request):
    return request.param


@pytest.fixture(scope="module")
def ones(framework, tmp_path_factory):
    return made(framework, "fp32", 1, tmp_path_factory.mktemp(framework))


def test_each_number_is_dropped_or_scaled(ones):
    for array in ones.values():
        assert numpy.all((array == 0) | (abs(array - 1 / (1 - RATE)) < 1e-6))


def test_the_rate_is_kept_whatever_the_precision(framework, ones, tmp_path):
    # of 20,000 numbers the share has a standard deviation of 0.2 %
    offered = facts(framework).PRECISIONS["cpu"]
    other = "bf16" if "bf16" in offered else "fp64"  # bf16 has few numbers below 1 to draw from
    for found in (ones, made(framework, other, 1, tmp_path)):
        for array in found.values():
            assert numpy.mean(array == 0, axis=1) == pytest.approx(RATE, abs=0.01)


def test_each_use_and_each_step_has_a_mask_of_its_own(ones):
    masks = [mask != 0 for array in ones.values() for mask in array]
    for n, mask in enumerate(masks):
        for other in masks[:n]:
            # two that know nothing of each other differ in 2 x 0.1 x 0.9 of the places
            assert numpy.mean(mask != other) == pytest.approx(2 * RATE * (1 - RATE), abs=0.02)


def test_the_runs_seed_decides(framework, ones, tmp_path):
    again, other = (made(framework, "fp32", seed, tmp_path) for seed in (1, 2))
    assert all(numpy.array_equal(again[name], ones[name]) for name in ones)
    assert not any(numpy.array_equal(other[name], ones[name]) for name in ones)
