"""Faster R-CNN in JAX, channels last. See specification.py for the definition."""

import functools

import jax
import jax.numpy as jnp
import numpy
from jax import lax

from tbd.frameworks.jax import boxes
from tbd.frameworks.jax.layers import at_least_float32, convolution, cross_entropy, max_pool
from tbd.models.faster_rcnn import anchors
from tbd.models.faster_rcnn.specification import batch_norm_of


class Network:
    """The loss of a batch (tbd/frameworks/jax/training.py); no statistics move."""

    def __init__(self, specification):
        self.specification, self.options = specification, specification.options
        self.layers = {layer.name: layer for layer in specification.backbone + specification.stage(4)}

    def __call__(self, weights, inputs, update):
        x = jax.nn.relu(self.normalised(weights, inputs["images"], "conv1"))
        x = max_pool(x, kernel=3, stride=2)
        for stage in (1, 2, 3):
            x = self.stage(weights, x, stage)
        features = x

        t = jax.nn.relu(with_bias(convolution(features, weights["rpn.conv.weight"], 1), weights["rpn.conv.bias"]))
        scores, deltas = (
            rows(with_bias(convolution(t, weights[f"rpn.{name}.weight"], 1), weights[f"rpn.{name}.bias"]), size)
            for name, size in (("score", 2), ("delta", 4))
        )
        margins = scores[..., 1] - scores[..., 0]
        found = self.regions(lax.stop_gradient(margins), lax.stop_gradient(deltas), features.shape[1:3], inputs)
        regions, labels, targets, sampled = found

        offset = self.specification.bin_offset
        x = boxes.roi_align(features, regions, self.options["pooled"], anchors.STRIDE, offset)
        x = jnp.mean(self.stage(weights, x, 4), (1, 2))
        loss = self.proposal_loss(margins, deltas, inputs) + self.head_loss(weights, x, labels, targets, sampled)
        return loss, {}

    def proposal_loss(self, margins, deltas, inputs):
        labels = inputs["anchor_labels"]
        weights = share(labels >= 0, margins.dtype)
        # of two classes, the cross-entropy of softmax is that of the sigmoid of their margin
        wrong = boxes.binary_cross_entropy(margins, labels == 1)
        missed = boxes.smooth_l1(deltas - inputs["anchor_targets"], self.specification.rpn_sigma)
        return jnp.sum(wrong * weights) + jnp.sum(missed * weights * (labels == 1))

    def head_loss(self, weights, x, labels, targets, sampled):
        labels, targets = labels.reshape(-1), targets.reshape(-1, 4)
        shares = share(sampled, targets.dtype).reshape(-1)
        scores, deltas = (
            with_bias(x @ weights[f"head.{name}.weight"], weights[f"head.{name}.bias"]) for name in ("score", "delta")
        )
        deltas = at_least_float32(deltas).reshape(len(labels), -1, 4)
        deltas = jnp.take_along_axis(deltas, labels[:, None, None], 1)[:, 0]
        missed = boxes.smooth_l1(deltas - targets, self.specification.head_sigma)
        return jnp.sum(cross_entropy(scores, labels) * shares) + jnp.sum(missed * shares * (labels > 0))

    def regions(self, margins, deltas, size, inputs):
        """The sampled regions of all pictures: boxes, labels, targets, and whether a row is one (batch, regions)."""
        grid = anchors.anchor_grid(*size, self.specification.scales).astype(margins.dtype)
        found = boxes.decode(grid, deltas, self.specification.largest_growth)
        names = "sizes", "scales", "boxes", "classes", "region_order"
        of_picture = functools.partial(self.regions_of_picture, grid)
        return jax.vmap(of_picture)(margins, found, *(inputs[name] for name in names))

    def regions_of_picture(self, grid, margins, found, size, scale, real_boxes, classes, order):
        proposals, real = self.proposals(grid, margins, found, size[::-1], scale)
        candidates, real = jnp.concatenate([proposals, real_boxes]), jnp.concatenate([real, classes > 0])
        return self.sample(candidates, real, real_boxes, classes, order)

    def proposals(self, grid, margins, found, bounds, scale):
        """A picture's proposals (proposals, 4), and whether a row is one; bounds are its width and height."""
        found = jnp.clip(found, 0, jnp.tile(bounds, 2).astype(found.dtype))
        sides = found[:, 2:] - found[:, :2]
        corner = (grid[:, :2] + grid[:, 2:] - anchors.STRIDE) / 2
        usable = jnp.all(corner < bounds, 1) & jnp.all(sides >= self.options["smallest"] * scale, 1)
        margins, order = lax.top_k(jnp.where(usable, margins, -jnp.inf), min(self.options["before_nms"], len(margins)))
        found, count, most = found[order], jnp.sum(margins > -jnp.inf), self.options["proposals"]
        kept, count = boxes.suppress(found, count, self.specification.nms_threshold, most)
        return found[kept], jnp.arange(most) < count

    def sample(self, candidates, real, real_boxes, classes, order):
        """The sampled regions of a picture: boxes, labels, targets, and whether a row is one."""
        overlaps = boxes.overlaps(candidates, real_boxes)
        most, best = jnp.max(overlaps, 1), jnp.argmax(overlaps, 1)
        objects = real & (most >= self.specification.object_overlap)
        total = self.options["regions"]
        chosen = first(objects[order], int(total * self.specification.object_share))
        taken = chosen | first((real & ~objects)[order], total - jnp.sum(chosen))
        turns = jnp.arange(len(order))
        _, places = lax.top_k(-jnp.where(taken, turns, turns + len(order)), total)
        rows, sampled = order[places], taken[places]
        is_object = objects[rows] & sampled
        regions, wanted = candidates[rows], best[rows]
        deviations = numpy.array(self.specification.deviations, regions.dtype)
        targets = boxes.encode(regions, real_boxes[wanted]) / deviations
        labels = jnp.where(is_object, classes[wanted], 0)
        return regions, labels, jnp.where(is_object[:, None], targets, 0), sampled

    def normalised(self, weights, x, name):
        """The convolution of that name and the frozen batch norm that follows it."""
        norm = batch_norm_of(name)
        weight, bias, mean, variance = (
            weights[f"{norm}.{array}"] for array in ("weight", "bias", "running_mean", "running_var")
        )
        factor = weight * lax.rsqrt(variance + self.specification.batch_norm_epsilon)
        y = convolution(x, weights[name + ".weight"], self.layers[name].stride)
        return y * factor.astype(y.dtype) + (bias - mean * factor).astype(y.dtype)

    def stage(self, weights, x, stage):
        for block in range(self.specification.blocks[stage - 1]):
            prefix = f"layer{stage}.{block}."
            y = jax.nn.relu(self.normalised(weights, x, prefix + "conv1"))
            y = jax.nn.relu(self.normalised(weights, y, prefix + "conv2"))
            y = self.normalised(weights, y, prefix + "conv3")
            shortcut = prefix + "downsample.0"
            x = jax.nn.relu(y + (self.normalised(weights, x, shortcut) if shortcut in self.layers else x))
        return x


def with_bias(x, bias):
    return x + bias.astype(x.dtype)


def rows(x, size):
    """(batch, height * width * anchors of a place, size) in at least float32 of (batch, height, width, channels)."""
    return at_least_float32(x.reshape(len(x), -1, size))


def first(flags, count):
    """Of the flags those that are set, but the first `count` alone."""
    return flags & (jnp.cumsum(flags) <= count)


def share(flags, dtype):
    """(batch, n): 1 / (set flags of the row x batch) where a flag is set, else 0: weights of a mean of means."""
    flags = flags.astype(dtype)
    return flags / (jnp.maximum(jnp.sum(flags, 1, keepdims=True), 1) * len(flags))


NETWORK = Network
