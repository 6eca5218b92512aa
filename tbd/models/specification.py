"""What a model is, said once, without any framework: the contract of every tbd/models/<model>/specification.py.

Canonical layouts, which each framework's network converts to and from its own:

    images    (batch, height, width, channels)           float32
    conv      (out channels, in channels, height, width)
    dense     (out features, in features)
    embedding (rows, features)
    vector    (features,)
"""

import collections
import zlib

import numpy

# One trainable array, or (trainable=False) one that the network keeps but no gradient moves, such as the running
# statistics of batch norm. `initialiser` is ("normal", standard deviation), ("uniform", half width) or
# ("constant", value).
# `kind` is one of the canonical layouts above. `decay`: whether the optimizer's weight decay applies.
Parameter = collections.namedtuple("Parameter", "name shape kind initialiser trainable decay")

# kind "sgd": velocity = momentum * velocity + gradient + weight_decay * weight; weight -= learning_rate * velocity.
# kind "adam": Kingma & Ba 2015, algorithm 1, with epsilon added outside the square root.
# clip_norm: every gradient times min(1, clip_norm / global norm) before the update; None: no clipping.
Optimizer = collections.namedtuple(
    "Optimizer", "kind learning_rate momentum weight_decay beta1 beta2 epsilon clip_norm"
)


def parameter(name, shape, kind, initialiser, trainable=True, decay=True):
    return Parameter(name, tuple(int(n) for n in shape), kind, initialiser, trainable, decay)


def sgd(learning_rate, momentum=0.0, weight_decay=0.0, clip_norm=None):
    return Optimizer("sgd", learning_rate, momentum, weight_decay, None, None, None, clip_norm)


def adam(learning_rate, beta1=0.9, beta2=0.999, epsilon=1e-8, clip_norm=None):
    return Optimizer("adam", learning_rate, None, 0.0, beta1, beta2, epsilon, clip_norm)


class Specification(object):
    """One network with its training, in the canonical layouts. Frameworks build exactly this.

    A model's own class sets `name`, `unit`, `source` and `SIZES`, and defines the methods that raise here.
    `options` are plain values (int, float, str); what is not given comes from `SIZES[size]`.
    """

    name = None  # as in `model=NAME`
    unit = None  # what `throughput` counts; the first key of items()
    source = None  # where the definition comes from
    SIZES = {}  # {"full": {option: value}, "small": {...}}: "full" is the canonical network, "small" is for tests

    def __init__(self, size="full", **options):
        if size not in self.SIZES:
            raise ValueError("model.size=%s is not one of %s" % (size, ", ".join(sorted(self.SIZES))))
        unknown = sorted(set(options) - set(self.SIZES[size]))
        if unknown:
            raise ValueError("model %s has no option %s" % (self.name, ", ".join(unknown)))
        self.size = size
        self.options = dict(self.SIZES[size])
        self.options.update((key, value) for key, value in options.items() if value is not None)

    @property
    def parameters(self):
        """Every Parameter, in the network's order."""
        raise NotImplementedError

    def optimizer(self, batch_size):
        """The Optimizer of the canonical training at this batch size (of all devices together)."""
        raise NotImplementedError

    def synthetic_batch(self, batch_size, random):
        """A learnable batch {input name: array}, drawn from the numpy RandomState `random`."""
        raise NotImplementedError

    def items(self, arrays):
        """What one batch holds, real items without padding: {unit: count}, the throughput's unit first."""
        raise NotImplementedError

    def macs(self, arrays):
        """Multiply-accumulates of one forward pass over the batch's real items, without padding."""
        raise NotImplementedError

    def flops(self, arrays):
        """Floating-point operations of one training step over the batch's real items, 2 a multiply-accumulate.

        Convolutions and matrix products only, as MLPerf and torch's FlopCounterMode count: no element-wise work. What
        mfu comes from: padding is computed too, but is no use.
        """
        raise NotImplementedError

    def work(self, arrays):
        """What a step's time should be proportional to: its flops, the padding of the batch's shapes included."""
        return self.flops(arrays)

    def parameter_count(self):
        """Trainable parameters."""
        return sum(int(numpy.prod(p.shape)) for p in self.parameters if p.trainable)

    def weights_bytes(self, itemsize=4):
        """Bytes of the trainable parameters at `itemsize` bytes each."""
        return self.parameter_count() * itemsize

    def optimizer_state_bytes(self, itemsize=4):
        """Bytes that the optimizer keeps for each parameter: one momentum array (SGD), two moments (Adam)."""
        optimizer = self.optimizer(batch_size=1)
        arrays = {"sgd": 1 if optimizer.momentum else 0, "adam": 2}[optimizer.kind]
        return arrays * self.weights_bytes(itemsize)

    def initial_weights(self, seed):
        """{name: float32 array}, the same on every machine and in every framework for one seed.

        Each array has its own generator, seeded by (seed, name): the order of the parameters doesn't matter.
        RandomState's streams are frozen by numpy's compatibility policy (NEP 19).
        """
        weights = collections.OrderedDict()
        for p in self.parameters:
            random = numpy.random.RandomState([seed, zlib.crc32(p.name.encode("ascii"))])
            kind, value = p.initialiser
            if kind == "normal":
                array = random.standard_normal(p.shape) * value
            elif kind == "uniform":
                array = random.uniform(-value, value, p.shape)
            elif kind == "constant":
                array = numpy.full(p.shape, value)
            else:
                raise ValueError("parameter %s has an unknown initialiser %s" % (p.name, kind))
            weights[p.name] = array.astype(numpy.float32)
        return weights
