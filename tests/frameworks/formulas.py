"""The optimizers' formulas as the specification has them, in numpy and float64. Python 3.6 syntax."""

import numpy

from tbd.models.specification import adam, learning_rate_at, rmsprop, sgd

STEPS = 5


def falling(step):
    return 0.1 / (1 + step)


OPTIMIZERS = (
    sgd(0.1),
    sgd(0.1, momentum=0.9, weight_decay=0.01),
    sgd(falling, momentum=0.9, weight_decay=0.01, clip_norm=0.5),
    # an epsilon of the size of the moments, so that its place in the formula matters
    adam(0.01, epsilon=0.1),
    adam(falling, beta1=0.0, beta2=0.9, epsilon=0.1),
    adam(falling, clip_norm=0.5),
    rmsprop(0.01, alpha=0.9, epsilon=0.1),
    rmsprop(falling, alpha=0.9, epsilon=0.1, momentum=0.9, weight_decay=0.01, clip_norm=0.5),
    rmsprop(0.01, alpha=0.9, epsilon=0.1, clip_weights=0.5),
)


def problem():
    """(two weights, for each of the steps a gradient of each)."""
    random = numpy.random.RandomState(2)
    weights = [random.standard_normal(shape) for shape in ((3, 4), (5,))]
    return weights, [[random.standard_normal(array.shape) for array in weights] for _ in range(STEPS)]


def error(o, found):
    """The largest difference between the weights after the steps, in the same order, and the Optimizer's formula."""
    right, steps = problem()
    first, second = [0.0, 0.0], [0.0, 0.0]
    for step, gradients in enumerate(steps):
        rate = learning_rate_at(o, step)
        norm = numpy.sqrt(sum((gradient**2).sum() for gradient in gradients))
        scale = min(1.0, o.clip_norm / norm) if o.clip_norm else 1.0
        for n, gradient in enumerate(gradients):
            g = gradient * scale + o.weight_decay * right[n]
            if o.kind == "sgd":
                first[n] = direction = o.momentum * first[n] + g
            elif o.kind == "rmsprop":
                second[n] = o.alpha * second[n] + (1 - o.alpha) * g**2
                first[n] = direction = o.momentum * first[n] + g / (numpy.sqrt(second[n]) + o.epsilon)
            else:
                first[n] = o.beta1 * first[n] + (1 - o.beta1) * g
                second[n] = o.beta2 * second[n] + (1 - o.beta2) * g**2
                m, v = first[n] / (1 - o.beta1 ** (step + 1)), second[n] / (1 - o.beta2 ** (step + 1))
                direction = m / (numpy.sqrt(v) + o.epsilon)
            right[n] = right[n] - rate * direction
            if o.clip_weights:
                right[n] = numpy.clip(right[n], -o.clip_weights, o.clip_weights)
    return max(float(abs(array - right[n]).max()) for n, array in enumerate(found))
