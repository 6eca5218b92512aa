"""Faster R-CNN with ResNet-101 on flax.linen layers, all of a step compiled as one.

No package of JAX's has it, so it is by hand: batch norm by its running statistics, anchors' targets and the order of
drawing from the batch as in ours, non-maximum suppression a box at a time. It scores an object by one number instead of
two.
"""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jax import lax

from peers.jax import loop

SOURCE = "by hand, flax.linen"
STRIDE = 16


class Unit(nn.Module):
    """A convolution and a batch norm of constants; `frozen` ones are not trained."""

    out: int
    kernel: int
    stride: int
    frozen: bool
    dtype: type

    @nn.compact
    def __call__(self, x):
        edge = self.kernel // 2
        x = nn.Conv(self.out, (self.kernel,) * 2, self.stride, padding=edge, use_bias=False, dtype=self.dtype)(x)
        x = nn.BatchNorm(use_running_average=True, use_bias=False, use_scale=False, epsilon=1e-5, dtype=self.dtype)(x)
        return lax.stop_gradient(x) if self.frozen else x


class Stage(nn.Module):
    width: int
    count: int
    stride: int
    frozen: bool
    dtype: type

    @nn.compact
    def __call__(self, x):
        for block in range(self.count):
            stride, rest = self.stride if block == 0 else 1, (self.frozen, self.dtype)
            y = nn.relu(Unit(self.width, 1, 1, *rest)(x))
            y = nn.relu(Unit(self.width, 3, stride, *rest)(y))
            y = Unit(4 * self.width, 1, 1, *rest)(y)
            if block == 0:
                x = Unit(4 * self.width, 1, stride, *rest)(x)
            x = nn.relu(x + y)
        return x


class Detector(nn.Module):
    options: dict
    dtype: type

    @nn.compact
    def __call__(self, inputs):
        o, dtype = self.options, self.dtype
        width, counts = o["width"], [int(count) for count in o["blocks"].split(",")]
        scales = [int(scale) for scale in o["scales"].split(",")]
        x = nn.relu(Unit(width, 7, 2, True, dtype)(inputs["images"].astype(dtype)))
        x = nn.max_pool(x, (3, 3), (2, 2), ((1, 1), (1, 1)))
        for n in range(3):
            x = Stage(width * 2**n, counts[n], 1 if n == 0 else 2, n == 0, dtype)(x)
        batch, height, across, _ = x.shape
        t = nn.relu(nn.Conv(o["rpn_width"], (3, 3), padding=1, dtype=dtype)(x))
        places = 3 * len(scales)
        scores = nn.Conv(places, (1, 1), dtype=dtype)(t).astype(jnp.float32).reshape(batch, -1)
        deltas = nn.Conv(4 * places, (1, 1), dtype=dtype)(t).astype(jnp.float32).reshape(batch, -1, 4)

        grid = anchors(height, across, scales)
        names = "sizes", "scales", "boxes", "classes", "region_order"
        own = lax.stop_gradient((scores, decoded(grid, deltas)))
        found = jax.vmap(lambda *of: regions(o, *of))(*own, *(inputs[name] for name in names))
        taken, labels, targets, real = found
        pooled = jax.vmap(lambda features, boxes: align(features, boxes, o["pooled"]))(x, taken)
        y = Stage(8 * width, counts[3], 2, False, dtype)(pooled.reshape(-1, *pooled.shape[2:])).mean((1, 2))
        classes = nn.Dense(o["classes"] + 1, dtype=dtype)(y).astype(jnp.float32)
        moves = nn.Dense(4 * (o["classes"] + 1), dtype=dtype)(y).astype(jnp.float32).reshape(len(y), -1, 4)

        anchor_labels = inputs["anchor_labels"]
        weights = share(anchor_labels >= 0)
        total = jnp.sum(weights * optax.sigmoid_binary_cross_entropy(scores, anchor_labels == 1))
        missed = smooth_l1(deltas - inputs["anchor_targets"], 3.0)
        total += jnp.sum(weights * (anchor_labels == 1) * missed)
        weights, labels = share(real).reshape(-1), labels.reshape(-1)
        total += jnp.sum(weights * optax.softmax_cross_entropy_with_integer_labels(classes, labels))
        moves = jnp.take_along_axis(moves, labels[:, None, None], 1)[:, 0]
        return total + jnp.sum(weights * (labels > 0) * smooth_l1(moves - targets.reshape(-1, 4), 1.0))


def anchors(height, width, scales):
    """(height * width * anchors of a place, 4)."""
    sides = [(scale * STRIDE * r**-0.5, scale * STRIDE * r**0.5) for r in (0.5, 1.0, 2.0) for scale in scales]
    x, y = jnp.meshgrid(jnp.arange(width), jnp.arange(height))
    centres = (jnp.stack([x, y], -1)[:, :, None] + 0.5) * STRIDE
    half = jnp.array(sides) / 2
    return jnp.concatenate([centres - half, centres + half], -1).reshape(-1, 4)


def decoded(boxes, deltas):
    size = boxes[:, 2:] - boxes[:, :2]
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2 + deltas[..., :2] * size
    half = size * jnp.exp(jnp.minimum(deltas[..., 2:], 4.135)) / 2
    return jnp.concatenate([centres - half, centres + half], -1)


