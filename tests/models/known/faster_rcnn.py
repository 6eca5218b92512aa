"""What the tests must know of faster_rcnn."""

import numpy

from tests.parity.fault import Fault

# 42,500,160 of ResNet-101 (torchvision's resnet101 has 44,549,160, of which fc 2048 x 1000 + 1000), and by hand:
# rpn.conv 3 x 3 x 1024 x 512 + 512, rpn.score 512 x 18 + 18, rpn.delta 512 x 36 + 36, head.score 2048 x 21 + 21,
# head.delta 2048 x 84 + 84
PARAMETERS = 47_462_111
# smaller pictures, and fewer regions: every layer is there, in a tenth of the time
COUNT_OPTIONS = {"shorter": 200, "longer": 320, "regions": 16, "proposals": 100}


def full(arrays):
    """Every picture as large as its frame: no zeros around it."""
    rows, height, width, _ = arrays["images"].shape
    return dict(arrays, sizes=numpy.array([[height, width]] * rows, numpy.int32))


def spread(specification, found):
    """Batch norm's constants as training leaves them, no two alike; proposals far apart in score and in place.

    As they are drawn, all anchors have nearly the same score: rounding alone would decide which come first.
    """
    moved = {}
    for p in specification.parameters:
        array, random = found[p.name], numpy.random.RandomState(len(moved))
        if p.name.endswith((".running_mean", ".running_var")) or p.role == "frozen" and p.kind == "vector":
            array = array + random.uniform(-0.1, 0.1, p.shape)
        elif p.name in ("rpn.score.weight", "rpn.delta.weight", "head.delta.weight"):
            array = array * {"rpn.score.weight": 30.0, "rpn.delta.weight": 10.0, "head.delta.weight": 30.0}[p.name]
        moved[p.name] = array.astype(numpy.float32)
    return moved


class AnchorOrder(Fault):
    """The anchors of a place numbered the other way round than those that the targets are for."""

    def batch(self, arrays):
        return dict(arrays, **{name: other_way_round(arrays[name]) for name in ("anchor_labels", "anchor_targets")})


class DeltaOrder(Fault):
    """dy, dx, dh, dw, as in TensorFlow's own boxes, for dx, dy, dw, dh."""

    def batch(self, arrays):
        return dict(arrays, anchor_targets=arrays["anchor_targets"][..., [1, 0, 3, 2]])


class InclusiveEdges(Fault):
    """x2 and y2 are the last pixel's own places and not its edge, as in VOC's files."""

    def batch(self, arrays):
        boxes = arrays["boxes"].copy()
        boxes[arrays["classes"] > 0, 2:] -= 1
        return dict(arrays, boxes=boxes)


class ProposalsInThePadding(Fault):
    """Boxes reach beyond the picture, and anchors of the zeros around it take part."""

    def batch(self, arrays):
        return full(arrays)


class NoDeviations(Fault):
    """The head's targets are not divided by their standard deviations."""

    def specification(self, specification):
        specification.deviations = (1.0, 1.0, 1.0, 1.0)
        return specification


class SuppressionThreshold(Fault):
    """0.5, as when boxes are detected, for 0.7."""

    def specification(self, specification):
        specification.nms_threshold = 0.5
        return specification


class RpnSigma(Fault):
    """One smooth L1 for both."""

    def specification(self, specification):
        specification.rpn_sigma = specification.head_sigma
        return specification


class HalfAPixel(Fault):
    """Features taken as lying on their edges: ROI align as it was first published."""

    def specification(self, specification):
        specification.bin_offset = 0.0
        return specification


class FirstStageTrained(Fault):
    def specification(self, specification):
        thawed = [
            p._replace(role="weight") if p.name.startswith("layer1") and p.kind == "conv" else p
            for p in specification.parameters
        ]
        specification.__class__ = type("Thawed", (type(specification),), {"parameters": thawed})
        return specification


def other_way_round(array):
    """An array (batch, places x 9, ...) with each place's nine in reverse."""
    rows, count = array.shape[:2]
    return array.reshape((rows, count // 9, 9) + array.shape[2:])[:, :, ::-1].reshape(array.shape)


FAULTS = {
    "anchor_order": AnchorOrder,
    "delta_order": DeltaOrder,
    "inclusive_edges": InclusiveEdges,
    "proposals_in_the_padding": ProposalsInThePadding,
    "no_deviations": NoDeviations,
    "suppression_threshold": SuppressionThreshold,
    "rpn_sigma": RpnSigma,
    "half_a_pixel": HalfAPixel,
    "first_stage_trained": FirstStageTrained,
}
