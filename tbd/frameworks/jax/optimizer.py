"""The specification's optimizers as pure functions, which XLA fuses to one pass over each weight."""

import math

import jax.numpy as jnp
import numpy

from tbd.frameworks.jax.owned import owned
from tbd.models.specification import learning_rate_at


def create(optimizer, parameters):
    """The Rule that moves the weights of `parameters` as an Optimizer of the specification says."""
    return {"sgd": Sgd, "adam": Adam, "rmsprop": RmsProp}[optimizer.kind](optimizer, parameters)


class Rule:
    """What an optimizer keeps and does. Weights, gradients and each of the state's kinds are {name: array}."""

    def __init__(self, optimizer, parameters):
        self.optimizer, self.parameters = optimizer, parameters

    def state(self, weights):
        """{kind: {name: array}} before the first step."""
        own = {p.name: weights[p.name] for p in self.parameters}
        return {
            kind: {name: owned(numpy.zeros(w.shape, w.dtype), w.device) for name, w in own.items()}
            for kind in self.kept()
        }

    def scalars(self, step, turn):
        """The numbers of this turn that change() takes: arguments, so that no value compiles anew.

        `step` counts steps from 0, `turn` the updates made before.
        """
        return (numpy.float64(learning_rate_at(self.optimizer, step)),)

    def recounted(self, scalars, left_out):
        """The same numbers where `left_out` of the turns before moved nothing."""
        return scalars

    def apply(self, weights, gradients, state, scalars, left_out=0):
        """(weights, state) after the update. `left_out`: how many of the turns before moved nothing."""
        scalars = self.recounted(scalars, left_out)
        if self.optimizer.clip_norm is not None:
            gradients = clipped(gradients, self.optimizer.clip_norm)
        moved, kept = {}, {kind: {} for kind in state}
        for p in self.parameters:
            weight, gradient = weights[p.name], gradients[p.name]
            if self.optimizer.weight_decay and p.decay:
                gradient = gradient + self.optimizer.weight_decay * weight
            own = {kind: arrays[p.name] for kind, arrays in state.items()}
            change, own = self.change(gradient, own, *(jnp.asarray(s, weight.dtype) for s in scalars))
            moved[p.name] = weight - change
            if (bound := self.optimizer.clip_weights) is not None:
                moved[p.name] = jnp.clip(moved[p.name], -bound, bound)
            for kind, array in own.items():
                kept[kind][p.name] = array
        return moved, kept


class Sgd(Rule):
    def kept(self):
        return ("momentum",) if self.optimizer.momentum else ()

    def change(self, gradient, own, rate):
        """(what the weight loses, the new state) of one array."""
        if not self.optimizer.momentum:
            return rate * gradient, {}
        velocity = self.optimizer.momentum * own["momentum"] + gradient
        return rate * velocity, {"momentum": velocity}


class RmsProp(Sgd):
    """SGD along gradient / (sqrt(mean square) + epsilon)."""

    def kept(self):
        return *super().kept(), "square"

    def change(self, gradient, own, rate):
        o = self.optimizer
        square = o.alpha * own["square"] + (1 - o.alpha) * jnp.square(gradient)
        change, kept = super().change(gradient / (jnp.sqrt(square) + o.epsilon), own, rate)
        return change, dict(kept, square=square)


class Adam(Rule):
    """Kingma & Ba's algorithm 1 with the bias corrections in the rate and in epsilon.

    m / (1 - beta1^t) over sqrt(v / (1 - beta2^t)) + epsilon is root / (1 - beta1^t) times m over sqrt(v) + epsilon *
    root, with root = sqrt(1 - beta2^t).
    """

    def kept(self):
        return "moment1", "moment2"

    def scalars(self, step, turn):
        return *super().scalars(step, turn), numpy.float64(turn + 1)

    def recounted(self, scalars, left_out):
        rate, t = scalars
        return rate, t - left_out

    def change(self, gradient, own, rate, t):
        o = self.optimizer
        root = jnp.sqrt(correction(o.beta2, t))
        rate, epsilon = rate * root / correction(o.beta1, t), o.epsilon * root
        first = o.beta1 * own["moment1"] + (1 - o.beta1) * gradient
        second = o.beta2 * own["moment2"] + (1 - o.beta2) * jnp.square(gradient)
        return rate * first / (jnp.sqrt(second) + epsilon), {"moment1": first, "moment2": second}


def correction(beta, t):
    """1 - beta^t as -expm1(t log beta), which loses no digit in float32."""
    return -jnp.expm1(t * math.log(beta)) if beta else 1.0


def clipped(gradients, clip_norm):
    """The gradients times min(1, clip_norm / their global norm)."""
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradients.values()))
    scale = jnp.minimum(1.0, clip_norm / norm)
    return {name: g * scale for name, g in gradients.items()}
