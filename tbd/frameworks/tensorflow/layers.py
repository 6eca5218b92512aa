"""Layers on TensorFlow's own operators, NHWC, as the specifications define them."""

import tensorflow as tf


def convolution(x, weight, stride):
    """A convolution without bias whose padding is (kernel - 1) / 2 on both sides, for odd kernels.

    With stride 1 that is "SAME"; with stride 2 "SAME" would pad more at the end than at the beginning. Explicit padding
    says it in one word, but TensorFlow 2.21 has no oneDNN kernel for its gradient by the input: 2 to 18 times slower.
    """
    if stride == 1:
        return tf.nn.conv2d(x, weight, 1, "SAME")
    edge = (int(weight.shape[0]) - 1) // 2
    return tf.nn.conv2d(padded(x, edge) if edge else x, weight, stride, "VALID")


def max_pool(x, kernel, stride):
    """Max-pooling of values that are not negative, with zeros around them, (kernel - 1) / 2 on both sides."""
    edge = (kernel - 1) // 2
    return tf.nn.max_pool2d(padded(x, edge), kernel, stride, "VALID")


def padded(x, edge):
    """The images with `edge` rows and columns of zeros on each side."""
    return tf.pad(x, [[0, 0], [edge, edge], [edge, edge], [0, 0]])


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
