"""Faster R-CNN's anchors, targets and options, against what py-faster-rcnn publishes or is worked out by hand."""

import numpy
import pytest

from tbd import models
from tbd.models.faster_rcnn import anchors


@pytest.fixture
def full():
    return models.create("faster_rcnn", {"size": "full"})


def test_the_anchors_are_py_faster_rcnns():
    # generate_anchors.py lists them with both end pixels counted: [-83, -39, 100, 56] and so on, in MATLAB's indices
    # from 1; its place's pixels are 1 to 16, the edges here 0 to 16
    published = [
        [-83, -39, 100, 56],
        [-175, -87, 192, 104],
        [-359, -183, 376, 200],
        [-55, -55, 72, 72],
        [-119, -119, 136, 136],
        [-247, -247, 264, 264],
        [-35, -79, 52, 96],
        [-79, -167, 96, 184],
        [-167, -343, 184, 360],
    ]
    edges = numpy.array(published) - [1, 1, 0, 0]
    assert anchors.anchor_grid(1, 1, [8, 16, 32]).tolist() == edges.tolist()


def test_places_are_numbered_row_by_row():
    grid = anchors.anchor_grid(2, 3, [8]).reshape(2, 3, 3, 4)
    centres = (grid[..., :2] + grid[..., 2:]) / 2
    assert centres[1, 2].tolist() == [[40, 24]] * 3


def test_overlaps_by_hand():
    boxes = numpy.array([[0, 0, 10, 10], [0, 0, 0, 0], [5, 5, 15, 15.0]])
    assert anchors.overlaps(boxes, boxes).tolist() == [[1, 0, 25 / 175], [0, 0, 0], [25 / 175, 0, 1]]


def test_a_move_is_in_sizes_of_the_box_and_logarithms():
    box, target = numpy.array([[10, 10, 30, 50.0]]), numpy.array([[25, 30, 35, 50.0]])
    assert anchors.encode(box, target)[0] == pytest.approx([0.5, 0.25, numpy.log(0.5), numpy.log(0.5)])


def labelled(boxes, height, width, sampled=10**6, seed=0):
    grid = anchors.anchor_grid(-(-height // 16), -(-width // 16), [1, 2, 4])
    random = numpy.random.RandomState(seed)
    return (grid, *anchors.anchor_targets(grid, numpy.array(boxes, float), height, width, sampled, random))


def test_labels_follow_from_the_overlaps():
    boxes = [[10, 10, 60, 60], [90, 20, 120, 50]]
    grid, labels, targets = labelled(boxes, 100, 150)
    found = anchors.overlaps(grid, numpy.array(boxes, float))
    inside = (grid[:, :2] >= 0).all(1) & (grid[:, 2] <= 150) & (grid[:, 3] <= 100)
    assert (labels[~inside] == -1).all()
    best = (found == found[inside].max(0)).any(1)
    assert (labels[inside & (best | (found.max(1) >= 0.7))] == 1).all()
    assert (labels[inside & ~best & (found.max(1) < 0.3)] == 0).all()
    assert (labels[inside & ~best & (found.max(1) >= 0.3) & (found.max(1) < 0.7)] == -1).all()
    positive = labels == 1
    assert positive.sum() >= 2 and (targets[~positive] == 0).all()
    moved = anchors.encode(grid[positive], numpy.array(boxes, float)[found[positive].argmax(1)])
    assert targets[positive] == pytest.approx(moved, rel=1e-6)


def test_an_object_that_no_anchor_within_the_picture_touches_has_none():
    _, labels, _ = labelled([[0, 0, 1, 1], [60, 60, 92, 92]], 100, 150)
    _, alone, _ = labelled([[60, 60, 92, 92]], 100, 150)
    assert (labels == 1).sum() - (alone == 1).sum() <= 9  # not all of those that overlap it by 0


def test_a_sample_has_at_most_half_positives_and_is_filled_with_negatives():
    many = [[n * 32, m * 32, n * 32 + 32, m * 32 + 32] for n in range(12) for m in range(8)]
    _, labels, _ = labelled(many, 256, 384, sampled=32)
    assert ((labels == 1).sum(), (labels == 0).sum()) == (16, 16)
    _, labels, _ = labelled(many[:1], 256, 384, sampled=32)
    assert 1 <= (labels == 1).sum() < 16 and (labels >= 0).sum() == 32
    _, other, _ = labelled(many[:1], 256, 384, sampled=32, seed=1)
    assert not numpy.array_equal(labels, other)


def test_a_picture_has_1_05_teraflops_a_step(full):
    # 600 x 800: backbone and proposals 74.9, head 104.1 GMAC forward; see macs_of for what is left out
    arrays = {"sizes": numpy.array([[600, 800]])}
    assert round(full.macs(arrays) / 1e9, 1) == 180.1
    assert round(full.flops(arrays) / 1e12, 2) == 1.05


def test_a_quarter_of_a_batch_that_is_all_padding_is_of_no_use(full):
    arrays = {"sizes": numpy.array([[600, 600]]), "images": numpy.empty((1, 608, 816, 3), numpy.int8)}
    assert full.work(arrays) > full.flops(arrays)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"blocks": "3,4,23"}, "model.blocks=3,4,23 must be four whole numbers of at least 1"),
        ({"scales": "8,,32"}, "model.scales=8,,32 must be whole numbers of at least 1"),
        ({"longer": 500}, "model.longer=500 must not be below model.shorter=600"),
        (
            {"proposals": 10, "boxes": 10},
            "model.regions=128 are more than model.proposals and model.boxes together, 20",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        models.create("faster_rcnn", dict(options, size="full")).check(1)


def test_what_is_random_in_a_row_comes_from_its_own_seed():
    small = models.create("faster_rcnn", {"size": "small"})
    picture, boxes = numpy.zeros((60, 80, 3), numpy.float32), numpy.array([[5, 5, 40, 50]], numpy.float32)
    sample = picture, boxes, numpy.array([1], numpy.int32), 1.0
    both = small.batch_of(tuple(zip(sample, sample)), (64, 80), [[1, 0], [1, 1]])
    alone = small.batch_of(tuple([part] for part in sample), (64, 80), [[1, 1]])
    assert all(numpy.array_equal(both[name][1:], alone[name]) for name in alone)
    assert not numpy.array_equal(both["region_order"][0], both["region_order"][1])
