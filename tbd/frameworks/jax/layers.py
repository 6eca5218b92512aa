"""Layers on XLA's operators, NHWC, as the specifications define them."""

import jax
import jax.numpy as jnp
import numpy
from jax import lax


def at_least_float32(x):
    """bf16 and fp16 as float32; float32 and float64 as they are."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def convolution(x, weight, stride, padded=True):
    """A convolution without bias whose padding is (kernel - 1) / 2 on both sides, for odd kernels; or none.

    One of 1 x 1 is a product of matrices: as such XLA's CPU code for its gradients needs no transposed copies. On a GPU
    it is cuDNN's: of such a product with a stride XLA's fusion of products fails a check (jaxlib 0.11.2).
    """
    if weight.shape[:2] == (1, 1) and jax.default_backend() == "cpu":
        return dense(x[:, ::stride, ::stride], weight[0, 0])
    padding = [((n - 1) // 2, (n - 1) // 2) if padded else (0, 0) for n in weight.shape[:2]]
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, weight, (stride, stride), padding, dimension_numbers=layout)


def dense(x, weight):
    """x (..., in) times weight (in, out). Of two axes, so that XLA's CPU code for its gradients makes no copies."""
    return (x.reshape(-1, x.shape[-1]) @ weight).reshape(*x.shape[:-1], weight.shape[-1])


def max_pool(x, kernel, stride, padded=True):
    """Max-pooling with (kernel - 1) / 2 places around the image that are never the largest; or without."""
    edge = (kernel - 1) // 2 if padded else 0
    padding = ((0, 0), (edge, edge), (edge, edge), (0, 0))
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, kernel, kernel, 1), (1, stride, stride, 1), padding)


def average_pool(x, kernel, stride, padded=True):
    """Means over the places that exist of windows that reach (kernel - 1) / 2 over the border, for odd kernels; or not.

    The sums are over rows, then over columns, each of shifted images, which XLA fuses.
    """
    edge = (kernel - 1) // 2 if padded else 0
    sums, counts = x, 1
    for axis in (1, 2):
        size = x.shape[axis]
        starts = numpy.arange(-edge, size + edge - kernel + 1, stride)
        counts = counts * (numpy.minimum(starts + kernel, size) - numpy.maximum(starts, 0)).reshape(
            -1, *[1] * (3 - axis)
        )
        padding = [(0, 0, 0)] * 4
        padding[axis] = (edge, edge, 0)
        sums = lax.pad(sums, jnp.zeros([], x.dtype), padding)
        last = len(starts) * stride - stride + 1
        sums = sum(lax.slice_in_dim(sums, n, n + last, stride, axis) for n in range(kernel))
    return sums / counts.astype(x.dtype)


def batch_norm(x, weight, bias, running_mean, running_variance, epsilon, momentum):
    """Batch norm in training, over all axes but the last: (y, moved running mean, moved running variance).

    running = (1 - momentum) * running + momentum * batch statistic, with the unbiased variance. The statistics are
    worked out in at least float32; y has the type of x.
    """
    axes = tuple(range(x.ndim - 1))
    wide = at_least_float32(x)
    mean = jnp.mean(wide, axes)
    variance = jnp.mean(jnp.square(wide - mean), axes)
    y = (wide - mean) * (lax.rsqrt(variance + epsilon) * weight) + bias
    count = x.size // x.shape[-1]
    unbiased = variance * (count / max(count - 1, 1))
    running_mean = (1 - momentum) * running_mean + momentum * mean
    running_variance = (1 - momentum) * running_variance + momentum * unbiased
    return y.astype(x.dtype), running_mean, running_variance


def layer_norm(x, weight, bias, epsilon):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias over the last axis, with the biased variance.

    The statistics are worked out in at least float32; the result has the type of x.
    """
    wide = at_least_float32(x)
    mean = jnp.mean(wide, -1, keepdims=True)
    variance = jnp.mean(jnp.square(wide - mean), -1, keepdims=True)
    return ((wide - mean) * lax.rsqrt(variance + epsilon) * weight + bias).astype(x.dtype)


def cross_entropy(logits, labels, smoothing=0.0):
    """-log softmax(logits)[label] of each row: logits (..., classes), labels (...), in at least float32.

    With smoothing, that share of the label is spread evenly over all classes.
    """
    logits = at_least_float32(logits)
    right = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
    if smoothing:
        right = (1 - smoothing) * right + smoothing * jnp.mean(logits, -1)
    return jax.nn.logsumexp(logits, -1) - right


def dropout(x, rate, key):
    """x with each number zeroed with probability `rate` and the others divided by 1 - rate."""
    if not rate:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), jnp.zeros([], x.dtype))
