"""Faster R-CNN in CNTK, channels first. See specification.py for the definition. Python 3.6 syntax.

Which regions are sampled is worked out in numpy, by a function of CNTK's UserFunction: no gradient goes through it.
"""

import cntk as C
import numpy
from cntk.ops.functions import UserFunction

from tbd.frameworks.cntk import boxes
from tbd.frameworks.cntk.layers import (
    channels_first,
    convolution,
    cross_entropy,
    dense,
    max_pool,
    mean_of_pixels,
    sum_of_all,
)
from tbd.models.faster_rcnn import anchors
from tbd.models.faster_rcnn.specification import batch_norm_of


class Network:
    """The loss of a batch (tbd/frameworks/cntk/training.py)."""

    def __init__(self, specification, weights):
        self.specification, self.options, self.weights = specification, specification.options, weights
        self.layers = {layer.name: layer for layer in specification.backbone + specification.stage(4)}

    def __call__(self, inputs, update, rows):
        x = C.relu(self.normalised(channels_first(inputs["images"]), "conv1"))
        x = max_pool(x, kernel=3, stride=2)
        for stage in (1, 2, 3):
            x = self.stage(x, stage)
        features = x

        t = C.relu(self.with_bias(features, "rpn.conv"))
        score, deltas = (of_anchors(self.with_bias(t, "rpn." + name), n) for name, n in (("score", 2), ("delta", 4)))
        margins = C.reshape(part(score, 1, 2) - part(score, 0, 1), (-1,))
        regions = self.regions(margins, deltas, features.shape[1:], inputs)

        offset = self.specification.bin_offset
        x = boxes.roi_align(features, part(regions, 0, 4), rows, self.options["pooled"], anchors.STRIDE, offset)
        x = mean_of_pixels(self.stage(x, 4))
        beside = C.to_batch(C.reshape(C.unpack_batch(regions), (rows * regions.shape[0], COLUMNS)))
        return (self.proposal_loss(margins, deltas, inputs) + self.head_loss(x, beside)) / rows, []

    def regions(self, margins, deltas, size, inputs):
        """What Regions gives of each picture."""
        given = [C.stop_gradient(margins), C.stop_gradient(deltas)]
        given += [inputs[name] for name in ("sizes", "scales", "boxes", "classes", "region_order")]
        return C.stop_gradient(C.user_function(Regions(given, self.specification, size)))

    def proposal_loss(self, margins, deltas, inputs):
        """The sum of the pictures' losses."""
        labels = inputs["anchor_labels"]
        sampled = C.greater_equal(labels, 0)
        weights = C.stop_gradient(sampled / C.element_max(C.reduce_sum(sampled, 0), 1))
        positive = C.stop_gradient(C.equal(labels, 1))
        # of two classes, the cross-entropy of softmax is that of the sigmoid of their margin
        wrong = C.relu(margins) - margins * positive + C.log(1 + C.exp(-C.abs(margins)))
        missed = smooth_l1(deltas - inputs["anchor_targets"], self.specification.rpn_sigma)
        return sum_of_all(wrong * weights + C.reshape(missed, (-1,)) * weights * positive)

    def head_loss(self, x, regions):
        """The sum of the pictures' losses; x is of a region, and `regions` what Regions says of it, (COLUMNS,)."""
        label, targets, share = part(regions, 4, 5), part(regions, 5, 9), part(regions, 9, 10)
        label = C.reshape(label, ())
        wrong = cross_entropy(self.dense(x, "head.score"), label)
        classes = self.options["classes"] + 1
        deltas = C.reshape(self.dense(x, "head.delta"), (classes, 4))
        chosen = C.reshape(C.one_hot(label, classes), (classes, 1))
        deltas = C.reshape(C.reduce_sum(deltas * chosen, 0), (4,))
        missed = smooth_l1(deltas - targets, self.specification.head_sigma)
        return sum_of_all(C.reshape(wrong, (1,)) * share + missed * share * C.greater(label, 0))

    def stage(self, x, stage):
        for block in range(self.specification.blocks[stage - 1]):
            prefix = "layer%d.%d." % (stage, block)
            y = C.relu(self.normalised(x, prefix + "conv1"))
            y = C.relu(self.normalised(y, prefix + "conv2"))
            y = self.normalised(y, prefix + "conv3")
            shortcut = prefix + "downsample.0"
            x = C.relu(y + (self.normalised(x, shortcut) if shortcut in self.layers else x))
        return x

    def normalised(self, x, name):
        """The convolution of that name and the batch norm that follows it, which is constant: as one convolution."""
        norm = batch_norm_of(name)
        weight, bias, mean, variance = (
            self.weights["%s.%s" % (norm, array)] for array in ("weight", "bias", "running_mean", "running_var")
        )
        factor = weight / C.sqrt(variance + self.specification.batch_norm_epsilon)
        scaled = self.weights[name + ".weight"] * C.reshape(factor, (-1, 1, 1, 1))
        return convolution(x, scaled, self.layers[name].stride) + C.reshape(bias - mean * factor, (-1, 1, 1))

    def with_bias(self, x, name):
        return convolution(x, self.weights[name + ".weight"]) + C.reshape(self.weights[name + ".bias"], (-1, 1, 1))

    def dense(self, x, name):
        return dense(x, self.weights[name + ".weight"], self.weights[name + ".bias"])


