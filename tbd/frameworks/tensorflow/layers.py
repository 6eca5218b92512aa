"""Layers on TensorFlow's own operators, NHWC, as the specifications define them."""

import tensorflow as tf


def at_least_float32(x):
    """bf16 and fp16 as float32; float32 and float64 as they are."""
    return tf.cast(x, tf.float32) if x.dtype in (tf.bfloat16, tf.float16) else x


def convolution(x, weight, stride, padded=True):
    """A convolution without bias whose padding is (kernel - 1) / 2 on both sides, for odd kernels; or none.

    `stride` is a number, or one for the height and one for the width.

    With stride 1 that is "SAME"; with stride 2 "SAME" would pad more at the end than at the beginning. Explicit padding
    says it in one word, but TensorFlow 2.21 has no oneDNN kernel for its gradient by the input: 2 to 18 times slower.
    """
    if padded and stride == 1:
        return tf.nn.conv2d(x, weight, 1, "SAME")
    edges = [(int(size) - 1) // 2 for size in weight.shape[:2]] if padded else [0, 0]
    return tf.nn.conv2d(with_zeros(x, *edges), weight, stride, "VALID")


def max_pool(x, kernel, stride, padded=True):
    """Max-pooling of values that are not negative, with zeros around them, (kernel - 1) / 2 on both sides; or none."""
    edge = (kernel - 1) // 2 if padded else 0
    return tf.nn.max_pool2d(with_zeros(x, edge, edge), kernel, stride, "VALID")


def average_pool(x, kernel, stride, padded=True):
    """Means over the places that exist of windows that reach (kernel - 1) / 2 over the border; or not.

    With padding, for a stride of 1.
    """
    return tf.nn.avg_pool2d(x, kernel, stride, "SAME" if padded else "VALID")


def with_zeros(x, rows, columns):
    """The images with so many rows and columns of zeros on each side."""
    return tf.pad(x, [[0, 0], [rows, rows], [columns, columns], [0, 0]]) if rows or columns else x


def batch_norm(x, weight, bias, running_mean, running_variance, epsilon, momentum):
    """Batch norm in training, over all axes but the last; moves the running statistics (variables), if not None.

    running = (1 - momentum) * running + momentum * batch statistic, with the unbiased variance.
    """
    if x.dtype == tf.float64:  # the fused operator has no float64 kernel
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        y = (x - mean) * tf.math.rsqrt(variance + epsilon) * weight + bias
        if running_mean is None:
            return y
        count = tf.cast(tf.reduce_prod(tf.shape(x)[:3]), x.dtype)
        unbiased = variance * count / tf.maximum(count - 1, 1)
        running_mean.assign((1 - momentum) * running_mean + momentum * mean)
        running_variance.assign((1 - momentum) * running_variance + momentum * unbiased)
        return y
    # the raw operator: tf.compat.v1.nn.fused_batch_norm silently raises an epsilon below 1.001e-5
    y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=x,
        scale=weight,
        offset=bias,
        mean=[] if running_mean is None else running_mean,
        variance=[] if running_mean is None else running_variance,
        epsilon=epsilon,
        exponential_avg_factor=1.0 if running_mean is None else momentum,
        is_training=True,
    )
    if running_mean is not None:
        running_mean.assign(mean)
        running_variance.assign(variance)
    return y


def masked_batch_norm(x, real, weight, bias, running_mean, running_variance, epsilon, momentum):
    """Batch norm over the places where `real`, of x's axes or 1 long, is true or 1; elsewhere the result is 0.

    The statistics are worked out in at least float32; the result has the type of x.
    """
    wide = at_least_float32(x)
    axes = list(range(len(x.shape) - 1))
    real = tf.cast(real, wide.dtype)
    count = tf.reduce_sum(real) * tf.cast(tf.size(x) / (tf.size(real) * x.shape[-1]), wide.dtype)
    mean = tf.reduce_sum(wide * real, axes) / count
    centred = (wide - mean) * real
    variance = tf.reduce_sum(tf.square(centred), axes) / count
    running_mean.assign((1 - momentum) * running_mean + momentum * mean)
    running_variance.assign((1 - momentum) * running_variance + momentum * variance * (count / (count - 1)))
    return tf.cast(centred * (tf.math.rsqrt(variance + epsilon) * weight) + bias * real, x.dtype)


def cross_entropy(logits, labels, smoothing=0.0):
    """-log softmax(logits)[label] of each row: logits (rows, classes), labels (rows,), in at least float32.

    With smoothing, that share of the label is spread evenly over all classes.
    """
    logits = at_least_float32(logits)
    if not smoothing:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    classes = logits.shape[-1]
    on = 1 - smoothing + smoothing / classes
    return tf.nn.softmax_cross_entropy_with_logits(
        tf.one_hot(labels, classes, on, smoothing / classes, dtype=logits.dtype), logits
    )


def layer_norm(x, weight, bias, epsilon):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias over the last axis, with the biased variance.

    The statistics are worked out in at least float32; the result has the type of x.
    """
    wide = at_least_float32(x)
    centred = wide - tf.reduce_mean(wide, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
    return tf.cast(centred * tf.math.rsqrt(variance + epsilon) * weight + bias, x.dtype)


def dropout(x, rate, generator):
    """x with each number zeroed with probability `rate` and the others divided by 1 - rate.

    The masks are of a tf.random.Generator, whose state lies on the device. It draws float32: a bfloat16 has 128 values
    below 1, too few for a rate of 0.1.
    """
    if not rate:
        return x
    kept = generator.uniform(tf.shape(x), dtype=tf.float32) >= rate
    return x * (tf.cast(kept, x.dtype) * (1 / (1 - rate)))
