"""Faster R-CNN with ResNet-101 on Keras layers, with TensorFlow's non-maximum suppression and crop_and_resize.

Keras itself has no detector, so it is by hand: batch norm that doesn't train, anchors' targets from the batch as in
ours. It draws the regions itself, scores an object by one number instead of two, and pads as "same" does.
"""

import keras
import tensorflow as tf
from keras import layers

from peers.tensorflow import loop

SOURCE = "by hand, keras.layers"
STRIDE = 16


def unit(x, out, kernel, stride=1, trained=True):
    """A convolution and a batch norm of constants."""
    x = layers.Conv2D(out, kernel, stride, padding="same", use_bias=False, trainable=trained)(x)
    return layers.BatchNormalization(epsilon=1e-5, trainable=False)(x, training=False)


def stage(x, width, count, stride, trained=True):
    for block in range(count):
        first = stride if block == 0 else 1
        y = layers.ReLU()(unit(x, width, 1, 1, trained))
        y = layers.ReLU()(unit(y, width, 3, first, trained))
        y = unit(y, 4 * width, 1, 1, trained)
        if block == 0:
            x = unit(x, 4 * width, 1, first, trained)
        x = layers.ReLU()(layers.Add()([x, y]))
    return x


class Detector:
    """Two Keras models: pictures to features and proposals, regions' features to classes and boxes."""

    def __init__(self, options):
        width, counts = options["width"], [int(count) for count in options["blocks"].split(",")]
        places = 3 * len(options["scales"].split(","))
        pictures = keras.Input((None, None, 3))
        x = layers.MaxPooling2D(3, 2, padding="same")(layers.ReLU()(unit(pictures, width, 7, 2, trained=False)))
        for n in range(3):
            x = stage(x, width * 2**n, counts[n], 1 if n == 0 else 2, trained=n > 0)
        t = layers.Conv2D(options["rpn_width"], 3, padding="same", activation="relu")(x)
        own = dict(dtype="float32")
        scores, deltas = layers.Conv2D(places, 1, **own)(t), layers.Conv2D(4 * places, 1, **own)(t)
        self.backbone = keras.Model(pictures, [x, scores, deltas])
        pooled = keras.Input((options["pooled"], options["pooled"], 16 * width))
        x = layers.GlobalAveragePooling2D()(stage(pooled, width * 8, counts[3], 2))
        classes = options["classes"] + 1
        self.head = keras.Model(pooled, [layers.Dense(classes, **own)(x), layers.Dense(4 * classes, **own)(x)])
        self.trainable_variables = self.backbone.trainable_variables + self.head.trainable_variables


def anchors(height, width, scales):
    """(height * width * anchors of a place, 4)."""
    sides = [(scale * STRIDE * r**-0.5, scale * STRIDE * r**0.5) for r in (0.5, 1.0, 2.0) for scale in scales]
    x, y = tf.meshgrid(tf.range(width), tf.range(height))
    centres = (tf.cast(tf.stack([x, y], -1), tf.float32)[:, :, None] + 0.5) * STRIDE
    half = tf.constant(sides) / 2
    return tf.reshape(tf.concat([centres - half, centres + half], -1), [-1, 4])


def decoded(boxes, deltas):
    size = boxes[:, 2:] - boxes[:, :2]
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2 + deltas[:, :2] * size
    half = size * tf.exp(tf.minimum(deltas[:, 2:], 4.135)) / 2
    return tf.concat([centres - half, centres + half], 1)


def encoded(boxes, targets):
    size, wanted = boxes[:, 2:] - boxes[:, :2], targets[:, 2:] - targets[:, :2]
    shift = (targets[:, :2] + targets[:, 2:] - boxes[:, :2] - boxes[:, 2:]) / 2
    return tf.concat([shift / size, tf.math.log(wanted / size)], 1)


def overlaps(boxes, others):
    corner = tf.maximum(boxes[:, None, :2], others[None, :, :2])
    sides = tf.maximum(tf.minimum(boxes[:, None, 2:], others[None, :, 2:]) - corner, 0)
    both = tf.reduce_prod(sides, -1)
    areas = (tf.reduce_prod(b[:, 2:] - b[:, :2], 1) for b in (boxes, others))
    return both / (next(areas)[:, None] + next(areas)[None] - both)


