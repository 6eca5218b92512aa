"""Every framework trains the same network: the reference is PyTorch in float64 on the CPU."""

import json
import pathlib
import subprocess

import pytest

from tbd import models
from tests.models import known
from tests.parity import cells, compare
from tests.parity.cells import CELLS, NETWORKS, mixed, model_of

PLANTED = [(fault, network, framework) for network, framework in CELLS for fault in cells.planted(network, framework)]

SAME = [(form, network, framework) for network, framework in CELLS for form in known.same(model_of(network))]


@pytest.fixture
def reference(observation):
    return lambda network: observation(network, "pytorch", "fp64")


@pytest.fixture
def own(observation):
    """A function: PyTorch's observations of a network in float32, by oneDNN's kernels and by its own."""
    return lambda network: [observation(network, "pytorch", "fp32", kernels) for kernels in ("right", "own_kernels")]


@pytest.mark.parametrize(("network", "framework"), CELLS)
def test_float64_agrees(network, framework, observation, reference):
    wrong = compare.failures(observation(network, framework, "fp64"), reference(network))
    assert not wrong, "differs from PyTorch in float64, and either may be wrong:\n" + "\n".join(wrong)


@pytest.mark.parametrize(("network", "framework"), CELLS)
def test_float32_agrees_as_well_as_pytorch_does(network, framework, observation, reference, own):
    wrong = compare.failures(observation(network, framework, "fp32"), reference(network), own(network))
    assert not wrong, "differs from PyTorch by more than float32 does:\n" + "\n".join(wrong)


@pytest.mark.parametrize(("form", "network", "framework"), SAME)
def test_another_form_of_the_batch_changes_nothing(form, network, framework, observation, reference):
    assert compare.failures(observation(network, framework, "fp64", form), reference(network)) == []


@pytest.mark.parametrize(("network", "framework", "precision"), [(n, f, p) for n, f in CELLS for p in mixed(f)])
def test_mixed_precision_is_rounded_and_no_more(network, framework, precision, observation, reference):
    of_fp32 = observation(network, "pytorch", "fp32")
    wrong = compare.mixed_failures(
        observation(network, framework, "fp32", precision), reference(network), of_fp32, precision
    )
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_calibration_of_float32_is_no_free_pass(network, reference, own):
    """Three times the largest of PyTorch's own errors is still far below what a real mistake makes."""
    assert max(compare.largest_errors(own(network), reference(network)).values()) < 1e-3


@pytest.mark.parametrize(("fault", "network", "framework"), PLANTED)
def test_a_planted_fault_fails(fault, network, framework, observation, reference, own):
    assert compare.failures(observation(network, framework, "fp32", fault), reference(network), own(network)) != []


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


@pytest.mark.parametrize(("network", "framework"), CELLS)
def test_it_learns(network, framework, observation):
    losses = observation(network, framework, "fp32", "learning")["losses"]
    assert known.learned(model_of(network), losses), losses
