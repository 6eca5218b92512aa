"""Every framework trains the same network: the reference is PyTorch in float64 on the CPU."""

import json
import pathlib
import subprocess

import pytest

from tbd import models
from tests.parity import compare, faults
from tests.parity.cells import CELLS

PLANTED = [(fault, model, framework) for model, framework in CELLS for fault in faults.of_model(model)]


@pytest.fixture
def reference(observation):
    return lambda model: observation(model, "pytorch", "fp64")


@pytest.mark.parametrize(("model", "framework"), CELLS)
def test_float64_agrees(model, framework, observation, reference):
    wrong = compare.failures(observation(model, framework, "fp64"), reference(model))
    assert not wrong, "differs from PyTorch in float64, and either may be wrong:\n" + "\n".join(wrong)


@pytest.mark.parametrize(("model", "framework"), CELLS)
def test_float32_agrees_as_well_as_pytorch_does(model, framework, observation, reference):
    own = observation(model, "pytorch", "fp32")
    wrong = compare.failures(observation(model, framework, "fp32"), reference(model), own)
    assert not wrong, "differs from PyTorch by more than float32 does:\n" + "\n".join(wrong)


@pytest.mark.parametrize("model", models.names())
def test_the_calibration_of_float32_is_no_free_pass(model, observation, reference):
    """Three times the largest of PyTorch's own errors is still far below what a real mistake makes."""
    own = compare.errors(observation(model, "pytorch", "fp32"), reference(model))
    assert max(own.values()) < 1e-3


@pytest.mark.parametrize(("fault", "model", "framework"), PLANTED)
def test_a_planted_fault_fails(fault, model, framework, observation, reference):
    own = observation(model, "pytorch", "fp32")
    assert compare.failures(observation(model, framework, "fp32", fault), reference(model), own) != []


def test_other_initial_weights_fail_though_training_goes_the_same_way(observation, reference):
    right = reference("resnet50")
    other = dict(right, **{"initial/fc.bias": right["initial/fc.bias"] + 1e-7})
    assert compare.failures(other, right) == ["initial/fc.bias: not the specification's initial weights"]


@pytest.mark.parametrize("model", models.names())
def test_operations_are_those_that_pytorch_counts(model, framework_python):
    command = [framework_python("pytorch"), str(pathlib.Path(__file__).parent / "count.py"), model]
    counted = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert counted["forward"] == 2 * counted["macs"]
    # seq2seq's step is 0.26 % more than is counted: the gradient of v is an outer product, which is not counted
    assert counted["step"] == pytest.approx(counted["flops"], rel=0.003)
