"""What a model is, said once, without any framework: the contract of every tbd/models/<model>/specification.py.

Canonical layouts, which each framework's network converts to and from its own:

    images    (batch, height, width, channels)           float32
    conv      (out channels, in channels, height, width)
    dense     (out features, in features)
    embedding (rows, features)
    vector    (features,)

One call of a framework's step is one iteration of the training: each of the specification's `updates` in order, each
`repeat` times. Most models have one update of all weights, once.

All that is random in a step (noise, samples, labels that are drawn) is an array of the batch, drawn by the
specification from a numpy RandomState that it is given: by their own generators two frameworks would train different
things. The one exception are dropout's masks, which as arrays would cost more than the training: the framework draws
them on the device, from a generator that the run's seed decides. Small sizes, which compare frameworks, have none.
"""

import collections
import zlib

import numpy

from tbd.data.options import checked

# One array that the network keeps. `role` is one of
#     weight     trained by an update
#     frozen     a weight that none trains: it has no gradient and no optimizer state, but is counted among the weights
#     statistic  what the network itself moves, such as the running statistics of batch norm: not among the weights
# `kind` is one of the canonical layouts above. `initialiser` is ("normal", standard deviation), ("uniform", half width)
# or ("constant", value). `decay`: whether the optimizer's weight decay applies.
Parameter = collections.namedtuple("Parameter", "name shape kind initialiser role decay")
ROLES = ("weight", "frozen", "statistic")

# kind "sgd": velocity = momentum * velocity + gradient + weight_decay * weight; weight -= learning_rate * velocity.
# kind "adam": Kingma & Ba 2015, algorithm 1, with epsilon added outside the square root.
# kind "rmsprop": Tieleman & Hinton 2012 (lecture 6.5), not centred, epsilon outside the root, as torch.optim.RMSprop:
#     g = gradient + weight_decay * weight; square = alpha * square + (1 - alpha) * g^2, from 0;
#     velocity = momentum * velocity + g / (sqrt(square) + epsilon); weight -= learning_rate * velocity.
#     TensorFlow's own RMSProp has sqrt(square + epsilon), and the learning rate within the velocity.
# learning_rate: a number, or a pure function of the step's number (0, 1, ...), for schedules.
# clip_norm: every gradient times min(1, clip_norm / global norm) before the update; None: no clipping.
# clip_weights: after the update every weight is cut to [-clip_weights, clip_weights]; None: no cutting.
Optimizer = collections.namedtuple(
    "Optimizer", "kind learning_rate momentum weight_decay alpha beta1 beta2 epsilon clip_norm clip_weights"
)

# One part of a step: `optimizer` moves `parameters` (names of weights; no others) by the gradients of the loss that the
# network gives for this update, `repeat` times in a row. `name` is an identifier.
Update = collections.namedtuple("Update", "name parameters optimizer repeat")


def parameter(name, shape, kind, initialiser, role="weight", decay=True):
    if role not in ROLES:
        raise ValueError("parameter %s has the role %s, which is not one of %s" % (name, role, ", ".join(ROLES)))
    return Parameter(name, tuple(int(n) for n in shape), kind, initialiser, role, decay)


def sgd(learning_rate, momentum=0.0, weight_decay=0.0, clip_norm=None):
    return Optimizer("sgd", learning_rate, momentum, weight_decay, None, None, None, None, clip_norm, None)


def adam(learning_rate, beta1=0.9, beta2=0.999, epsilon=1e-8, clip_norm=None):
    return Optimizer("adam", learning_rate, None, 0.0, None, beta1, beta2, epsilon, clip_norm, None)


def rmsprop(learning_rate, alpha, epsilon, momentum=0.0, weight_decay=0.0, clip_norm=None, clip_weights=None):
    args = ("rmsprop", learning_rate, momentum, weight_decay, alpha, None, None, epsilon, clip_norm, clip_weights)
    return Optimizer(*args)


def learning_rate_at(optimizer, step):
    """The learning rate of an Optimizer in the step of that number, from 0."""
    return float(optimizer.learning_rate(step) if callable(optimizer.learning_rate) else optimizer.learning_rate)


