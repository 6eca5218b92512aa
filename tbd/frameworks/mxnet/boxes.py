"""What detectors do with boxes, (..., 4) symbols of x1, y1, x2, y2 in pixels with continuous edges."""

from mxnet import sym

from tbd.frameworks.mxnet.layers import shape_of, type_of

NEVER = -1e30  # the score of a box that is none


def part(x, begin, end):
    """x[..., begin:end]."""
    return sym.slice_axis(x, axis=-1, begin=begin, end=end)


def decode(boxes, deltas, largest_growth):
    """The boxes moved by (dx, dy, dw, dh): the centre by (dx, dy) sizes, the size times exp((dw, dh))."""
    size = part(boxes, 2, 4) - part(boxes, 0, 2)
    centre = (part(boxes, 0, 2) + part(boxes, 2, 4)) / 2
    centre = sym.broadcast_add(centre, sym.broadcast_mul(part(deltas, 0, 2), size))
    half = sym.broadcast_mul(size, sym.exp(sym.minimum(part(deltas, 2, 4), largest_growth))) / 2
    return sym.concat(centre - half, centre + half, dim=-1)


def encode(boxes, targets):
    """(dx, dy, dw, dh) that move the boxes to the targets."""
    size, wanted = (part(b, 2, 4) - part(b, 0, 2) for b in (boxes, targets))
    shift = (part(targets, 0, 2) + part(targets, 2, 4) - part(boxes, 0, 2) - part(boxes, 2, 4)) / 2
    return sym.concat(shift / size, sym.log(wanted / size), dim=-1)


def overlaps(boxes, others):
    """(batch, n, m) of boxes (batch, n, 4) and others (batch, m, 4): intersection over union of each pair, 0 where two
    have no area in common."""
    x1, y1, x2, y2 = (part(boxes, n, n + 1) for n in range(4))
    left, top, right, bottom = (sym.transpose(part(others, n, n + 1), (0, 2, 1)) for n in range(4))
    across = sym.maximum(sym.broadcast_sub(sym.broadcast_minimum(x2, right), sym.broadcast_maximum(x1, left)), 0)
    down = sym.maximum(sym.broadcast_sub(sym.broadcast_minimum(y2, bottom), sym.broadcast_maximum(y1, top)), 0)
    intersection = across * down
    union = sym.broadcast_add((x2 - x1) * (y2 - y1), (right - left) * (bottom - top)) - intersection
    # a union of 0 is of two boxes without area
    return intersection / (union + (union == 0))


def suppress(boxes, scores, threshold, considered, most):
    """Non-maximum suppression: indices (batch, most) of the boxes (batch, n, 4) that are kept, and whether one is any.

    Of the `considered` of largest score in this order, the first of equal ones first, each is kept that overlaps no
    kept one by more than `threshold`. Those whose score is NEVER or less are none.
    """
    batch, count = shape_of(scores)
    dtype = type_of(boxes)
    places = sym.broadcast_to(sym.reshape(sym.arange(count, dtype=dtype), (1, count, 1)), (batch, count, 1))
    rows = sym.concat(places, sym.expand_dims(scores, 2), boxes, dim=2)
    limits = {"overlap_thresh": threshold, "valid_thresh": NEVER / 2, "topk": considered}
    kept = sym.contrib.box_nms(rows, score_index=1, coord_start=2, force_suppress=True, **limits)
    # those that are kept come first; all of a row that is none is -1
    kept = sym.reshape(part(kept, 0, 1), (batch, count))
    if count < most:
        kept = sym.concat(kept, sym.full((batch, most - count), -1, dtype=dtype), dim=1)
    kept = sym.slice_axis(kept, axis=1, begin=0, end=most)
    return sym.cast(sym.maximum(kept, 0), "int32"), kept >= 0


def roi_align(features, boxes, pooled, stride, offset):
    """(batch * n, channels, pooled, pooled): features (batch, channels, height, width) at the bins' centres of boxes
    (batch, n, 4), interpolated linearly in both directions.

    Bin i's centre is at feature (y1 + (i + 0.5) (y2 - y1) / pooled) / stride - offset, within the outermost features.
    """
    batch, count, _ = shape_of(boxes)
    dtype = type_of(boxes)
    pictures = sym.broadcast_add(sym.reshape(sym.arange(batch, dtype=dtype), (-1, 1, 1)), 0 * part(boxes, 0, 1))
    # the operator's own offset is that of all four edges, 0.5 or none
    moved = boxes - (offset - 0.5) * stride
    rois = sym.reshape(sym.concat(pictures, moved, dim=2), (batch * count, 5))
    size = {"pooled_size": (pooled, pooled), "spatial_scale": 1 / stride}
    return sym.contrib.ROIAlign(features, rois, sample_ratio=1, aligned=True, **size)
