"""The specification's optimizers: by CNTK's own learners where these are the same, else by its universal learner.

CNTK's own go over the numbers once, where a network of operators, which the universal learner computes, does many
times. Momentum is the same where the learning rate doesn't change (OwnSgd), adam with other averages (OwnAdam); none
clips. Learners get the gradients of the loss itself, which is one number: nothing is divided by a count of samples.

What CNTK computes of Constants and weights alone it takes for constant and keeps: of such a network every operator has
memory of its own, some 20 times the weights'. So every number here is one that CNTK has to draw at each step, plus 0.
"""

import cntk as C
import numpy

from tbd.models.specification import learning_rate_at


def create(optimizer, parameters):
    """The Rule that moves the weights of `parameters` as an Optimizer of the specification says."""
    clips = optimizer.clip_norm is not None or optimizer.clip_weights is not None
    sgd = Sgd if clips or callable(optimizer.learning_rate) else OwnSgd
    adam = Adam if clips else OwnAdam
    return {"sgd": sgd, "adam": adam, "rmsprop": RmsProp}[optimizer.kind](optimizer, parameters)


class Rule:
    """update(weights, gradients) is the Function that the learner evaluates; `state` is {kind: [Constant, ...]}.

    What changes from step to step are Constants that begin(step) sets, so that one network serves every step.
    """

    # Whether the learner divides the sum of several ranks' gradients by their samples, of which a rank's step is one
    divides = False

    def __init__(self, optimizer, parameters):
        self.optimizer, self.parameters = optimizer, parameters
        self.state = {}
        self.scalars = []
        self.copies = ()  # the Constants into which the learner copies the gradients

    def learners(self, weights):
        """CNTK's learners of the weights of `parameters`."""
        return [C.learners.universal(lambda w, g: self.update(w, g), weights)]  # it counts arguments

    def numbers(self, step):
        """What the scalars are in the step of that number."""
        return (learning_rate_at(self.optimizer, step),)

    def begin(self, step):
        for scalar, number in zip(self.scalars, self.numbers(step)):
            scalar.value = numpy.asarray(number, scalar.dtype)

    def update(self, weights, gradients):
        o = self.optimizer
        dtype = weights[0].dtype
        self.copies = gradients
        self.nothing = C.random.bernoulli((), dtype, mean=0.0, seed=1)  # always 0
        self.scalars = [C.Constant(numpy.zeros((), dtype)) for _ in self.numbers(0)]
        self.current = [scalar + self.nothing for scalar in self.scalars]
        self.state = {kind: [C.Constant(numpy.zeros(w.shape, dtype)) for w in weights] for kind in self.kept()}
        if o.clip_norm is not None:
            gradients = self.clipped(gradients)
        found = []
        for n, (p, weight, gradient) in enumerate(zip(self.parameters, weights, gradients)):
            if o.weight_decay and p.decay:
                gradient = gradient + self.number(o.weight_decay) * weight
            own = {kind: constants[n] for kind, constants in self.state.items()}
            moved = weight - self.change(gradient, own)
            if o.clip_weights is not None:
                # as Constants: of a number it makes a float32
                moved = C.clip(moved, *[C.Constant(numpy.asarray(n * o.clip_weights, dtype)) for n in (-1, 1)])
            found.append(C.assign(weight, moved))
        return C.combine(found)

    def number(self, value):
        """A number that CNTK doesn't take for constant."""
        return C.Constant(numpy.asarray(value, self.scalars[0].dtype)) + self.nothing

    def clipped(self, gradients):
        """The gradients times min(1, clip_norm / their global norm)."""
        squares = [C.reduce_sum(g * (g + self.nothing), C.Axis.all_static_axes()) for g in gradients]
        norm = C.sqrt(C.reduce_sum(C.splice(*[C.reshape(s, (1,)) for s in squares])))
        scale = C.element_min(1, self.optimizer.clip_norm / norm)
        return [g * scale for g in gradients]


class Sgd(Rule):
    def kept(self):
        return ("momentum",) if self.optimizer.momentum else ()

    def change(self, gradient, own):
        """What the weight loses; moves what is its own."""
        (rate,) = self.current
        if not self.optimizer.momentum:
            return rate * gradient
        velocity = own["momentum"]
        return rate * C.assign(velocity, self.number(self.optimizer.momentum) * velocity + gradient)


