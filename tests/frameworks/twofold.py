"""A model with everything that a step can have, small enough to compute by hand: numpy only.

Two updates, `first` twice with momentum, weight decay and a schedule, then `second` once with Adam (or another of
RULES) and another schedule. Each repetition of `first` takes a column of its own of the batch.

    first    L = mean over rows and features of (scale * (first * x + second) - y)^2, trains `first`; seen += mean of x
    second   L = mean over rows and features of (first * second * z)^2, trains `second`

`scale` is frozen, `seen` a statistic.
"""

import numpy

from tbd.models.specification import Specification, Update, adam, learning_rate_at, parameter, rmsprop, sgd

SIZE, REPEAT, ROWS = 3, 2, 4
# How `second` is moved. Epsilons are of the size of the gradients, so that their place in the formula matters.
RULES = {
    "adam": adam(lambda step: 0.01 * (1 + step), epsilon=0.1),
    "rmsprop": rmsprop(lambda step: 0.01 * (1 + step), alpha=0.9, epsilon=0.1),
    "rmsprop_momentum": rmsprop(lambda step: 0.01 * (1 + step), alpha=0.9, epsilon=0.1, momentum=0.9),
    "clip_weights": rmsprop(lambda step: 0.01 * (1 + step), alpha=0.9, epsilon=0.1, clip_weights=0.5),
}


class Twofold(Specification):
    name = "twofold"
    unit = "rows"
    SIZES = {"small": {}}

    def __init__(self, size="small", rule="adam"):
        super().__init__(size)
        self.rule = RULES[rule]

    @property
    def parameters(self):
        return [
            parameter("first", (SIZE,), "vector", ("normal", 1.0)),
            parameter("second", (SIZE,), "vector", ("normal", 1.0), decay=False),
            parameter("scale", (SIZE,), "vector", ("uniform", 1.0), role="frozen"),
            parameter("seen", (SIZE,), "vector", ("constant", 0.0), role="statistic"),
        ]

    def updates(self, batch_size):
        falling = sgd(lambda step: 0.1 / (1 + step), momentum=0.9, weight_decay=0.01)
        return (Update("first", ("first",), falling, REPEAT), Update("second", ("second",), self.rule, 1))

    def update_arrays(self, arrays, update, repetition):
        if update == "first":
            return {"x": arrays["x"][:, repetition], "y": arrays["y"][:, repetition]}
        return {"z": arrays["z"]}

    def synthetic_batch(self, batch_size, random):
        shapes = {"x": (batch_size, REPEAT, SIZE), "y": (batch_size, REPEAT, SIZE), "z": (batch_size, SIZE)}
        return {name: random.standard_normal(shape).astype(numpy.float32) for name, shape in shapes.items()}


def float64(arrays):
    return {name: array.astype(numpy.float64) for name, array in arrays.items()}


def gradient_of_first(w, x, y):
    difference = w["scale"] * (w["first"] * x + w["second"]) - y
    return (difference**2).mean(), (2 * difference * w["scale"] * x).sum(0) / x.size


def gradient_of_second(w, z):
    product = w["first"] * w["second"] * z
    return (product**2).mean(), (2 * product * w["first"] * z).sum(0) / z.size


def gradients(weights, arrays):
    """What Training.gradients must give."""
    w, batch = float64(weights), float64(arrays)
    loss, by_first = gradient_of_first(w, batch["x"][:, 0], batch["y"][:, 0])
    other_loss, by_second = gradient_of_second(w, batch["z"])
    return {"first": (loss, {"first": by_first}), "second": (other_loss, {"second": by_second})}


def trained(specification, weights, batches):
    """(losses, weights) after a step on each of the batches: float64, by the formulas of the specification."""
    w = float64(weights)
    first, second = (update.optimizer for update in specification.updates(ROWS))
    velocity = moment = square = numpy.zeros(SIZE)
    losses = []
    for step, arrays in enumerate(map(float64, batches)):
        for n in range(REPEAT):
            x, y = arrays["x"][:, n], arrays["y"][:, n]
            _, gradient = gradient_of_first(w, x, y)
            w["seen"] = w["seen"] + x.mean(0)
            velocity = first.momentum * velocity + gradient + first.weight_decay * w["first"]
            w["first"] = w["first"] - learning_rate_at(first, step) * velocity
        loss, gradient = gradient_of_second(w, arrays["z"])
        losses.append(loss)
        if second.kind == "adam":
            moment = second.beta1 * moment + (1 - second.beta1) * gradient
            square = second.beta2 * square + (1 - second.beta2) * gradient**2
            m, v = moment / (1 - second.beta1 ** (step + 1)), square / (1 - second.beta2 ** (step + 1))
            direction = m / (numpy.sqrt(v) + second.epsilon)
        else:
            square = second.alpha * square + (1 - second.alpha) * gradient**2
            direction = moment = second.momentum * moment + gradient / (numpy.sqrt(square) + second.epsilon)
        w["second"] = w["second"] - learning_rate_at(second, step) * direction
        if second.clip_weights:
            w["second"] = numpy.clip(w["second"], -second.clip_weights, second.clip_weights)
    return losses, w
