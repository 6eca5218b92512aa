"""Anchors, boxes and what the region proposal network is trained towards, in numpy: framework-free.

A box is (x1, y1, x2, y2) in pixels, its edges continuous: a picture of width w spans 0 to w, pixel 0 spans 0 to 1.
"""

import numpy

STRIDE = 16  # of the features that the anchors lie on, in pixels; the side of the base anchor too
RATIOS = (0.5, 1.0, 2.0)  # height / width (arXiv 1506.01497, section 3.3)


def anchor_sizes(scales):
    """(anchors of a place, 2) widths and heights: for each ratio, in this order, each scale.

    As py-faster-rcnn's generate_anchors.py, roundings included: 184 x 96, 128 x 128, 88 x 176 at scale 8. Where that
    counts both end pixels (width x2 - x1 + 1), the edges here are continuous, which gives the same boxes.
    """
    sizes = []
    for ratio in RATIOS:
        width = numpy.round(numpy.sqrt(STRIDE * STRIDE / ratio))
        height = numpy.round(width * ratio)
        sizes.extend((width * scale, height * scale) for scale in scales)
    return numpy.array(sizes, numpy.float64)


def anchor_grid(height, width, scales):
    """(height * width * anchors of a place, 4): the boxes around the centres of `height` x `width` places.

    Place (row, column) has its centre at (16 column + 8, 16 row + 8). Row by row, place by place, anchor by anchor.
    """
    sizes = anchor_sizes(scales)
    rows, columns = numpy.meshgrid(numpy.arange(height), numpy.arange(width), indexing="ij")
    centres = (numpy.stack([columns, rows], -1).reshape(-1, 1, 2) + 0.5) * STRIDE
    return numpy.concatenate([centres - sizes / 2, centres + sizes / 2], -1).reshape(-1, 4)


def overlaps(boxes, others):
    """(boxes, others): intersection over union of each pair, 0 where two boxes have no area in common."""
    x1, y1, x2, y2 = (boxes[:, n, None] for n in range(4))
    left, top, right, bottom = others.T
    across = numpy.maximum(numpy.minimum(x2, right) - numpy.maximum(x1, left), 0)
    down = numpy.maximum(numpy.minimum(y2, bottom) - numpy.maximum(y1, top), 0)
    intersection = across * down
    union = (x2 - x1) * (y2 - y1) + (right - left) * (bottom - top) - intersection
    return numpy.divide(intersection, union, out=numpy.zeros_like(intersection), where=intersection > 0)


def encode(boxes, targets):
    """(boxes, 4): (dx, dy, dw, dh) that move each box to its target (arXiv 1506.01497, equation 2)."""
    size, wanted = boxes[:, 2:] - boxes[:, :2], targets[:, 2:] - targets[:, :2]
    shift = (targets[:, :2] + targets[:, 2:] - boxes[:, :2] - boxes[:, 2:]) / 2
    return numpy.concatenate([shift / size, numpy.log(wanted / size)], 1)


def anchor_targets(anchors, boxes, height, width, sampled, random):
    """(labels int32, targets float32 (anchors, 4)) of a picture with `boxes`, drawn from the RandomState `random`.

    As py-faster-rcnn's AnchorTargetLayer and MXNet's assign_anchor, which work on the host too. Only anchors within the
    picture (height x width) count. Positive, 1: the anchors that overlap a box most, all that are equal, and those that
    overlap one by 0.7 or more; negative, 0: the others that overlap all by less than 0.3. Of the positive ones `sampled
    / 2` at most are kept, of the negative ones as many as fill up to `sampled`; the rest, like all others, is -1. A
    target is the move to the box that the anchor overlaps most, the first of equal ones; zeros where not positive.
    """
    labels = numpy.full(len(anchors), -1, numpy.int32)
    targets = numpy.zeros((len(anchors), 4), numpy.float32)
    edges = (anchors[:, :2] >= 0).all(1) & (anchors[:, 2] <= width) & (anchors[:, 3] <= height)
    (inside,) = numpy.nonzero(edges)
    found = overlaps(anchors[inside], boxes)
    most = found.max(1)
    best = found.max(0)
    positive = (most >= 0.7) | ((found == best) & (best > 0)).any(1)
    chosen = numpy.nonzero(positive)[0]
    chosen = random.permutation(chosen)[: sampled // 2]
    negative = random.permutation(numpy.nonzero(~positive & (most < 0.3))[0])[: sampled - len(chosen)]
    labels[inside[chosen]] = 1
    labels[inside[negative]] = 0
    targets[inside[chosen]] = encode(anchors[inside[chosen]], boxes[found[chosen].argmax(1)])
    return labels, targets
