"""The layer of an operation, on constructed graphs."""

import pytest

from tbd.frameworks.attribution import Layers, common, layer_of


def test_a_layer_is_a_parameters_name_without_its_last_part():
    assert layer_of("layer1.0.conv1.weight") == "layer1.0.conv1"
    assert layer_of("first") == "first"


@pytest.mark.parametrize(
    ("layers", "shared"),
    [
        (["encoder.0", "encoder.1"], "encoder"),
        (["encoder.0", "encoder.0"], "encoder.0"),
        (["encoder", "encoders"], ""),
        (["fc"], "fc"),
        ([], ""),
    ],
)
def test_what_layers_have_in_common_are_whole_parts(layers, shared):
    assert common(layers) == shared


def layers(*operations):
    """The layers by the operations [(name, sources)] of a network of two convolutions a and b."""
    found = Layers({"wa": "a.weight", "ba": "a.bias", "wb": "b.weight"})
    return {name: found.add(name, sources) for name, sources in operations}


def test_an_operation_without_parameters_is_of_the_layer_before_it():
    assert layers(("conv", ["x", "wa"]), ("bias", ["conv", "ba"]), ("relu", ["bias"])) == {
        "conv": "a", "bias": "a", "relu": "a",
    }  # fmt: skip


def test_a_copy_of_a_parameter_counts_as_the_parameter():
    """As in mixed precision, where convolutions read casts: else one would be of the layer before it."""
    found = layers(("conv", ["x", "wa"]), ("cast", ["wb"]), ("turned", ["cast"]), ("next", ["conv", "turned"]))
    assert found["cast"] == "b"
    assert found["next"] == "b"


def test_a_sum_is_of_its_first_source_that_has_a_layer():
    found = layers(("one", ["x", "wa"]), ("two", ["one", "wb"]), ("sum", ["x", "two", "one"]))
    assert found["sum"] == "b"


def test_before_the_first_parameter_there_is_no_layer():
    assert layers(("scaled", ["x"])) == {"scaled": ""}


def test_one_operation_over_several_layers_is_of_what_they_share():
    found = Layers({"w0": "encoder.0.input", "w1": "encoder.1.input", "w2": "output"})
    assert found.add("recurrence", ["x", "w0", "w1"]) == "encoder"
    assert found.add("all", ["x", "w0", "w2"]) == ""


def test_what_is_forgotten_is_no_source_any_more():
    found = Layers({"w": "a.weight"})
    found.add("h", ["x", "w"])
    found.forget("h")
    assert found.add("next", ["h"]) == ""
