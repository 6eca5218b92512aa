"""Faster R-CNN in MXNet, channels first. See specification.py for the definition."""

from mxnet import sym

from tbd.frameworks.mxnet import boxes
from tbd.frameworks.mxnet.layers import (
    channels_first,
    convolution,
    cross_entropy,
    dense,
    max_pool,
    relu,
    shape_of,
    type_of,
)
from tbd.models.faster_rcnn import anchors
from tbd.models.faster_rcnn.specification import batch_norm_of


class Network:
    """The loss of a batch (tbd/frameworks/mxnet/training.py)."""

    def __init__(self, specification):
        self.specification = specification

    def __call__(self, weights, inputs, update):
        return Pass(self.specification, weights, inputs).loss(), {}


class Pass:
    """One forward pass over `weights`, {canonical name: symbol}, for a batch."""

    def __init__(self, specification, weights, batch):
        self.specification, self.options = specification, specification.options
        self.weights, self.batch = weights, batch
        self.layers = {layer.name: layer for layer in specification.backbone + specification.stage(4)}
        self.rows, _, _, _ = shape_of(batch["images"])
        self.dtype = type_of(batch["images"])

    def loss(self):
        x = relu(self.normalised(channels_first(self.batch["images"]), "conv1"))
        x = max_pool(x, kernel=3, stride=2)
        for stage in (1, 2, 3):
            x = self.stage(x, stage)
        features = x

        t = relu(self.with_bias(features, "rpn.conv"))
        score, deltas = (
            self.of_anchors(self.with_bias(t, "rpn." + name), n) for name, n in (("score", 2), ("delta", 4))
        )
        margins = sym.reshape(boxes.part(score, 1, 2) - boxes.part(score, 0, 1), (self.rows, -1))
        _, _, *size = shape_of(features)
        found = self.regions(sym.BlockGrad(margins), sym.BlockGrad(deltas), size)
        regions, labels, targets, sampled = (sym.BlockGrad(column) for column in found)

        offset = self.specification.bin_offset
        x = boxes.roi_align(features, regions, self.options["pooled"], anchors.STRIDE, offset)
        x = sym.mean(self.stage(x, 4), axis=(2, 3))
        return self.proposal_loss(margins, deltas) + self.head_loss(x, labels, targets, sampled)

    def proposal_loss(self, margins, deltas):
        labels = self.batch["anchor_labels"]
        weights = self.share(sym.cast(labels >= 0, self.dtype))
        positive = sym.cast(labels == 1, self.dtype)
        # of two classes, the cross-entropy of softmax is that of the sigmoid of their margin
        wrong = relu(margins) - margins * positive + sym.log1p(sym.exp(-sym.abs(margins)))
        missed = smooth_l1(deltas - self.batch["anchor_targets"], self.specification.rpn_sigma)
        return sym.sum(wrong * weights) + sym.sum(missed * weights * positive)

    def head_loss(self, x, labels, targets, sampled):
        labels, weights = (sym.reshape(column, (-1,)) for column in (labels, self.share(sampled)))
        wrong = cross_entropy(self.dense(x, "head.score"), labels)
        classes = self.options["classes"] + 1
        deltas = sym.reshape(self.dense(x, "head.delta"), (-1, classes, 4))
        chosen = sym.expand_dims(sym.one_hot(labels, depth=classes, dtype=self.dtype), 2)
        deltas = sym.sum(sym.broadcast_mul(deltas, chosen), axis=1)
        missed = smooth_l1(deltas - sym.reshape(targets, (-1, 4)), self.specification.head_sigma)
        return sym.sum(wrong * weights) + sym.sum(missed * weights * (labels > 0))

    def share(self, flags):
        """(batch, n): 1 / (set flags of the row x batch) where a flag is set, else 0: weights of a mean of means."""
        return sym.broadcast_div(flags, sym.maximum(sym.sum(flags, axis=1, keepdims=True), 1) * self.rows)

    def regions(self, margins, deltas, size):
        """The sampled regions of all pictures: boxes, labels, targets, and whether a row is one (batch, regions)."""
        grid, corner = self.anchors(size)
        found = boxes.decode(grid, deltas, self.specification.largest_growth)
        proposals, real = self.proposals(margins, found, corner)
        candidates = sym.concat(proposals, self.batch["boxes"], dim=1)
        real = sym.concat(real, sym.cast(self.batch["classes"] > 0, self.dtype), dim=1)
        return self.sample(candidates, real)

    def anchors(self, size):
        """The anchors upon features of that size (1, n, 4), and the corners of their places (1, n, 2)."""
        height, width = size
        count = self.specification.anchors_of_a_place
        sides = self.constant(anchors.anchor_sizes(self.specification.scales))
        shape = (height, width, count, 1)
        columns, rows = (
            sym.broadcast_to(sym.reshape(sym.arange(n, dtype=self.dtype) * anchors.STRIDE, place), shape)
            for n, place in ((width, (1, width, 1, 1)), (height, (height, 1, 1, 1)))
        )
        corner = sym.concat(columns, rows, dim=3)
        half = sym.reshape(sides, (1, 1, count, 2)) / 2
        centre = corner + anchors.STRIDE / 2
        grid = sym.concat(sym.broadcast_sub(centre, half), sym.broadcast_add(centre, half), dim=3)
        return sym.reshape(grid, (1, -1, 4)), sym.reshape(corner, (1, -1, 2))

    def proposals(self, margins, found, corner):
        """The proposals (batch, proposals, 4), and whether a row is one."""
        height, width = (boxes.part(sym.cast(self.batch["sizes"], self.dtype), n, n + 1) for n in (0, 1))
        bounds = sym.expand_dims(sym.concat(width, height, dim=1), 1)
        found = sym.broadcast_minimum(sym.maximum(found, 0), sym.concat(bounds, bounds, dim=2))
        sides = boxes.part(found, 2, 4) - boxes.part(found, 0, 2)
        smallest = sym.reshape(self.options["smallest"] * self.batch["scales"], (-1, 1, 1))
        usable = sym.broadcast_lesser(corner, bounds) * sym.broadcast_greater_equal(sides, smallest)
        margins = sym.where(sym.min(usable, axis=2), margins, sym.ones_like(margins) * boxes.NEVER)
        limits = self.specification.nms_threshold, self.options["before_nms"], self.options["proposals"]
        kept, real = boxes.suppress(found, margins, *limits)
        return self.taken(found, kept), real

    def sample(self, candidates, real):
        """The sampled regions: boxes, labels, targets, and whether a row is one."""
        found = boxes.overlaps(candidates, self.batch["boxes"])
        objects = real * (sym.max(found, axis=2) >= self.specification.object_overlap)
        total, order = self.options["regions"], self.batch["region_order"]
        in_order = self.taken(objects, order)
        chosen = first(in_order, int(total * self.specification.object_share))
        others = total - sym.sum(chosen, axis=1, keepdims=True)
        taken = chosen + first(self.taken(real, order) * (1 - in_order), others)
        _, count = shape_of(order)
        turns = sym.reshape(sym.arange(count, dtype=self.dtype), (1, count))
        late = sym.broadcast_add((1 - taken) * count, turns)
        places = sym.topk(late, axis=1, k=total, is_ascend=True, dtype="int32")
        rows, sampled = self.taken(order, places), self.taken(taken, places)
        is_object = self.taken(objects, rows) * sampled
        wanted = self.taken(sym.cast(sym.argmax(found, axis=2), "int32"), rows)
        regions = self.taken(candidates, rows)
        targets = boxes.encode(regions, self.taken(self.batch["boxes"], wanted))
        targets = sym.broadcast_div(targets, sym.reshape(self.constant(self.specification.deviations), (1, 1, 4)))
        labels = self.taken(sym.cast(self.batch["classes"], self.dtype), wanted) * is_object
        every = sym.broadcast_mul(sym.expand_dims(is_object, 2), sym.ones_like(targets))
        return regions, labels, sym.where(every, targets, sym.zeros_like(targets)), sampled

    def taken(self, x, places):
        """x (batch, n, ...) at `places` (batch, m) of its second axis."""
        _, count, *rest = shape_of(x)
        _, wanted = shape_of(places)
        begin = sym.reshape(sym.arange(self.rows, dtype="int32") * count, (self.rows, 1))
        flat = sym.reshape(sym.broadcast_add(places, begin), (-1,))
        found = sym.take(sym.reshape(x, (self.rows * count, *rest)), flat)
        return sym.reshape(found, (self.rows, wanted, *rest))

    def constant(self, array):
        """Few numbers, in one row."""
        numbers = [float(number) for row in array for number in getattr(row, "flat", [row])]
        return sym.concat(*[sym.full((1,), number, dtype=self.dtype) for number in numbers], dim=0)

    def stage(self, x, stage):
        for block in range(self.specification.blocks[stage - 1]):
            prefix = f"layer{stage}.{block}."
            y = relu(self.normalised(x, prefix + "conv1"))
            y = relu(self.normalised(y, prefix + "conv2"))
            y = self.normalised(y, prefix + "conv3")
            shortcut = prefix + "downsample.0"
            x = relu(y + (self.normalised(x, shortcut) if shortcut in self.layers else x))
        return x

    def normalised(self, x, name):
        """The convolution of that name and the batch norm that follows it, which is constant: as one convolution."""
        norm = batch_norm_of(name)
        weight, bias, mean, variance = (
            self.weights[f"{norm}.{array}"] for array in ("weight", "bias", "running_mean", "running_var")
        )
        factor = weight * sym.rsqrt(variance + self.specification.batch_norm_epsilon)
        scaled = sym.broadcast_mul(self.weights[name + ".weight"], sym.reshape(factor, (-1, 1, 1, 1)))
        return convolution(x, scaled, self.layers[name].stride, bias=bias - mean * factor)

    def with_bias(self, x, name):
        return convolution(x, self.weights[name + ".weight"], bias=self.weights[name + ".bias"])

    def dense(self, x, name):
        return dense(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def of_anchors(self, x, size):
        """(batch, anchors, size) of (batch, channels, height, width)."""
        return sym.reshape(sym.transpose(x, (0, 2, 3, 1)), (self.rows, -1, size))


def first(flags, count):
    """Of each row's flags those that are set, but the first `count` alone: a number, or one a row (batch, 1)."""
    so_far = sym.cumsum(flags, axis=1)
    return flags * (sym.broadcast_lesser_equal(so_far, count) if isinstance(count, sym.Symbol) else so_far <= count)


def smooth_l1(x, sigma):
    """(...): the sum over the last axis of (sigma x)^2 / 2 where |x| < 1 / sigma^2, else |x| - 1 / (2 sigma^2)."""
    return sym.sum(sym.smooth_l1(x, scalar=sigma), axis=-1)


NETWORK = Network
