"""What detectors do with boxes, (..., 4) tensors of x1, y1, x2, y2 in pixels with continuous edges."""

import tensorflow as tf


def decode(boxes, deltas, largest_growth):
    """The boxes moved by (dx, dy, dw, dh): the centre by (dx, dy) sizes, the size times exp((dw, dh))."""
    size = boxes[..., 2:] - boxes[..., :2]
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2 + deltas[..., :2] * size
    half = size * tf.exp(tf.minimum(deltas[..., 2:], largest_growth)) / 2
    return tf.concat([centre - half, centre + half], -1)


def encode(boxes, targets):
    """(dx, dy, dw, dh) that move the boxes to the targets."""
    size, wanted = boxes[..., 2:] - boxes[..., :2], targets[..., 2:] - targets[..., :2]
    shift = (targets[..., :2] + targets[..., 2:] - boxes[..., :2] - boxes[..., 2:]) / 2
    return tf.concat([shift / size, tf.math.log(wanted / size)], -1)


def overlaps(boxes, others):
    """(boxes, others): intersection over union of each pair, 0 where two boxes have no area in common."""
    x1, y1, x2, y2 = tf.unstack(boxes[:, None], axis=-1)
    left, top, right, bottom = tf.unstack(others, axis=-1)
    across = tf.nn.relu(tf.minimum(x2, right) - tf.maximum(x1, left))
    down = tf.nn.relu(tf.minimum(y2, bottom) - tf.maximum(y1, top))
    intersection = across * down
    union = (x2 - x1) * (y2 - y1) + (right - left) * (bottom - top) - intersection
    return tf.math.divide_no_nan(intersection, union)


def suppress(boxes, scores, threshold, most):
    """Non-maximum suppression: indices (most,) of the boxes (n, 4) that are kept, and how many they are.

    By falling score, the first of equal ones first, each is kept that overlaps no kept one by more than `threshold`.
    Those whose score is -infinity are none. TensorFlow's operator decides in float32.
    """
    return tf.raw_ops.NonMaxSuppressionV4(
        boxes=tf.cast(boxes, tf.float32),
        scores=tf.cast(scores, tf.float32),
        max_output_size=most,
        iou_threshold=threshold,
        score_threshold=tf.float32.min,
        pad_to_max_output_size=True,
    )


def roi_align(features, boxes, pooled, stride, offset):
    """(batch * n, pooled, pooled, channels): features (batch, height, width, channels) at the bins' centres of boxes
    (batch, n, 4), interpolated linearly in both directions.

    Bin i's centre is at feature (y1 + (i + 0.5) (y2 - y1) / pooled) / stride - offset, within the outermost features.
    """
    count = tf.shape(boxes)[1]
    pictures = tf.repeat(tf.range(tf.shape(boxes)[0]), count)
    x1, y1, x2, y2 = tf.unstack(tf.reshape(boxes, [-1, 4]), axis=-1)
    # the centres of the first and of the last bin, in features
    edges = [
        (begin + (end - begin) * at / pooled) / stride - offset
        for begin, end, at in ((y1, y2, 0.5), (x1, x2, 0.5), (y1, y2, pooled - 0.5), (x1, x2, pooled - 0.5))
    ]
    # with one feature repeated around them, no place is outside
    around = tf.pad(features, [[0, 0], [1, 1], [1, 1], [0, 0]], "SYMMETRIC")
    if features.dtype == tf.float64:
        return interpolated(around, [edge + 1 for edge in edges], pictures, pooled)
    height, width = (tf.cast(n - 1, tf.float32) for n in tf.unstack(tf.shape(around)[1:3]))
    shares = tf.stack([(edge + 1) / size for edge, size in zip(edges, (height, width) * 2, strict=True)], -1)
    # the operator's bins are spread from one edge to the other, both of which it samples; it gives float32
    found = tf.image.crop_and_resize(tf.cast(around, tf.float32), shares, pictures, [pooled, pooled])
    return tf.cast(found, features.dtype)


def interpolated(features, edges, pictures, pooled):
    """The same of places (y of the first bin, x, y of the last bin, x) in features: tf.image.crop_and_resize, which
    knows no float64."""
    _, height, width, channels = tf.unstack(tf.shape(features))
    top, left, bottom, right = edges
    y, down = corners(top, bottom, pooled, height)
    x, across = corners(left, right, pooled, width)
    rows = tf.reshape(features, [-1, channels])
    found = 0.0
    for of_row in (0, 1):
        for of_column in (0, 1):
            places = (pictures[:, None, None] * height + y[of_row][:, :, None]) * width + x[of_column][:, None, :]
            weights = down[of_row][:, :, None] * across[of_column][:, None, :]
            found += tf.gather(rows, places) * weights[..., None]
    return found


def corners(first, last, pooled, size):
    """The two features beside each of `pooled` places from `first` to `last`: indices, and weights (n, pooled) each."""
    places = tf.linspace(first, last, pooled, axis=-1)
    low = tf.clip_by_value(tf.cast(tf.floor(places), tf.int32), 0, size - 2)
    share = places - tf.cast(low, places.dtype)
    return (low, low + 1), (1 - share, share)
