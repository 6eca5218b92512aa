"""Faster R-CNN in TensorFlow, channels last. See specification.py for the definition."""

import tensorflow as tf

from tbd.frameworks.tensorflow import boxes
from tbd.frameworks.tensorflow.layers import at_least_float32, convolution, cross_entropy, max_pool
from tbd.models.faster_rcnn import anchors
from tbd.models.faster_rcnn.specification import batch_norm_of


class Network:
    """The loss of a batch (tbd/frameworks/tensorflow/training.py)."""

    def __init__(self, specification, variables):
        self.specification, self.options = specification, specification.options
        self.variables = variables
        self.layers = {layer.name: layer for layer in specification.backbone + specification.stage(4)}

    def signature(self, dtype, update):
        """The batch's TensorSpecs; the batch size and the pictures' height and width are free."""
        wide = tf.float64 if dtype == tf.float64 else tf.float32
        count, candidates = self.options["boxes"], self.options["boxes"] + self.options["proposals"]
        return {
            "images": tf.TensorSpec([None, None, None, 3], dtype),
            "sizes": tf.TensorSpec([None, 2], tf.int32),
            "scales": tf.TensorSpec([None], wide),
            "boxes": tf.TensorSpec([None, count, 4], wide),
            "classes": tf.TensorSpec([None, count], tf.int32),
            "anchor_labels": tf.TensorSpec([None, None], tf.int32),
            "anchor_targets": tf.TensorSpec([None, None, 4], wide),
            "region_order": tf.TensorSpec([None, candidates], tf.int32),
        }

    def __call__(self, batch, update):
        norms = self.frozen_norms()
        x = tf.nn.relu(self.normalised(norms, batch["images"], "conv1"))
        x = max_pool(x, kernel=3, stride=2)
        for stage in (1, 2, 3):
            x = self.stage(norms, x, stage)
        features = x

        t = tf.nn.relu(self.with_bias(features, "rpn.conv"))
        scores, deltas = (rows(self.with_bias(t, "rpn." + name), size) for name, size in (("score", 2), ("delta", 4)))
        margins = scores[..., 1] - scores[..., 0]
        found = self.regions(tf.stop_gradient(margins), tf.stop_gradient(deltas), tf.shape(features)[1:3], batch)
        regions, labels, targets, sampled = (tf.stop_gradient(column) for column in found)

        offset = self.specification.bin_offset
        x = boxes.roi_align(features, regions, self.options["pooled"], anchors.STRIDE, offset)
        x = tf.reduce_mean(self.stage(norms, x, 4), [1, 2])
        return self.proposal_loss(margins, deltas, batch) + self.head_loss(x, labels, targets, sampled)

    def proposal_loss(self, margins, deltas, batch):
        labels = batch["anchor_labels"]
        weights = share(labels >= 0, margins.dtype)
        positive = tf.cast(labels == 1, margins.dtype)
        # of two classes, the cross-entropy of softmax is that of the sigmoid of their margin
        wrong = tf.nn.sigmoid_cross_entropy_with_logits(positive, margins)
        missed = smooth_l1(deltas - batch["anchor_targets"], self.specification.rpn_sigma)
        return tf.reduce_sum(wrong * weights) + tf.reduce_sum(missed * weights * positive)

    def head_loss(self, x, labels, targets, sampled):
        labels, targets = tf.reshape(labels, [-1]), tf.reshape(targets, [-1, 4])
        weights = tf.reshape(share(sampled, targets.dtype), [-1])
        wrong = cross_entropy(self.dense(x, "head.score"), labels)
        deltas = tf.reshape(at_least_float32(self.dense(x, "head.delta")), [-1, self.options["classes"] + 1, 4])
        missed = smooth_l1(tf.gather(deltas, labels, batch_dims=1) - targets, self.specification.head_sigma)
        return tf.reduce_sum(wrong * weights) + tf.reduce_sum(missed * weights * tf.cast(labels > 0, weights.dtype))

    def regions(self, margins, deltas, size, batch):
        """The sampled regions of all pictures: boxes, labels, targets, and whether a row is one (batch, regions)."""
        grid, corner = self.anchors(size, margins.dtype)
        found = boxes.decode(grid, deltas, self.specification.largest_growth)

        def of_picture(inputs):
            margins, found, size, scale, real_boxes, classes, order = inputs
            proposals, real = self.proposals(margins, found, corner, tf.cast(size[::-1], found.dtype), scale)
            candidates, real = tf.concat([proposals, real_boxes], 0), tf.concat([real, classes > 0], 0)
            return self.sample(candidates, real, real_boxes, classes, order)

        names = "sizes", "scales", "boxes", "classes", "region_order"
        count = self.options["regions"]
        kinds = ([count, 4], margins.dtype), ([count], tf.int32), ([count, 4], margins.dtype), ([count], tf.bool)
        signature = tuple(tf.TensorSpec(shape, dtype) for shape, dtype in kinds)
        inputs = (margins, found, *(batch[name] for name in names))
        return tf.map_fn(of_picture, inputs, fn_output_signature=signature)

    def anchors(self, size, dtype):
        """The anchors upon features of that size, and the corners of their places."""
        sides = tf.constant(anchors.anchor_sizes(self.specification.scales), dtype)
        rows, columns = tf.meshgrid(tf.range(size[0]), tf.range(size[1]), indexing="ij")
        corner = tf.cast(tf.reshape(tf.stack([columns, rows], -1), [-1, 1, 2]) * anchors.STRIDE, dtype)
        centre = corner + anchors.STRIDE / 2
        grid = tf.concat([centre - sides / 2, centre + sides / 2], -1)
        return tf.reshape(grid, [-1, 4]), tf.repeat(corner[:, 0], self.specification.anchors_of_a_place, 0)

    def proposals(self, margins, found, corner, bounds, scale):
        """A picture's proposals (proposals, 4), and whether a row is one; bounds are its width and height."""
        found = tf.clip_by_value(found, 0, tf.tile(bounds, [2]))
        sides = found[:, 2:] - found[:, :2]
        usable = tf.reduce_all(corner < bounds, 1) & tf.reduce_all(sides >= self.options["smallest"] * scale, 1)
        margins = tf.where(usable, margins, -float("inf"))
        margins, order = tf.math.top_k(margins, tf.minimum(self.options["before_nms"], tf.size(margins)))
        found = tf.gather(found, order)
        most = self.options["proposals"]
        kept, count = boxes.suppress(found, margins, self.specification.nms_threshold, most)
        return tf.gather(found, kept), tf.range(most) < count

    def sample(self, candidates, real, real_boxes, classes, order):
        """The sampled regions of a picture: boxes, labels, targets, and whether a row is one."""
        most, best = (column[:, 0] for column in tf.math.top_k(boxes.overlaps(candidates, real_boxes), 1))
        objects = real & (most >= self.specification.object_overlap)
        total = self.options["regions"]
        chosen = first(tf.gather(objects, order), int(total * self.specification.object_share))
        others = total - tf.math.count_nonzero(chosen, dtype=tf.int32)
        taken = chosen | first(tf.gather(real & ~objects, order), others)
        turns = tf.range(tf.size(order))
        places = tf.math.top_k(-tf.where(taken, turns, turns + tf.size(order)), total).indices
        rows, sampled = tf.gather(order, places), tf.gather(taken, places)
        is_object = tf.gather(objects, rows) & sampled
        regions, wanted = tf.gather(candidates, rows), tf.gather(best, rows)
        targets = boxes.encode(regions, tf.gather(real_boxes, wanted)) / self.specification.deviations
        labels = tf.where(is_object, tf.gather(classes, wanted), 0)
        return regions, labels, tf.where(is_object[:, None], targets, 0), sampled

    def frozen_norms(self):
        """{layer: (factor, summand)} of the batch norms, which are constants: all worked out at once."""
        names = {layer: batch_norm_of(layer) for layer in self.layers}
        weight, bias, mean, variance = (
            tf.concat([self.variables[f"{norm}.{array}"] for norm in names.values()], 0)
            for array in ("weight", "bias", "running_mean", "running_var")
        )
        factor = weight * tf.math.rsqrt(variance + self.specification.batch_norm_epsilon)
        sizes = [self.layers[layer].out for layer in names]
        both = (tf.split(array, sizes) for array in (factor, bias - mean * factor))
        return dict(zip(names, zip(*both, strict=True), strict=True))

    def normalised(self, norms, x, name):
        """The convolution of that name and the batch norm that follows it."""
        y = convolution(x, self.variables[name + ".weight"], self.layers[name].stride)
        factor, summand = (tf.cast(array, y.dtype) for array in norms[name])
        return y * factor + summand

    def stage(self, norms, x, stage):
        for block in range(self.specification.blocks[stage - 1]):
            prefix = f"layer{stage}.{block}."
            y = tf.nn.relu(self.normalised(norms, x, prefix + "conv1"))
            y = tf.nn.relu(self.normalised(norms, y, prefix + "conv2"))
            y = self.normalised(norms, y, prefix + "conv3")
            shortcut = prefix + "downsample.0"
            x = tf.nn.relu(y + (self.normalised(norms, x, shortcut) if shortcut in self.layers else x))
        return x

    def with_bias(self, x, name):
        y = convolution(x, self.variables[name + ".weight"], 1)
        return y + tf.cast(self.variables[name + ".bias"], y.dtype)

    def dense(self, x, name):
        y = tf.matmul(x, self.variables[name + ".weight"])
        return y + tf.cast(self.variables[name + ".bias"], y.dtype)


def rows(x, size):
    """(batch, height * width * anchors of a place, size) in at least float32 of (batch, height, width, channels)."""
    return at_least_float32(tf.reshape(x, [tf.shape(x)[0], -1, size]))


def first(flags, count):
    """Of the flags those that are set, but the first `count` alone."""
    return flags & (tf.cumsum(tf.cast(flags, tf.int32)) <= count)


def share(flags, dtype):
    """(batch, n): 1 / (set flags of the row x batch) where a flag is set, else 0: weights of a mean of means."""
    flags = tf.cast(flags, dtype)
    return flags / (tf.maximum(tf.reduce_sum(flags, 1, keepdims=True), 1) * tf.cast(tf.shape(flags)[0], dtype))


def smooth_l1(x, sigma):
    """(...): the sum over the last axis of (sigma x)^2 / 2 where |x| < 1 / sigma^2, else |x| - 1 / (2 sigma^2)."""
    size = tf.abs(x)
    return tf.reduce_sum(tf.where(size < 1 / sigma**2, tf.square(sigma * x) / 2, size - 0.5 / sigma**2), -1)


NETWORK = Network