COLUMNS = 10  # of a region: its box, its label, its targets, and its share of the mean over the sampled regions


class Regions(UserFunction):
    """The sampled regions of each picture, (regions, COLUMNS): zeros where there are fewer."""

    def __init__(self, inputs, specification, size):
        super().__init__(inputs, as_numpy=True, name="regions")
        self.specification, self.options = specification, specification.options
        self.grid = anchors.anchor_grid(size[0], size[1], specification.scales).astype(inputs[0].dtype)
        self.corner = (self.grid[:, :2] + self.grid[:, 2:] - anchors.STRIDE) / 2

    def infer_outputs(self):
        like, shape = self.inputs[0], (self.options["regions"], COLUMNS)
        return [C.output_variable(shape, like.dtype, like.dynamic_axes, needs_gradient=False)]

    def forward(self, arguments, device=None, outputs_to_retain=None):
        return None, numpy.stack([self.of_picture(*rows) for rows in zip(*arguments)])

    def of_picture(self, margins, deltas, size, scale, real_boxes, classes, order):
        proposals = self.proposals(margins, deltas, size, scale)
        missing = numpy.zeros((self.options["proposals"] - len(proposals), 4), proposals.dtype)
        candidates = numpy.concatenate([proposals, missing, real_boxes])
        places = numpy.arange(self.options["proposals"])
        real = numpy.concatenate([places < len(proposals), classes > 0])
        return self.sample(candidates, real, real_boxes, classes, order.astype(int))

    def proposals(self, margins, deltas, size, scale):
        """The proposals, (n, 4)."""
        height, width = size
        bounds = numpy.array([width, height, width, height], self.grid.dtype)
        found = boxes.decode(self.grid, deltas, self.specification.largest_growth)
        found = numpy.minimum(numpy.maximum(found, 0), bounds)
        sides = found[:, 2:] - found[:, :2]
        usable = (self.corner < bounds[:2]).all(1) & (sides >= self.options["smallest"] * scale).all(1)
        (usable,) = numpy.nonzero(usable)
        best = usable[numpy.argsort(-margins[usable], kind="stable")][: self.options["before_nms"]]
        return found[best[boxes.suppress(found[best], self.specification.nms_threshold, self.options["proposals"])]]

    def sample(self, candidates, real, real_boxes, classes, order):
        """The sampled regions of candidates, of which those that are `real` count."""
        found = anchors.overlaps(candidates, real_boxes)
        objects = real & (found.max(1) >= self.specification.object_overlap)
        total = self.options["regions"]
        taken = order[objects[order]][: int(total * self.specification.object_share)]
        others = order[(real & ~objects)[order]][: total - len(taken)]
        rows = order[numpy.isin(order, numpy.concatenate([taken, others]))]
        wanted = found[rows].argmax(1)
        regions = numpy.zeros((total, COLUMNS), candidates.dtype)
        sampled = regions[: len(rows)]
        sampled[:, :4] = candidates[rows]
        sampled[:, 4] = classes[wanted] * objects[rows]
        (positive,) = numpy.nonzero(objects[rows])
        targets = anchors.encode(candidates[rows[positive]], real_boxes[wanted[positive]])
        sampled[positive, 5:9] = targets / self.specification.deviations
        sampled[:, 9] = 1.0 / max(len(rows), 1)
        return regions


def of_anchors(x, size):
    """(anchors, size) of (channels, height, width)."""
    return C.reshape(C.transpose(x, (1, 2, 0)), (-1, size))


def part(x, begin, end):
    """x[..., begin:end]."""
    return C.slice(x, -1, begin, end)


def smooth_l1(x, sigma):
    """(..., 1): the sum over the last axis of (sigma x)^2 / 2 where |x| < 1 / sigma^2, else |x| - 1 / (2 sigma^2)."""
    size = C.abs(x)
    near = C.stop_gradient(C.less(size, 1 / sigma**2))
    return C.reduce_sum(C.element_select(near, C.square(sigma * x) / 2, size - 0.5 / sigma**2), -1)


NETWORK = Network
