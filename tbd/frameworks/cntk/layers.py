"""Layers that several networks use. Pictures are (channels, height, width) beside CNTK's batch axis. Python 3.6 syntax.

CNTK's automatic padding puts (kernel - 1) / 2 places before an axis and what is left to ceil(size / stride) windows
behind it: with odd kernels and strides of 1 or 2 the same windows as padding (kernel - 1) / 2 on each side.
"""

import cntk as C
import numpy


def channels_first(pictures):
    """(height, width, channels) to (channels, height, width)."""
    return C.transpose(pictures, (2, 0, 1))


def convolution(x, weight, stride=1, padded=True):
    """`weight` (out, in, rows, columns); padded: (kernel - 1) / 2 zeros on each side, kernels being odd.

    `stride`: one number, or a pair of rows and columns.
    """
    kernel, strides = weight.shape[2:], stride if isinstance(stride, tuple) else (stride, stride)
    if padded and any(size < n for size, n in zip(x.shape[1:], kernel)):
        # CNTK pads by itself only what is at least as large as the kernel
        edges = [(n - 1) // 2 for n in kernel]
        x, padded = C.pad(x, [(0, 0)] + [(edge, edge) for edge in edges], C.CONSTANT_PAD, 0), False
    return C.convolution(weight, x, strides=strides, auto_padding=[False, padded, padded])


def max_pool(x, kernel, stride, padded=True):
    return C.pooling(x, C.MAX_POOLING, (kernel, kernel), (stride, stride), auto_padding=[False, padded, padded])


def average_pool(x, kernel, stride, padded=False):
    """The mean of each window's places that exist: padding is not among them."""
    if padded and max(x.shape[1:]) <= (kernel + 1) // 2:
        # every window has all places; CNTK pads only what is at least as large as the kernel
        return C.zeros_like(x) + C.reduce_mean(x, (1, 2))
    return C.pooling(
        x, C.AVG_POOLING, (kernel, kernel), (stride, stride), auto_padding=[False, padded, padded], include_pad=False
    )


def batch_norm(x, weight, bias, running_mean, running_variance, epsilon, momentum, rows):
    """Over all axes but the channels'; `rows`: how many the batch has. Moves the running statistics.

    running = (1 - momentum) * running + momentum * the batch's, the variance there being the unbiased one. CNTK has
    1 - exp(-rows / time constant) for momentum, and puts the batch's statistics in the place of those that have no
    rows yet: here they have one.
    """
    return C.batch_normalization(
        x, weight, bias, running_mean, running_variance, True,
        running_count=C.Constant(numpy.ones((), running_mean.dtype)),
        normalization_time_constant=-rows / numpy.log1p(-momentum),
        epsilon=epsilon, use_cudnn_engine=False,
    )  # fmt: skip


def masked_batch_norm(x, real, count, weight, bias, running_mean, running_variance, epsilon, momentum):
    """(batch norm over the values where `real`, which lies beside x, is 1, the assignments of the moved statistics).

    Features are the first axis of x, a picture or a sequence; `count`: how many real values of each the batch has.
    """
    beside = (x.shape[0],) + (1,) * (len(x.shape) - 1)
    mean = total_of_features(x * real) / count
    centred = (x - mean) * real
    variance = total_of_features(C.square(centred)) / count
    unbiased = variance * count / C.element_max(count - 1, 1)
    moved = [moving(running_mean, mean, momentum), moving(running_variance, unbiased, momentum)]
    scale = C.reshape(weight, beside) / C.sqrt(variance + epsilon)
    return centred * scale + C.reshape(bias, beside), moved


def summed_batch_norm(x, weight, bias, running_mean, running_variance, epsilon, momentum, rows):
    """(batch_norm of pictures, the assignments of the moved statistics), by own_batch_norm's operators."""
    y, mean, variance = own_batch_norm(x, weight, bias, epsilon, rows)
    count = rows * x.shape[1] * x.shape[2]
    unbiased = variance * (float(count) / max(count - 1, 1))
    return y, [moving(running_mean, mean, momentum), moving(running_variance, unbiased, momentum)]


def own_batch_norm(x, weight, bias, epsilon, rows):
    """(batch norm of pictures by their own statistics, mean, biased variance), these (channels, 1, 1).

    From single operators, whose sums are of float64. The fused one sums in float32, one number after the other: of 8
    rows of 35x35 pixels its gradients by x and by the bias were 10 and 6 times as far from float64 as PyTorch's.
    """
    count = float(rows * x.shape[1] * x.shape[2])
    mean = total_of_features(x) / count
    centred = x - mean
    variance = total_of_features(C.square(centred)) / count
    weight, bias = (C.reshape(array, (-1, 1, 1)) for array in (weight, bias))
    return centred * (weight / C.sqrt(variance + epsilon)) + bias, mean, variance


def moving(running, new, momentum):
    """The assignment of a moved statistic."""
    return C.assign(running, (1 - momentum) * running + momentum * C.reshape(new, running.shape))


def total_of_features(x):
    """The sum over rows, steps and all but the first axis, without a batch axis; axes keep their places."""
    if len(x.shape) > 1:
        x = C.reduce_sum(x, tuple(range(1, len(x.shape))))
    if len(x.dynamic_axes) > 1:
        x = C.sequence.reduce_sum(x)
    return C.reduce_sum(x, C.Axis.default_batch_axis())


def layer_norm(x, weight, bias, epsilon, axes=-1):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias over the axes of each row, with the biased variance."""
    centred = x - C.reduce_mean(x, axes)
    deviation = C.sqrt(C.reduce_mean(C.square(centred), axes) + epsilon)
    return centred / deviation * weight + bias


def rows_of(x, rows):
    """The batch, of so many rows, as an array without a batch axis: (rows, ...)."""
    return C.reshape(C.unpack_batch(x), (rows,) + x.shape)


def mean_of_pixels(x):
    """The mean over height and width: (channels,)."""
    return C.reshape(C.reduce_mean(x, (1, 2)), (x.shape[0],))


def dropout(x, rate):
    """x with each number zeroed with probability `rate` and the others divided by 1 - rate."""
    return C.dropout(x, rate) if rate else x


def dense(x, weight, bias=None):
    """`weight` (out, in)."""
    y = C.times_transpose(x, weight)
    return y if bias is None else y + bias


def cross_entropy(logits, labels, smoothing=0.0):
    """-log softmax(logits)[label] of each row: logits (classes,), labels () whole numbers.

    With smoothing, that share of the label is spread evenly over all classes.
    """
    classes = logits.shape[-1]
    target = C.one_hot(labels, classes)
    if smoothing:
        target = (1 - smoothing) * target + smoothing / classes
    return C.cross_entropy_with_softmax(logits, target)


def mean_of_all(x):
    """One number without a batch axis."""
    return C.reduce_mean(x, C.Axis.all_axes())


def sum_of_all(x):
    """The same, as a sum; of sequences over their own lengths."""
    return C.reduce_sum(x, C.Axis.all_axes())
