"""What only inception_v3 has."""

import numpy
import pytest

from tbd import models
from tbd.models.specification import count

FULL = models.create("inception_v3", {"size": "full"})
ONE_PICTURE = {"labels": numpy.zeros(1)}


def test_it_has_5_71_gmac_a_picture_and_the_auxiliary_head_a_little_more():
    without = [c for c in FULL.convolutions if not c.name.startswith("AuxLogits.")]
    assert round(FULL.macs_of(without, FULL.features) / 1e9, 2) == 5.71
    # average pooling to 5x5: 768 x 128 x 25 and 128 x 768 x 25; fc 768 x 1000
    assert FULL.macs(ONE_PICTURE) - FULL.macs_of(without, FULL.features) == 2 * 768 * 128 * 25 + 768 * 1000


def test_without_the_auxiliary_head_it_has_23_8_million_parameters():
    found = [p for p in FULL.parameters if p.role == "weight" and not p.name.startswith("AuxLogits.")]
    assert sum(count(p) for p in found) == 23_834_568  # as torchvision's inception_v3 without it


def test_pictures_shrink_to_35_17_and_8_pixels():
    assert [module.size for module in (*FULL.trunk, *FULL.top)] == [35] * 3 + [17] * 5 + [8] * 3
    assert [module.channels for module in (*FULL.trunk, *FULL.top)] == [256, 288, 288] + [768] * 5 + [1280, 2048, 2048]
    assert FULL.auxiliary[1][-1].size == 1


def test_weights_follow_their_initialisers():
    weights = FULL.initial_weights(1)
    assert weights["Mixed_6e.branch7x7_2.conv.weight"].shape == (192, 192, 1, 7)
    assert weights["Mixed_6e.branch7x7_2.conv.weight"].std() == pytest.approx((2 / (7 * 192)) ** 0.5, rel=0.01)
    assert weights["AuxLogits.conv1.conv.weight"].std() == pytest.approx(0.01, rel=0.01)
    assert weights["AuxLogits.fc.weight"].std() == pytest.approx(0.001, rel=0.01)


def test_the_auxiliary_heads_windows_are_never_larger_than_what_they_are_laid_over():
    pool, (_, second) = models.create("inception_v3", {"size": "full", "image_size": 75}).auxiliary
    assert (pool, second.kernel, second.size) == (3, (1, 1), 1)


@pytest.mark.parametrize(
    ("options", "batch_size", "message"),
    [
        (
            {"blocks": "4,4,2"},
            2,
            "model.blocks=4,4,2 must be three whole numbers with commas between them, up to 3,4,2",
        ),
        ({}, 1, "batch_size=1 at model.image_size=299 leaves batch norm one value a channel"),
    ],
)
def test_what_it_cannot_be_trained_on_is_refused_by_name(options, batch_size, message):
    with pytest.raises(ValueError, match=message):
        models.create("inception_v3", dict(options, size="full")).check(batch_size)


def test_too_small_pictures_are_refused_by_name():
    with pytest.raises(ValueError, match="model.image_size=74 must be a whole number of at least 75"):
        models.create("inception_v3", {"size": "full", "image_size": 74})
