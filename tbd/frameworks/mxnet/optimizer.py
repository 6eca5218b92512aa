"""The specification's optimizers, on MXNet's fused update operators where those compute the same.

The fused operators take their numbers (rates, decay, betas) as float32: enough for a float32 run, not for float64,
where the formulas are written out.
"""

import math

import numpy
from mxnet import nd

from tbd.models.specification import learning_rate_at


def create(optimizer, parameters, weights, gradients):
    """The Rule that moves weights[name] by gradients[name], as an Optimizer of the specification says."""
    return {"sgd": Sgd, "adam": Adam, "rmsprop": RmsProp}[optimizer.kind](optimizer, parameters, weights, gradients)


class Rule:
    """apply(step) moves the weights by their gradients; `state` is {what: [array, ...]} in the order of `parameters`.

    Each rule has its own move(n, weight, gradient, rate, scale, decay): the n-th weight by its gradient times `scale`,
    a number, with the weight decay that it has.
    """

    def __init__(self, optimizer, parameters, weights, gradients):
        self.optimizer, self.parameters, self.steps = optimizer, parameters, 0
        self.weights = [weights[p.name] for p in parameters]
        self.gradients = [gradients[p.name] for p in parameters]
        self.fused = self.weights[0].dtype == numpy.float32
        self.state = {}

    def zeros(self):
        return [nd.zeros_like(weight) for weight in self.weights]

    def apply(self, step):
        o = self.optimizer
        self.steps += 1
        self.begin(learning_rate_at(o, step))
        scale = self.clipping()
        for n, (p, weight, gradient) in enumerate(zip(self.parameters, self.weights, self.gradients, strict=True)):
            self.move(n, weight, gradient, scale, (o.weight_decay or 0.0) if p.decay else 0.0)
            if o.clip_weights is not None:
                # nd.clip takes its bounds as float32
                weight[:] = nd.maximum(nd.minimum(weight, o.clip_weights), -o.clip_weights)

    def begin(self, rate):
        """The learning rate of the step that begins."""
        self.rate = rate

    def clipping(self):
        """min(1, clip_norm / global norm). Waits for the gradients: as a number it costs no pass over them."""
        bound = self.optimizer.clip_norm
        if bound is None:
            return 1.0
        # a product, since nd.norm sums one by one and loses digits
        squares = [nd.dot(flat, flat) for flat in (gradient.reshape(-1) for gradient in self.gradients)]
        norm = math.sqrt(math.fsum(float(square.asscalar()) for square in squares))
        return 1.0 if norm <= bound else bound / norm


class Sgd(Rule):
    """velocity = momentum * velocity + gradient + decay * weight; weight -= rate * velocity.

    The fused operator keeps -rate * velocity. So where the rate changes, what is kept changes with it.
    """

    def __init__(self, optimizer, parameters, weights, gradients):
        super().__init__(optimizer, parameters, weights, gradients)
        self.kept_rate = None
        if optimizer.momentum:
            self.state["momentum"] = self.zeros()

    def begin(self, rate):
        super().begin(rate)
        if self.optimizer.momentum and self.fused and rate != self.kept_rate:
            if rate == 0.0:
                raise ValueError("a learning rate of 0 with momentum: MXNet's fused update loses the velocity there")
            if self.kept_rate is not None:
                for kept in self.state["momentum"]:
                    kept *= rate / self.kept_rate
            self.kept_rate = rate

    def move(self, n, weight, gradient, scale, decay):
        momentum = self.optimizer.momentum
        if not self.fused:
            direction = gradient * scale + decay * weight
            if momentum:
                velocity = self.state["momentum"][n]
                velocity *= momentum
                velocity += direction
                direction = velocity
            weight -= self.rate * direction
        elif momentum:
            kept = self.state["momentum"][n]
            numbers = {"lr": self.rate, "momentum": momentum, "wd": decay, "rescale_grad": scale}
            nd.sgd_mom_update(weight, gradient, kept, out=weight, lazy_update=False, **numbers)
        else:
            numbers = {"lr": self.rate, "wd": decay, "rescale_grad": scale}
            nd.sgd_update(weight, gradient, out=weight, lazy_update=False, **numbers)


class RmsProp(Sgd):
    """SGD along gradient / (sqrt(mean square) + epsilon). MXNet's rmsprop_update has the epsilon inside the root."""

    def __init__(self, optimizer, parameters, weights, gradients):
        super().__init__(optimizer, parameters, weights, gradients)
        self.state["square"] = self.zeros()

    def move(self, n, weight, gradient, scale, decay):
        o = self.optimizer
        if scale != 1.0:
            gradient *= scale
        if decay:
            gradient += decay * weight
        square = self.state["square"][n]
        square *= o.alpha
        square += (1 - o.alpha) * nd.square(gradient)
        gradient /= nd.sqrt(square) + o.epsilon
        super().move(n, weight, gradient, 1.0, 0.0)


class Adam(Rule):
    """MXNet's adam_update does weight -= rate * m / (sqrt(v) + epsilon), without the correction of algorithm 1.

    That has m / (1 - beta1^t) for m and v / (1 - beta2^t) for v, which is rate * root / (1 - beta1^t) and
    epsilon * root, root = sqrt(1 - beta2^t).
    """

    def __init__(self, optimizer, parameters, weights, gradients):
        super().__init__(optimizer, parameters, weights, gradients)
        self.state = {"moment1": self.zeros(), "moment2": self.zeros()}

    def begin(self, rate):
        o = self.optimizer
        # the betas as the operators see them: 0.999 in float32 is off by 1.3e-5 of 1 - beta2, here and in v alike
        dtype = numpy.float32 if self.fused else numpy.float64
        self.beta1, self.beta2 = float(dtype(o.beta1)), float(dtype(o.beta2))
        root = math.sqrt(1 - self.beta2**self.steps)
        self.rate, self.epsilon = rate * root / (1 - self.beta1**self.steps), o.epsilon * root

    def move(self, n, weight, gradient, scale, decay):
        first, second = self.state["moment1"][n], self.state["moment2"][n]
        if self.fused:
            numbers = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon, "rescale_grad": scale}
            nd.adam_update(weight, gradient, first, second, self.rate, out=weight, lazy_update=False, **numbers)
            return
        gradient *= scale
        first *= self.beta1
        first += (1 - self.beta1) * gradient
        second *= self.beta2
        second += (1 - self.beta2) * nd.square(gradient)
        weight -= self.rate * first / (nd.sqrt(second) + self.epsilon)
