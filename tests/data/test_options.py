"""What an option may be, and what is said of a value that it may not be."""

import pytest

from tbd import models
from tbd.data.options import Option, checked

KNOWN = {
    "layers": Option(int, 1),
    "dropout": Option(float, 0.0, 1.0),
    "scale": Option(float),
    "share": Option(float, greatest=1.0),
    "bidirectional": Option(bool),
    "lipschitz": Option(str, choices=("clipping", "penalty")),
    "label": Option(str),
    "paths": Option(list),
}


@pytest.mark.parametrize(
    "name, value",
    [
        ("layers", 1),
        ("dropout", 0.0),
        ("dropout", 1),
        ("scale", -3.5),
        ("share", -1),
        ("bidirectional", False),
        ("bidirectional", True),
        ("lipschitz", "penalty"),
        ("label", ""),
        ("paths", []),
        ("layers", None),
    ],
)
def test_a_value_that_is_allowed_stays(name, value):
    assert checked("model=m", KNOWN, {name: value}) == {name: value}


def test_a_whole_number_becomes_a_float_where_a_float_is_wanted():
    found = checked("model=m", KNOWN, {"dropout": 0, "layers": 2})
    assert (type(found["dropout"]), type(found["layers"])) == (float, int)


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("layers", 0, "model.layers=0 must be a whole number of at least 1"),
        ("layers", 1.0, "model.layers=1.0 must be a whole number of at least 1"),
        ("layers", True, "model.layers=True must be a whole number of at least 1"),
        ("layers", "2", "model.layers=2 must be a whole number of at least 1"),
        ("dropout", 1.1, "model.dropout=1.1 must be a number from 0.0 to 1.0"),
        ("dropout", False, "model.dropout=False must be a number from 0.0 to 1.0"),
        ("scale", float("nan"), "model.scale=nan must be a number"),
        ("scale", float("inf"), "model.scale=inf must be a number"),
        ("share", 2, "model.share=2 must be a number of at most 1.0"),
        ("bidirectional", 1, "model.bidirectional=1 must be true or false"),
        ("lipschitz", "none", "model.lipschitz=none must be one of clipping, penalty"),
        ("label", 3, "model.label=3 must be text"),
        ("paths", "a", "model.paths=a must be a list"),
        (
            "layer",
            1,
            "model=m has no option layer; it has bidirectional, dropout, label, layers, lipschitz, paths, sca",
        ),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_what_is(name, value, message):
    with pytest.raises(ValueError) as caught:
        checked("model=m", KNOWN, {name: value})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("model", models.names())
def test_every_models_options_are_declared_and_its_sizes_have_allowed_values(model):
    specification = models.specification_class(model)
    for size, values in specification.SIZES.items():
        assert set(values) == set(specification.OPTIONS)
        assert specification(size).options == checked("model", specification.OPTIONS, values)
        specification(size).check(batch_size=2)
    assert specification.takes


@pytest.mark.parametrize("blocks", ["x", "0,1", "3,4,6", "3,4,0,3", "3,4,6,3,", "3, 4,6,3", "3,4,6,3\n", ""])
def test_blocks_that_are_no_four_counts_are_named(blocks):
    specification = models.create("resnet50", {"blocks": blocks})
    with pytest.raises(ValueError, match="model.blocks=%s must be four whole numbers of at least 1" % blocks):
        specification.check(batch_size=2)