def encoded(boxes, targets):
    size, wanted = boxes[:, 2:] - boxes[:, :2], targets[:, 2:] - targets[:, :2]
    shift = (targets[:, :2] + targets[:, 2:] - boxes[:, :2] - boxes[:, 2:]) / 2
    return jnp.concatenate([shift / size, jnp.log(wanted / size)], 1)


def overlaps(boxes, others):
    corner = jnp.maximum(boxes[:, None, :2], others[None, :, :2])
    both = jnp.maximum(jnp.minimum(boxes[:, None, 2:], others[None, :, 2:]) - corner, 0).prod(-1)
    first, second = ((b[:, 2:] - b[:, :2]).prod(1) for b in (boxes, others))
    return both / jnp.maximum(first[:, None] + second[None] - both, 1e-9)


def suppressed(boxes, scores, most):
    """Indices of the boxes that non-maximum suppression keeps, and whether each is one (most,)."""

    def one(n, state):
        left, kept, real = state
        best = jnp.argmax(left)
        real = real.at[n].set(left[best] > -jnp.inf)
        gone = overlaps(boxes, boxes[best][None])[:, 0] > 0.7
        left = jnp.where(gone, -jnp.inf, left).at[best].set(-jnp.inf)
        return left, kept.at[n].set(best), real

    return lax.fori_loop(0, most, one, (scores, jnp.zeros(most, int), jnp.zeros(most, bool)))[1:]


def regions(options, scores, found, size, scale, boxes, classes, order):
    """(regions, labels, targets, whether each is one) of a picture."""
    found = jnp.clip(found, 0, jnp.tile(size[::-1], 2))
    usable = (found[:, 2:] - found[:, :2] >= options["smallest"] * scale).all(1)
    scores, best = lax.top_k(jnp.where(usable, scores, -jnp.inf), min(options["before_nms"], len(scores)))
    found = found[best]
    kept, real = suppressed(found, scores, options["proposals"])
    found, real = jnp.concatenate([found[kept], boxes]), jnp.concatenate([real, classes > 0])
    each = overlaps(found, boxes)
    is_object, nearest = real & (each.max(1) >= 0.5), each.argmax(1)
    # `order` is a permutation: the highest of the objects, and then of the others
    chosen, rows = lax.top_k(jnp.where(is_object, order, -1), options["regions"] // 4)
    turns = jnp.where(real & ~is_object, order, -1).at[rows].set(jnp.where(chosen >= 0, len(order), -1))
    turns, rows = lax.top_k(turns, options["regions"])
    objects = (turns == len(order))[:, None]
    labels = jnp.where(objects[:, 0], classes[nearest[rows]], 0)
    taken, wanted = found[rows], boxes[nearest[rows]]
    targets = encoded(jnp.where(objects, taken, 1.0 * jnp.arange(4)), jnp.where(objects, wanted, 1.0 * jnp.arange(4)))
    return taken, labels, targets / jnp.array([0.1, 0.1, 0.2, 0.2]), turns >= 0


def align(features, boxes, pooled):
    """ROI align with a sample a bin: (n, pooled, pooled, channels) of features (height, width, channels)."""
    bins = (jnp.arange(pooled) + 0.5) / pooled

    def neighbours(begin, end, size):
        place = jnp.clip((begin[:, None] + bins * (end - begin)[:, None]) / STRIDE - 0.5, 0, size - 1)
        low = jnp.floor(place).astype(int)
        return ((low, 1 - (place - low)), (jnp.minimum(low + 1, size - 1), place - low))

    rows = neighbours(boxes[:, 1], boxes[:, 3], features.shape[0])
    columns = neighbours(boxes[:, 0], boxes[:, 2], features.shape[1])
    return sum(
        features[y[:, :, None], x[:, None, :]]
        * (down[:, :, None] * across[:, None, :])[..., None].astype(features.dtype)
        for y, down in rows
        for x, across in columns
    )


def share(flags):
    """Weights of the mean over the pictures of the mean of those that are set."""
    return flags / jnp.maximum(flags.sum(1, keepdims=True), 1) / len(flags)


def smooth_l1(x, sigma):
    size = jnp.abs(x)
    return jnp.where(size < 1 / sigma**2, (sigma * x) ** 2 / 2, size - 0.5 / sigma**2).sum(-1)


def build(options, batch_size, device, precision, compile):
    dtype = loop.set_up(device, precision)
    height = width = STRIDE * 4
    candidates = options["proposals"] + options["boxes"]
    count = (height // STRIDE) * (width // STRIDE) * 3 * len(options["scales"].split(","))
    example = {
        "images": jnp.zeros((1, height, width, 3)),
        "sizes": jnp.full((1, 2), height),
        "scales": jnp.ones(1),
        "boxes": jnp.zeros((1, options["boxes"], 4)),
        "classes": jnp.zeros((1, options["boxes"]), int),
        "anchor_labels": jnp.zeros((1, count), int),
        "anchor_targets": jnp.zeros((1, count, 4)),
        "region_order": jnp.arange(candidates)[None],
    }
    optimizer = optax.chain(optax.add_decayed_weights(5e-4), optax.sgd(0.001 * batch_size, momentum=0.9))
    return loop.build(Detector(options, dtype), lambda apply, inputs: apply(inputs), optimizer, (example,))
