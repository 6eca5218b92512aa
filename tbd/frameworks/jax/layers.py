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

    `stride` is a number, or one for the height and one for the width.

    One of 1 x 1 is a product of matrices: as such XLA's CPU code for its gradients needs no transposed copies. On a GPU
    it is cuDNN's: of such a product with a stride XLA's fusion of products fails a check (jaxlib 0.11.2).
    """
    rows, columns = (stride, stride) if isinstance(stride, int) else stride
    if weight.shape[:2] == (1, 1) and jax.default_backend() == "cpu":
        return dense(x[:, ::rows, ::columns], weight[0, 0])
    padding = [((n - 1) // 2, (n - 1) // 2) if padded else (0, 0) for n in weight.shape[:2]]
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, weight, (rows, columns), padding, dimension_numbers=layout)


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


def normalised(x, weight, bias, epsilon, axes):
    """((x - mean) / sqrt(variance + epsilon) * weight + bias, mean, variance) over `axes`, with the biased variance.

    `weight` and `bias` are of the last axis. The statistics, which keep their axes, are worked out in at least float32;
    the result has the type of x.
    """
    wide = at_least_float32(x)
    mean = jnp.mean(wide, axes, keepdims=True)
    if wide.dtype == x.dtype:
        variance = jnp.mean(jnp.square(wide - mean), axes, keepdims=True)
    else:  # in one pass over x: what cancels then lies far below the rounding that x has already
        variance = jnp.maximum(0, jnp.mean(jnp.square(wide), axes, keepdims=True) - jnp.square(mean))
    y = (wide - mean) * (lax.rsqrt(variance + epsilon) * weight) + bias
    return y.astype(x.dtype), mean, variance


def batch_norm(x, weight, bias, running_mean, running_variance, epsilon, momentum):
    """Batch norm in training, over all axes but the last: (y, moved running mean, moved running variance).

    running = (1 - momentum) * running + momentum * batch statistic, with the unbiased variance. The statistics are
    worked out in at least float32; y has the type of x.
    """
    y, mean, variance = normalised(x, weight, bias, epsilon, tuple(range(x.ndim - 1)))
    count = x.size // x.shape[-1]
    unbiased = variance * (count / max(count - 1, 1))
    running_mean = (1 - momentum) * running_mean + momentum * mean.reshape(-1)
    running_variance = (1 - momentum) * running_variance + momentum * unbiased.reshape(-1)
    return y, running_mean, running_variance


def masked_batch_norm(x, real, weight, bias, running_mean, running_variance, epsilon, momentum):
    """batch_norm over the places where `real`, of x's axes or 1 long, is true or 1; elsewhere y is 0."""
    axes = tuple(range(x.ndim - 1))
    wide = at_least_float32(x)
    real = real.astype(wide.dtype)
    count = jnp.sum(real) * (x.size // (real.size * x.shape[-1]))
    mean = jnp.sum(wide * real, axes) / count
    centred = (wide - mean) * real
    variance = jnp.sum(jnp.square(centred), axes) / count
    y = centred * (lax.rsqrt(variance + epsilon) * weight) + bias * real
    running_mean = (1 - momentum) * running_mean + momentum * mean
    running_variance = (1 - momentum) * running_variance + momentum * variance * (count / (count - 1))
    return y.astype(x.dtype), running_mean, running_variance


def layer_norm(x, weight, bias, epsilon):
    """`normalised` over the last axis."""
    return normalised(x, weight, bias, epsilon, -1)[0]


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
