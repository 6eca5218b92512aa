"""What detectors do with boxes, (..., 4) of x1, y1, x2, y2 in pixels with continuous edges. Python 3.6 syntax.

Moving and suppressing them is numpy's: CNTK has no operators for it, and no gradient goes through them.
"""

import cntk as C
import numpy

from tbd.models.faster_rcnn.anchors import overlaps

TILE = 256  # boxes at a time: few enough that most of a tile's overlaps count


def decode(boxes, deltas, largest_growth):
    """The boxes moved by (dx, dy, dw, dh): the centre by (dx, dy) sizes, the size times exp((dw, dh))."""
    size = boxes[:, 2:] - boxes[:, :2]
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2 + deltas[:, :2] * size
    half = size * numpy.exp(numpy.minimum(deltas[:, 2:], largest_growth)) / 2
    return numpy.concatenate([centre - half, centre + half], 1)


def suppress(boxes, threshold, most):
    """Non-maximum suppression of boxes (n, 4), best first: the indices of those kept, `most` at most.

    In order, each that overlaps no kept one by more than `threshold` is kept.
    """
    kept = numpy.zeros(0, int)
    for start in range(0, len(boxes), TILE):
        tile = boxes[start : start + TILE]
        free = ~(overlaps(tile, boxes[kept]) > threshold).any(1)
        near = overlaps(tile, tile) > threshold
        for n in range(len(tile)):
            if free[n]:
                free[n + 1 :] &= ~near[n, n + 1 :]
        kept = numpy.concatenate([kept, start + numpy.nonzero(free)[0]])
        if len(kept) >= most:
            break
    return kept[:most]


def roi_align(features, boxes, rows, pooled, stride, offset):
    """(channels, pooled, pooled) of each box, which are the batch from here on, one picture's after the other's.

    features (channels, height, width) and boxes (n, 4) of each of `rows` pictures; taken are the features at the bins'
    centres, interpolated linearly in both directions. Bin i's centre is at feature (y1 + (i + 0.5) (y2 - y1) / pooled)
    / stride - offset, within the outermost features.
    """
    (channels, height, width), (count, _) = features.shape, boxes.shape
    table = C.unpack_batch(C.transpose(features, (1, 2, 0)))
    table = C.reshape(table, (rows * height * width, channels))
    pictures = C.Constant(numpy.repeat(numpy.arange(rows), count).reshape(-1, 1) * height * width)
    boxes = C.to_batch(C.splice(C.reshape(C.unpack_batch(boxes), (rows * count, 4)), pictures, axis=1))
    x1, y1, x2, y2, first = (C.slice(boxes, 0, n, n + 1) for n in range(5))
    columns, across = corners(x1, x2, pooled, width, stride, offset)
    rows, down = corners(y1, y2, pooled, height, stride, offset)
    found = []
    for of_row in (0, 1):
        for of_column in (0, 1):
            places = first + C.reshape(rows[of_row], (pooled, 1)) * width + C.reshape(columns[of_column], (1, pooled))
            weights = C.reshape(down[of_row], (pooled, 1, 1)) * C.reshape(across[of_column], (1, pooled, 1))
            found.append(C.gather(table, C.stop_gradient(places)) * C.stop_gradient(weights))
    return C.transpose(C.plus(*found), (2, 0, 1))


def corners(begin, end, pooled, size, stride, offset):
    """The two features beside each bin's centre: indices, and weights, (pooled,) each."""
    bins = C.Constant((numpy.arange(pooled) + 0.5) / pooled)
    place = C.clip((begin + bins * (end - begin)) / stride - offset, 0, size - 1)
    low = C.floor(place)
    share = place - low
    return (low, C.element_min(low + 1, size - 1)), (1 - share, share)
