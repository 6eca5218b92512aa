"""What detectors do with boxes, (..., 4) arrays of x1, y1, x2, y2 in pixels with continuous edges."""

import jax
import jax.numpy as jnp
from jax import lax

TILE = 256  # boxes at a time: few enough that most of a tile's overlaps count, enough to hide the loop's own time


def decode(boxes, deltas, largest_growth):
    """The boxes moved by (dx, dy, dw, dh): the centre by (dx, dy) sizes, the size times exp((dw, dh))."""
    size = boxes[..., 2:] - boxes[..., :2]
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2 + deltas[..., :2] * size
    half = size * jnp.exp(jnp.minimum(deltas[..., 2:], largest_growth)) / 2
    return jnp.concatenate([centre - half, centre + half], -1)


def encode(boxes, targets):
    """(dx, dy, dw, dh) that move the boxes to the targets."""
    size, wanted = boxes[..., 2:] - boxes[..., :2], targets[..., 2:] - targets[..., :2]
    shift = (targets[..., :2] + targets[..., 2:] - boxes[..., :2] - boxes[..., 2:]) / 2
    return jnp.concatenate([shift / size, jnp.log(wanted / size)], -1)


def overlaps(boxes, others):
    """(boxes, others): intersection over union of each pair, 0 where two boxes have no area in common."""
    x1, y1, x2, y2 = (boxes[:, None, n] for n in range(4))
    left, top, right, bottom = (others[:, n] for n in range(4))
    across = jnp.maximum(jnp.minimum(x2, right) - jnp.maximum(x1, left), 0)
    down = jnp.maximum(jnp.minimum(y2, bottom) - jnp.maximum(y1, top), 0)
    intersection = across * down
    union = (x2 - x1) * (y2 - y1) + (right - left) * (bottom - top) - intersection
    return jnp.where(intersection > 0, intersection / union, 0)


def suppress(boxes, count, threshold, most):
    """Non-maximum suppression of boxes (n, 4), best first: indices (most,) of those kept and how many they are.

    In order, each that overlaps no kept one by more than `threshold` is kept: the first `most` of the first `count`.
    Decides in float32.
    """
    boxes = boxes.astype(jnp.float32)
    boxes = jnp.pad(boxes, ((0, -len(boxes) % TILE), (0, 0)))

    def unfinished(state):
        start, _, _, found = state
        return (start < count) & (found < most)

    def tile_more(state):
        start, kept, indices, found = state
        tile = lax.dynamic_slice_in_dim(boxes, start, TILE)
        own = start + jnp.arange(TILE)
        free = (own < count) & ~jnp.any(overlaps(tile, kept) > threshold, 1)
        earlier = jnp.tril(overlaps(tile, tile) > threshold, -1)

        def turn(state):
            keep, _ = state
            return free & ~jnp.any(earlier & keep, 1), keep

        # the first box is right at once, and with each turn at least one more: those after it depend on it
        keep, _ = lax.while_loop(lambda state: jnp.any(state[0] != state[1]), turn, turn((free, free)))
        slots = jnp.where(keep, found + jnp.cumsum(keep) - 1, most)  # what has no slot, from `most` on, is dropped
        kept = kept.at[slots].set(tile, mode="drop")
        return start + TILE, kept, indices.at[slots].set(own, mode="drop"), found + jnp.sum(keep)

    state = 0, jnp.zeros((most, 4), boxes.dtype), jnp.zeros(most, int), 0
    _, _, indices, found = lax.while_loop(unfinished, tile_more, state)
    return indices, jnp.minimum(found, most)


def roi_align(features, boxes, pooled, stride, offset):
    """(batch * n, pooled, pooled, channels): features (batch, height, width, channels) at the bins' centres of boxes
    (batch, n, 4), interpolated linearly in both directions.

    Bin i's centre is at feature (y1 + (i + 0.5) (y2 - y1) / pooled) / stride - offset, within the outermost features.
    """
    batch, height, width, channels = features.shape
    bins = (jnp.arange(pooled, dtype=boxes.dtype) + 0.5) / pooled
    y, down = corners(boxes[..., 1, None], boxes[..., 3, None], bins, height, stride, offset)
    x, across = corners(boxes[..., 0, None], boxes[..., 2, None], bins, width, stride, offset)
    first = (jnp.arange(batch) * height * width)[:, None, None, None]
    rows, found = features.reshape(-1, channels), 0
    for of_row in (0, 1):
        for of_column in (0, 1):
            places = first + y[of_row][..., :, None] * width + x[of_column][..., None, :]
            weights = down[of_row][..., :, None] * across[of_column][..., None, :]
            found += rows[places] * weights[..., None].astype(features.dtype)
    return found.reshape(-1, pooled, pooled, channels)


def corners(begin, end, bins, size, stride, offset):
    """The two features beside each bin's centre: indices, and weights, (..., bins) each."""
    place = jnp.clip((begin + bins * (end - begin)) / stride - offset, 0, size - 1)
    low = jnp.floor(place).astype(int)
    share = place - low
    return (low, jnp.minimum(low + 1, size - 1)), (1 - share, share)


def smooth_l1(x, sigma):
    """(...): the sum over the last axis of (sigma x)^2 / 2 where |x| < 1 / sigma^2, else |x| - 1 / (2 sigma^2)."""
    size = jnp.abs(x)
    return jnp.sum(jnp.where(size < 1 / sigma**2, jnp.square(sigma * x) / 2, size - 0.5 / sigma**2), -1)


def binary_cross_entropy(margins, labels):
    """-log sigmoid(margin) where the label is 1, -log(1 - sigmoid(margin)) where it is 0."""
    return jax.nn.softplus(margins) - labels * margins
