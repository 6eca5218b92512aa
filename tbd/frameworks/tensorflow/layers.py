"""Layers on TensorFlow's own operators, NHWC, as the specifications define them."""

import tensorflow as tf


def convolution(x, weight, stride):
    """A convolution without bias whose padding is (kernel - 1) / 2 on both sides.

    "SAME" would pad more at the end than at the beginning where the stride is 2.
    """
    vertical, horizontal = ((int(n) - 1) // 2 for n in weight.shape[:2])
    padding = [[0, 0], [vertical, vertical], [horizontal, horizontal], [0, 0]]
    return tf.nn.conv2d(x, weight, stride, padding)


def max_pool(x, kernel, stride):
    """Max-pooling of values that are not negative, with zeros around them, (kernel - 1) / 2 on both sides."""
    edge = (kernel - 1) // 2
    return tf.nn.max_pool2d(tf.pad(x, [[0, 0], [edge, edge], [edge, edge], [0, 0]]), kernel, stride, "VALID")


def batch_norm(x, weight, bias, running_mean, running_variance, epsilon, momentum):
    """Batch norm in training, over all axes but the last; moves the running statistics (variables).

    running = (1 - momentum) * running + momentum * batch statistic, with the unbiased variance.
    """
    if x.dtype == tf.float64:  # the fused operator has no float64 kernel
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        y = (x - mean) * tf.math.rsqrt(variance + epsilon) * weight + bias
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
        mean=running_mean,
        variance=running_variance,
        epsilon=epsilon,
        exponential_avg_factor=momentum,
        is_training=True,
    )
    running_mean.assign(mean)
    running_variance.assign(variance)
    return y
