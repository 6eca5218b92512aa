"""Deliberate mistakes, to show that the parity gate finds them. numpy only: runs in every framework.

Most are planted from outside, the same way in every framework: a changed specification, batch or canonical weights make
the framework train exactly what a network with that mistake would. Only the padding is changed in the framework itself.
"""

import contextlib
import unittest.mock

import numpy

from tbd import models
from tbd.models.specification import learning_rate_at


class Fault:
    """No mistake at all: what a fault doesn't change passes through."""

    @classmethod
    def fits(cls, specification):
        """Whether a network of the specification can have this fault."""
        return True

    def __init__(self, framework):
        self.framework = framework

    @contextlib.contextmanager
    def planted(self):
        """Changes the framework itself within."""
        yield

    def specification(self, specification):
        return specification

    def batch(self, arrays):
        return arrays

    def weights_in(self, weights):
        return weights

    def weights_out(self, weights):
        return weights

    def observation(self, found, specification, arrays):
        return found


class OtherInitialWeights(Fault):
    """A framework's own initial weights instead of the specification's: here each array's numbers in another order."""

    def weights_in(self, weights):
        random = numpy.random.RandomState(0)
        return {name: random.permutation(array.ravel()).reshape(array.shape) for name, array in weights.items()}


class BatchNormEpsilon(Fault):
    """Keras's default, 1e-3, for 1e-5."""

    @classmethod
    def fits(cls, specification):
        return hasattr(specification, "batch_norm_epsilon")

    def specification(self, specification):
        specification.batch_norm_epsilon = 1e-3
        return specification


class BatchNormMomentum(Fault):
    """The other convention of the running statistics' momentum: 0.9 of the new value for 0.1."""

    @classmethod
    def fits(cls, specification):
        return hasattr(specification, "batch_norm_momentum")

    def specification(self, specification):
        specification.batch_norm_momentum = 1 - specification.batch_norm_momentum
        return specification


class BiasedVariance(Fault):
    """The batch's biased variance in the running statistics.

    The running variance touches nothing else in training and is linear in the batches' variances, so what the biased
    ones give follows from it: each is (n - 1) / n of the unbiased one, n = batch x height x width of the layer.
    """

    @classmethod
    def fits(cls, specification):
        return specification.name == "resnet50"

    def observation(self, found, specification, arrays):
        from tbd.models.resnet50.specification import batch_norm_of

        kept = (1 - specification.batch_norm_momentum) ** len(found["losses"])
        for name, _, _, _, _, size in specification.convolutions:
            norm = batch_norm_of(name) + ".running_var"
            n = len(arrays["labels"]) * size * size
            old = kept * found["initial/" + norm]
            found["trained/" + norm] = old + (found["trained/" + norm] - old) * (n - 1) / n
        return found


class PaddingShifted(Fault):
    """Every padding of a convolution moved by one from its end to its begin, as in frameworks that centre otherwise."""

    @classmethod
    def fits(cls, specification):
        return specification.name == "resnet50"

    def planted(self):
        return {"pytorch": pytorch_padding, "tensorflow": tensorflow_padding}[self.framework]()


class SgdMomentum(Fault):
    """velocity = momentum * velocity + (1 - momentum) * gradient: from rest, the same as a smaller learning rate."""

    @classmethod
    def fits(cls, specification):
        return any(o.momentum for o in optimizers(specification))

    def specification(self, specification):
        def smaller(o):
            factor = 1 - (o.momentum or 0.0)
            return o._replace(learning_rate=lambda step: learning_rate_at(o, step) * factor)

        return with_optimizers(specification, smaller)


class NoWeightDecay(Fault):
    @classmethod
    def fits(cls, specification):
        return any(o.weight_decay for o in optimizers(specification))

    def specification(self, specification):
        return with_optimizers(specification, lambda o: o._replace(weight_decay=0.0))


