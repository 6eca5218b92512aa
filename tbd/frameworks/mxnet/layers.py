"""Layers on MXNet's symbols, NCHW, as the specifications define them. oneDNN has no other layout here."""

from mxnet import sym


def shape_of(x):
    """The shape of a symbol whose variables know theirs."""
    _, (shape,), _ = x.infer_shape()
    return shape


def type_of(x):
    """The type of a symbol whose variables know theirs."""
    _, (found,), _ = x.infer_type()
    return found


def channels_first(images):
    """(batch, height, width, channels) as (batch, channels, height, width)."""
    return sym.transpose(images, (0, 3, 1, 2))


def convolution(x, weight, stride=1, padded=True, bias=None):
    """A convolution whose padding is (kernel - 1) / 2 on both sides, for odd kernels; or none.

    `stride`: one number, or one for each axis.
    """
    out, _, *kernel = shape_of(weight)
    return sym.Convolution(
        x,
        weight,
        bias,
        no_bias=bias is None,
        num_filter=out,
        kernel=kernel,
        stride=(stride, stride) if isinstance(stride, int) else stride,
        pad=[(n - 1) // 2 if padded else 0 for n in kernel],
    )


def max_pool(x, kernel, stride, padded=True):
    """Max-pooling with (kernel - 1) / 2 places around the image that are never the largest; or without."""
    edge = (kernel - 1) // 2 if padded else 0
    return sym.Pooling(x, kernel=(kernel, kernel), stride=(stride, stride), pad=(edge, edge), pool_type="max")


def average_pool(x, kernel, stride, padded=True):
    """Means over the places that exist of windows that reach (kernel - 1) / 2 over the border; or not."""
    edge = (kernel - 1) // 2 if padded else 0
    window = {"kernel": (kernel, kernel), "stride": (stride, stride), "pad": (edge, edge)}
    return sym.Pooling(x, pool_type="avg", count_include_pad=False, **window)


def relu(x):
    return sym.Activation(x, act_type="relu")


def dense(x, weight, bias=None):
    """x (..., in) times weight (out, in), along the last axis."""
    (out, _) = shape_of(weight)
    return sym.FullyConnected(x, weight, bias, num_hidden=out, no_bias=bias is None, flatten=False)


def embedding(rows, weight):
    """The rows of a weight (rows, features) of the numbers `rows`."""
    count, features = shape_of(weight)
    return sym.Embedding(rows, weight, input_dim=count, output_dim=features)


def unstacked(x, count):
    """The `count` parts of x along its first axis."""
    parts = sym.SliceChannel(x, num_outputs=count, axis=0, squeeze_axis=True)
    return [parts[n] for n in range(count)]


def positions_below(lengths, size, dtype):
    """(batch, size) of 1 where a position is within its row's length, else 0."""
    positions = sym.reshape(sym.arange(size, dtype=dtype), (1, size))
    return sym.broadcast_lesser(positions, sym.expand_dims(sym.cast(lengths, dtype), 1))


def batch_norm(x, weight, bias, running_mean, running_variance, epsilon, momentum):
    """Batch norm in training, over all axes but the second: (y, moved running mean, moved running variance).

    running = (1 - momentum) * running + momentum * batch statistic, with the unbiased variance. The operator would move
    statistics of its own by the biased one; it also gives the batch's mean and 1 / sqrt(variance + epsilon).
    """
    y, mean, inverse = sym.BatchNorm(x, weight, bias, fix_gamma=False, eps=epsilon, output_mean_var=True)
    batch, channels, *places = shape_of(x)
    count = batch
    for n in places:
        count *= n
    unbiased = (1 / sym.square(inverse) - epsilon) * (count / max(count - 1, 1))
    running_mean = (1 - momentum) * running_mean + momentum * mean
    running_variance = (1 - momentum) * running_variance + momentum * unbiased
    return y, running_mean, running_variance


def pick(x, places):
    """x[..., places] of each row: x (..., n), places (...), whole numbers below n."""
    return sym.pick(x, places)


def cross_entropy(logits, labels, smoothing=0.0):
    """-log softmax(logits)[label] of each row: logits (..., classes), labels (...).

    With smoothing, that share of the label is spread evenly over all classes.
    """
    logarithms = sym.log_softmax(logits)
    right = pick(logarithms, labels)
    if smoothing:
        right = (1 - smoothing) * right + smoothing * sym.mean(logarithms, axis=-1)
    return -right


def layer_norm(x, weight, bias, epsilon):
    """(x - mean) / sqrt(variance + epsilon) * weight + bias over the last axis, with the biased variance."""
    return sym.LayerNorm(x, weight, bias, axis=-1, eps=epsilon)


def dropout(x, rate):
    """x with each number zeroed with probability `rate` and the others divided by 1 - rate."""
    return sym.Dropout(x, p=rate) if rate else x