def smooth_l1(x, sigma):
    size = tf.abs(x)
    return tf.reduce_sum(tf.where(size < 1 / sigma**2, (sigma * x) ** 2 / 2, size - 0.5 / sigma**2))


def build(options, batch_size, device, precision, compile):
    loop.set_up(device, precision)
    network = Detector(options)
    scales = [int(scale) for scale in options["scales"].split(",")]
    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits

    def regions(scores, found, size, scale, boxes, classes):
        """(regions, labels, targets) of a picture."""
        found = tf.clip_by_value(found, 0.0, tf.cast(tf.tile(size[::-1], [2]), tf.float32))
        usable = tf.reduce_all(found[:, 2:] - found[:, :2] >= options["smallest"] * scale, 1)
        scores, found = tf.boolean_mask(scores, usable), tf.boolean_mask(found, usable)
        scores, best = tf.math.top_k(scores, tf.minimum(options["before_nms"], tf.size(scores)))
        found = tf.gather(found, best)
        found = tf.gather(found, tf.image.non_max_suppression(found, scores, options["proposals"], 0.7))
        boxes, classes = tf.boolean_mask(boxes, classes > 0), tf.boolean_mask(classes, classes > 0)
        found = tf.concat([found, boxes], 0)
        each = overlaps(found, boxes)
        is_object = tf.reduce_max(each, 1) >= 0.5
        objects = tf.random.shuffle(tf.where(is_object)[:, 0])[: options["regions"] // 4]
        others = tf.random.shuffle(tf.where(~is_object)[:, 0])[: options["regions"] - tf.size(objects)]
        real = tf.gather(tf.argmax(each, 1), objects)
        labels = tf.concat([tf.gather(classes, real), tf.zeros_like(others, tf.int32)], 0)
        targets = encoded(tf.gather(found, objects), tf.gather(boxes, real)) / (0.1, 0.1, 0.2, 0.2)
        return tf.gather(found, tf.concat([objects, others], 0)), labels, targets

    def loss(network, inputs):
        features, scores, deltas = network.backbone(inputs["images"], training=True)
        shape = tf.shape(features)
        grid = anchors(shape[1], shape[2], scales)
        total = 0.0
        for n in range(batch_size):
            own_scores, own_deltas = tf.reshape(scores[n], [-1]), tf.reshape(deltas[n], [-1, 4])
            labels = inputs["anchor_labels"][n]
            chosen, positive = labels >= 0, labels == 1
            count = tf.cast(tf.math.count_nonzero(chosen), tf.float32)
            wrong = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels[chosen], tf.float32), own_scores[chosen])
            total += tf.reduce_mean(wrong)
            total += smooth_l1(own_deltas[positive] - inputs["anchor_targets"][n][positive], 3.0) / count
            taken, labels, targets = (
                tf.stop_gradient(one)
                for one in regions(
                    own_scores,
                    decoded(grid, own_deltas),
                    *(inputs[name][n] for name in ("sizes", "scales", "boxes", "classes")),
                )
            )
            # (y, x) of the first and last bin's centres, in shares of the features' span
            size = (taken[:, 2:] - taken[:, :2]) / options["pooled"] / 2
            edges = tf.concat([(taken[:, :2] + size)[:, ::-1], (taken[:, 2:] - size)[:, ::-1]], 1) / STRIDE - 0.5
            span = tf.cast(tf.tile(shape[1:3] - 1, [2]), tf.float32)
            pooled = tf.image.crop_and_resize(
                tf.cast(features[n : n + 1], tf.float32),
                edges / span,
                tf.zeros_like(labels),
                [options["pooled"], options["pooled"]],
            )
            classes, moves = network.head(pooled, training=True)
            total += tf.reduce_mean(cross_entropy(labels, classes))
            objects = tf.shape(targets)[0]
            moves = tf.gather(tf.reshape(moves[:objects], [objects, -1, 4]), labels[:objects], batch_dims=1)
            total += smooth_l1(moves - targets, 1.0) / tf.cast(tf.size(labels), tf.float32)
        return total / batch_size

    optimizer = keras.optimizers.SGD(0.001 * batch_size, momentum=0.9, weight_decay=5e-4)
    return loop.build(network, loss, optimizer, compile)