class NoClipping(Fault):
    """The gradients' global norm isn't bounded."""

    @classmethod
    def fits(cls, specification):
        return any(o.clip_norm for o in optimizers(specification))

    def specification(self, specification):
        return with_optimizers(specification, lambda o: o._replace(clip_norm=None))


class GateOrder(Fault):
    """The gates taken in the order i, g, f, o."""

    @classmethod
    def fits(cls, specification):
        return specification.name == "seq2seq"

    def weights_in(self, weights):
        return {name: swapped(array) if is_lstm(name) else array for name, array in weights.items()}

    weights_out = weights_in


class SourceNotReversed(Fault):
    @classmethod
    def fits(cls, specification):
        return specification.name == "seq2seq"

    def batch(self, arrays):
        arrays = dict(arrays, source=arrays["source"].copy())
        for row, length in enumerate(arrays["source_length"]):
            arrays["source"][row, :length] = arrays["source"][row, :length][::-1].copy()
        return arrays


class NoSourceMask(Fault):
    """The encoder runs on over the padding and the attention falls on it."""

    @classmethod
    def fits(cls, specification):
        return specification.name == "seq2seq"

    def batch(self, arrays):
        longest = arrays["source"].shape[1]
        return dict(arrays, source_length=numpy.full_like(arrays["source_length"], longest))


FAULTS = {
    "other_initial_weights": OtherInitialWeights,
    "batch_norm_epsilon": BatchNormEpsilon,
    "batch_norm_momentum": BatchNormMomentum,
    "biased_variance": BiasedVariance,
    "padding_shifted": PaddingShifted,
    "sgd_momentum": SgdMomentum,
    "no_weight_decay": NoWeightDecay,
    "no_clipping": NoClipping,
    "gate_order": GateOrder,
    "source_not_reversed": SourceNotReversed,
    "no_source_mask": NoSourceMask,
}


def of_model(model):
    """{name: Fault class} of the faults that a model can have."""
    specification = models.create(model, {"size": "small"})
    return {name: fault for name, fault in FAULTS.items() if fault.fits(specification)}


def optimizers(specification):
    return [update.optimizer for update in specification.updates(batch_size=1)]


def with_optimizers(specification, changed):
    """The specification, from now on with changed(optimizer) for each update's Optimizer."""
    original = specification.updates

    def updates(batch_size):
        return tuple(u._replace(optimizer=changed(u.optimizer)) for u in original(batch_size))

    specification.updates = updates
    return specification


def is_lstm(name):
    """Whether a canonical name is one of an LSTM's arrays: encoder.0.input and the like."""
    return name.split(".")[1:2] in (["0"], ["1"])


def swapped(array):
    """An LSTM's array with its second and third gate exchanged."""
    i, f, g, o = numpy.split(array, 4)
    return numpy.concatenate([i, g, f, o])


def pytorch_padding():
    import torch

    def forward(self, x, weight, bias):
        low_high = [(n + 1, n - 1) if n else (0, 0) for n in reversed(self.padding)]
        x = torch.nn.functional.pad(x, [n for pair in low_high for n in pair])
        return torch.nn.functional.conv2d(x, weight, bias, self.stride)

    return unittest.mock.patch.object(torch.nn.Conv2d, "_conv_forward", forward)


@contextlib.contextmanager
def tensorflow_padding():
    import tensorflow as tf

    original_conv2d, original_pad = tf.nn.conv2d, tf.pad

    def pad(x, paddings):
        return original_pad(x, [(low + 1, high - 1) if high else (low, high) for low, high in paddings])

    def conv2d(x, filters, strides, padding):
        if padding == "SAME":
            edges = [(int(size) - 1) // 2 for size in filters.shape[:2]]
            x = pad(x, [(0, 0), *((edge, edge) for edge in edges), (0, 0)])
        return original_conv2d(x, filters, strides, "VALID")

    with unittest.mock.patch.object(tf.nn, "conv2d", conv2d), unittest.mock.patch.object(tf, "pad", pad):
        yield
