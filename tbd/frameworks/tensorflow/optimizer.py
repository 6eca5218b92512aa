"""The specification's optimizers, on TensorFlow's fused update operators where those compute the same."""

import numpy
import tensorflow as tf

from tbd.models.specification import learning_rate_at


def create(optimizer, parameters, variables):
    """The Rule that moves `variables`, one for each of `parameters`, as an Optimizer of the specification says."""
    return {"sgd": Sgd, "adam": Adam, "rmsprop": RmsProp}[optimizer.kind](optimizer, parameters, variables)


def prepared(optimizer, parameters, variables, gradients, decay):
    """The gradients clipped to the global norm, and with the weight decay, of `decay`, added."""
    if optimizer.clip_norm is not None:
        # l2_loss is half the sum of squares
        norm = tf.sqrt(2 * tf.add_n([tf.nn.l2_loss(g) for g in gradients]))
        scale = tf.minimum(tf.ones([], norm.dtype), optimizer.clip_norm / norm)
        gradients = [g * scale for g in gradients]
    if optimizer.weight_decay:
        gradients = [g + decay * v if p.decay else g for p, v, g in zip(parameters, variables, gradients, strict=True)]
    return gradients


def zeros_like(variables):
    return [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]


class Rule:
    """apply(gradients) moves the variables; `state` is {what: [variable, ...]} in their order.

    Each rule has its own move(gradients), with gradients that are clipped and hold the weight decay.

    The learning rate is a variable, so that one graph serves every step. So is, with loss scaling, whether an update
    is applied at all: where `finite` is false, gradients are zeros and every factor is one by which the same operators
    leave all as it is. A branch would make the host wait for the device.
    """

    finite = None  # while apply() is traced: a boolean tensor, or None where every update is applied

    def __init__(self, optimizer, parameters, variables):
        self.optimizer, self.parameters, self.variables = optimizer, parameters, variables
        self.rate_set = learning_rate_at(optimizer, 0)
        self.rate = tf.Variable(self.rate_set, dtype=tf.float64, trainable=False)

    def begin(self, step):
        """Set the learning rate of the step of that number."""
        rate = learning_rate_at(self.optimizer, step)
        if rate != self.rate_set:
            self.rate.assign(rate)
            self.rate_set = rate

    def factor(self, value, dtype, idle):
        """A number or a tensor as one of the type, or `idle` where this update is not applied."""
        # tf.cast would make a float32 of a number first
        value = tf.cast(value, dtype) if tf.is_tensor(value) else tf.constant(value, dtype)
        return value if self.finite is None else tf.where(self.finite, value, tf.constant(idle, dtype))

    def apply(self, gradients, finite=None):
        self.finite = finite
        decay = self.factor(self.optimizer.weight_decay or 0.0, gradients[0].dtype, 0)
        self.move(prepared(self.optimizer, self.parameters, self.variables, gradients, decay))
        if (bound := self.optimizer.clip_weights) is not None:
            bound = self.factor(bound, gradients[0].dtype, float("inf"))
            for variable in self.variables:
                variable.assign(tf.clip_by_value(variable, -bound, bound))


class Sgd(Rule):
    def __init__(self, optimizer, parameters, variables):
        super().__init__(optimizer, parameters, variables)
        self.state = {"momentum": zeros_like(variables)} if optimizer.momentum else {}

    def move(self, directions):
        """velocity = momentum * velocity + direction; variable -= rate * velocity."""
        rate = self.factor(self.rate.read_value(), directions[0].dtype, 0)
        if not self.optimizer.momentum:
            for variable, direction in zip(self.variables, directions, strict=True):
                tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=direction)
            return
        momentum = self.factor(self.optimizer.momentum, rate.dtype, 1)
        for variable, velocity, direction in zip(self.variables, self.state["momentum"], directions, strict=True):
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle, accum=velocity.handle, lr=rate, grad=direction, momentum=momentum
            )


class RmsProp(Sgd):
    """SGD along gradient / (sqrt(mean square) + epsilon). ResourceApplyRMSProp has the epsilon inside the root."""

    def __init__(self, optimizer, parameters, variables):
        super().__init__(optimizer, parameters, variables)
        self.state["square"] = zeros_like(variables)

    def move(self, gradients):
        o = self.optimizer
        directions = []
        alpha = self.factor(o.alpha, gradients[0].dtype, 1)
        for square, g in zip(self.state["square"], gradients, strict=True):
            mean = alpha * square + (1 - o.alpha) * tf.square(g)
            square.assign(mean)
            directions.append(g / (tf.sqrt(mean) + o.epsilon))
        super().move(directions)


class Adam(Rule):
    def __init__(self, optimizer, parameters, variables):
        super().__init__(optimizer, parameters, variables)
        self.state = {"moment1": zeros_like(variables), "moment2": zeros_like(variables)}
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    def move(self, gradients):
        o = self.optimizer
        dtype = gradients[0].dtype
        rate, epsilon = self.corrected(dtype)
        beta1, beta2 = self.factor(o.beta1, dtype, 1), self.factor(o.beta2, dtype, 1)
        none = tf.zeros([], dtype)  # beta powers of 0: the bias correction is in the rate and the epsilon
        moments = zip(self.state["moment1"], self.state["moment2"], strict=True)
        for variable, (first, second), gradient in zip(self.variables, moments, gradients, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=none,
                beta2_power=none,
                lr=rate,
                beta1=beta1,
                beta2=beta2,
                epsilon=epsilon,
                grad=gradient,
            )

    def corrected(self, dtype):
        """The rate and epsilon that make TensorFlow's update that of Kingma & Ba's algorithm 1.

        The operator does w -= rate * m / (sqrt(v) + epsilon). Algorithm 1 has m / (1 - beta1^t) for m and
        v / (1 - beta2^t) for v, which is rate * root / (1 - beta1^t) and epsilon * root, root = sqrt(1 - beta2^t).
        """
        o = self.optimizer
        t = tf.cast(self.steps.assign_add(self.factor(1, tf.int64, 0)), tf.float64)
        # the betas as the operator sees them: 0.999 in float32 is off by 1.3e-5 of 1 - beta2, here and in v alike
        beta1, beta2 = (float(numpy.asarray(beta, dtype.as_numpy_dtype)) for beta in (o.beta1, o.beta2))
        root = tf.sqrt(1 - tf.pow(tf.constant(beta2, tf.float64), t))
        rate = self.rate * root / (1 - tf.pow(tf.constant(beta1, tf.float64), t))
        # of a first update that is not applied t is 0
        return self.factor(rate, dtype, 0), self.factor(o.epsilon * root, dtype, 1)