class OwnSgd(Sgd):
    """SGD at one learning rate by CNTK's own learners, one for the weights that decay and one for the others.

    Their velocity is v = momentum v + rate g, and weight -= v: rate times the specification's, as long as it is one.
    """

    divides = True

    def learners(self, weights):
        self.state = {kind: weights for kind in self.kept()}  # each as large as these
        found = []
        for decays in (True, False):
            own = [w for p, w in zip(self.parameters, weights) if p.decay == decays]
            if own:
                found.append(self.learner(own, self.optimizer.weight_decay if decays else 0.0))
        return found

    def learner(self, weights, decay):
        o = self.optimizer
        rate = always(learning_rate_at(o, 0))
        if not o.momentum:
            return C.sgd(weights, rate, l2_regularization_weight=decay)
        return C.momentum_sgd(weights, rate, always(o.momentum), unit_gain=False, l2_regularization_weight=decay)


class RmsProp(Sgd):
    """SGD along gradient / (sqrt(mean square) + epsilon)."""

    def kept(self):
        return super().kept() + ("square",)

    def change(self, gradient, own):
        o = self.optimizer
        square = C.assign(
            own["square"], self.number(o.alpha) * own["square"] + self.number(1 - o.alpha) * gradient * gradient
        )
        return super().change(gradient / (C.sqrt(square) + o.epsilon), own)


class Adam(Rule):
    """Kingma & Ba's algorithm 1 with the bias corrections in the rate and in epsilon.

    m / (1 - beta1^t) over sqrt(v / (1 - beta2^t)) + epsilon is root / (1 - beta1^t) times m over sqrt(v) + epsilon *
    root, with root = sqrt(1 - beta2^t).
    """

    def __init__(self, optimizer, parameters):
        super().__init__(optimizer, parameters)
        self.updates = 0

    def kept(self):
        return "moment1", "moment2"

    def begin(self, step):
        self.updates += 1
        super().begin(step)

    def numbers(self, step):
        o, t = self.optimizer, max(self.updates, 1)
        root = numpy.sqrt(1 - o.beta2**t)
        return learning_rate_at(o, step) * root / (1 - o.beta1**t), o.epsilon * root

    def change(self, gradient, own):
        o = self.optimizer
        rate, epsilon = self.current
        first = C.assign(own["moment1"], self.number(o.beta1) * own["moment1"] + self.number(1 - o.beta1) * gradient)
        second = C.assign(
            own["moment2"], self.number(o.beta2) * own["moment2"] + self.number(1 - o.beta2) * gradient * gradient
        )
        return rate * first / (C.sqrt(second) + epsilon)


class OwnAdam(Rule):
    """Adam by CNTK's own learner.

    It has m = a m + (1 - a) g, v = b v + (1 - b) g^2 and weight -= rate c m / (sqrt(v) + epsilon), with
    c = sqrt(1 - b^t) / (1 - a^t). With a = beta1 (1 - beta1^(t - 1)) / (1 - beta1^t) in its update t = 1, 2, ..., and b
    likewise from beta2, m and v are the bias-corrected moments themselves, and c is divided out of the rate.
    """

    divides = True

    def __init__(self, optimizer, parameters):
        super().__init__(optimizer, parameters)
        self.updates = 0

    def learners(self, weights):
        o = self.optimizer
        self.state = {"moment1": weights, "moment2": weights}  # each as large as these
        momentum, variance_momentum = (
            C.learning_parameter_schedule(averages(beta), C.learners.IGNORE, epoch_size=1)
            for beta in (o.beta1, o.beta2)
        )
        self.own = C.adam(weights, always(1.0), momentum, True, variance_momentum, epsilon=o.epsilon)
        return [self.own]

    def begin(self, step):
        self.updates += 1
        t = self.updates
        a, b = (average(beta, t) for beta in (self.optimizer.beta1, self.optimizer.beta2))
        c = numpy.sqrt(1 - b**t) / (1 - a**t)
        self.own.reset_learning_rate(always(float(learning_rate_at(self.optimizer, step) / c)))


def average(beta, t):
    """The weight of what was before in update t, with which a moving average is the bias-corrected one of `beta`."""
    return beta * (1 - beta ** (t - 1)) / (1 - beta**t)


def averages(beta):
    """The same of each update, up to the first in which it is `beta` itself in float64."""
    last = numpy.log(2.0**-54) / numpy.log(beta) if beta else 0
    return [average(beta, t) for t in range(1, int(last) + 3)]


def always(number):
    """A schedule of one learning rate or momentum, whatever the number of samples."""
    return C.learning_parameter_schedule(number, C.learners.IGNORE)