class Specification(object):
    """One network with its training, in the canonical layouts. Frameworks build exactly this.

    A model's own class sets `name`, `unit`, `source`, `SIZES`, `OPTIONS` and `takes`, and defines the methods that
    raise here. What `options` doesn't give comes from `SIZES[size]`. Raises ValueError for an option or value that
    isn't the model's.
    """

    name = None  # as in `model=NAME`
    unit = None  # what `throughput` counts; the first key of items()
    source = None  # where the definition comes from
    SIZES = {}  # {"full": {option: value}, "small": {...}}: "full" is the canonical network, "small" is for tests
    OPTIONS = {}  # {option: Option}: what each may be (tbd/data/options.py)
    takes = ()  # the kinds of samples that batches are formed of (tbd/data/kinds.py)
    wide = ()  # real arrays of a batch that stay float32 in mixed precision, such as places: 8 bits are too few

    def __init__(self, size="full", **options):
        if size not in self.SIZES:
            raise ValueError("model.size=%s is not one of %s" % (size, ", ".join(sorted(self.SIZES))))
        options = checked("model=%s" % self.name, self.OPTIONS, options)
        self.size = size
        self.options = dict(self.SIZES[size])
        self.options.update((key, value) for key, value in options.items() if value is not None)

    def check(self, batch_size):
        """Raises ValueError where the options don't go together or the model can't train at this batch size."""

    @property
    def parameters(self):
        """Every Parameter, in the network's order."""
        raise NotImplementedError

    def optimizer(self, batch_size):
        """The Optimizer of the canonical training at this batch size (of all devices together)."""
        raise NotImplementedError

    def updates(self, batch_size):
        """The Updates of one step, in order: by default one, of all weights by `optimizer`."""
        weights = tuple(p.name for p in self.parameters if p.role == "weight")
        return (Update("train", weights, self.optimizer(batch_size), 1),)

    def update_arrays(self, arrays, update, repetition):
        """What the update of that name takes of a step's batch in its repetition 0, 1, ...: by default all of it.

        Where repetitions need data of their own, each takes its slice of an axis after the first.
        """
        return arrays

    def synthetic_batch(self, batch_size, random):
        """A learnable batch {input name: array}, drawn from the numpy RandomState `random`.

        The first axis of every array is the batch: of several ranks, each takes rows of it.
        """
        raise NotImplementedError

    def form(self, kind):
        """What samples of `kind`, one of those that the model takes, must be like: see tbd/data/kinds.py."""
        raise NotImplementedError

    def shapes_of(self, samples, longest):
        """The shape that each sample belongs to: a batch holds samples of one shape. Sortable values, few of them.

        `samples` are columns of a kind whose samples differ in length; `longest` is the bound of these lengths.
        """
        raise NotImplementedError

    def rows(self, shape, batch_size):
        """How many samples a batch of this shape has; other than `batch_size` where that counts tokens, say."""
        return batch_size

    def batch_of(self, samples, shape, seeds):
        """The batch {input name: array} of `samples`, columns of one of the kinds that the model takes.

        `shape`: what shapes_of gave for them; None for a kind whose samples are all of one shape. `seeds`: one a
        sample, for numpy's RandomState: what is random in a row comes from its own, whichever rank has the row.
        """
        raise NotImplementedError

    def items(self, arrays):
        """What one batch holds, real items without padding: {unit: count}, the throughput's unit first."""
        raise NotImplementedError

    def loss_weight(self, arrays):
        """How many things the loss of an update's arrays is the mean of: rows, where it isn't said otherwise.

        Of several ranks each counts by it, so that they train on the loss of all their rows together.
        """
        return len(next(iter(arrays.values())))

    def macs(self, arrays):
        """Multiply-accumulates of a step's forward passes over the batch's real items, without padding."""
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
        """Numbers in all weights, frozen ones included."""
        return sum(count(p) for p in self.parameters if p.role != "statistic")

    def weights_bytes(self, itemsize=4):
        """Bytes of all weights, frozen ones included, at `itemsize` bytes a number."""
        return self.parameter_count() * itemsize

    def exchanged_bytes(self, itemsize=4):
        """Bytes of all gradients that ranks exchange in a step: of every update, as often as it is repeated."""
        counts = {p.name: count(p) for p in self.parameters}
        numbers = sum(u.repeat * sum(counts[name] for name in u.parameters) for u in self.updates(batch_size=1))
        return numbers * itemsize

    def optimizer_state_bytes(self, itemsize=4):
        """Bytes that the updates' optimizers keep.

        For each weight a velocity (where there is momentum: SGD), two moments (Adam), or a mean square and a velocity
        (where there is momentum: RMSProp).
        """
        counts = {p.name: count(p) for p in self.parameters}
        total = 0
        for update in self.updates(batch_size=1):
            velocity = 1 if update.optimizer.momentum else 0
            arrays = {"sgd": velocity, "adam": 2, "rmsprop": 1 + velocity}[update.optimizer.kind]
            total += arrays * sum(counts[name] for name in update.parameters)
        return total * itemsize

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


def count(parameter):
    """Numbers in the array of a Parameter."""
    return int(numpy.prod(parameter.shape))
