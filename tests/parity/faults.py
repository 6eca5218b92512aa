"""Deliberate mistakes that several models can have; those of one are in tests/models/known/. numpy only.

Most are planted from outside, the same way in every framework: a changed specification, batch or canonical weights make
the framework train exactly what a network with that mistake would. Only the padding is changed in the framework itself.
"""

import contextlib
import unittest.mock

import numpy

from tbd.models.specification import learning_rate_at
from tests.models import known
from tests.parity.fault import Fault


class OtherInitialWeights(Fault):
    """A framework's own initial weights instead of the specification's: here each array's numbers in another order."""

    def weights_in(self, weights):
        random = numpy.random.RandomState(0)
        return {name: random.permutation(array.ravel()).reshape(array.shape) for name, array in weights.items()}


class BatchNormEpsilon(Fault):
    """Keras's default, 1e-3, for PyTorch's, 1e-5, or the other way round."""

    @classmethod
    def fits(cls, specification):
        return hasattr(specification, "batch_norm_epsilon")

    def specification(self, specification):
        specification.batch_norm_epsilon = 1e-5 if specification.batch_norm_epsilon == 1e-3 else 1e-3
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
        return hasattr(specification, "batch_norms")

    def observation(self, found, specification, arrays):
        kept = (1 - specification.batch_norm_momentum) ** len(found["losses"])
        rows = len(next(iter(arrays.values())))
        for name, values in specification.batch_norms.items():
            norm = name + ".running_var"
            n = rows * values
            old = kept * found["initial/" + norm]
            found["trained/" + norm] = old + (found["trained/" + norm] - old) * (n - 1) / n
        return found


class PaddingShifted(Fault):
    """Every padding of a convolution moved by one from its end to its begin, as in frameworks that centre otherwise."""

    @classmethod
    def fits(cls, specification):
        return hasattr(specification, "batch_norms")  # convolutional networks, which all pad

    def planted(self):
        return PADDINGS[self.framework]()


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


FAULTS = {
    "other_initial_weights": OtherInitialWeights,
    "batch_norm_epsilon": BatchNormEpsilon,
    "batch_norm_momentum": BatchNormMomentum,
    "biased_variance": BiasedVariance,
    "padding_shifted": PaddingShifted,
    "sgd_momentum": SgdMomentum,
    "no_weight_decay": NoWeightDecay,
    "no_clipping": NoClipping,
}


def of_specification(specification):
    """{name: Fault class} of the faults that a network can have: those here that fit it, and its model's own."""
    found = {**FAULTS, **known.faults(specification.name)}
    return {name: fault for name, fault in found.items() if fault.fits(specification)}


def inside(fault):
    """Whether the fault is a change of the framework's own code, and another one in each."""
    return fault.planted is not Fault.planted


def optimizers(specification):
    return [update.optimizer for update in specification.updates(batch_size=1)]


def with_optimizers(specification, changed):
    """The specification, from now on with changed(optimizer) for each update's Optimizer."""
    original = specification.updates

    def updates(batch_size):
        return tuple(u._replace(optimizer=changed(u.optimizer)) for u in original(batch_size))

    specification.updates = updates
    return specification


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


def jax_padding():
    from jax import lax

    original = lax.conv_general_dilated

    def convolution(x, weight, strides, padding, **options):
        padding = [(low + 1, high - 1) if high else (low, high) for low, high in padding]
        return original(x, weight, strides, padding, **options)

    return unittest.mock.patch.object(lax, "conv_general_dilated", convolution)


def mxnet_padding():
    import mxnet

    original = mxnet.sym.Convolution

    def convolution(x, *arguments, pad, **options):
        width = [(n + 1, n - 1) if n else (0, 0) for n in pad]
        x = mxnet.sym.pad(x, mode="constant", pad_width=[0] * 4 + [n for pair in width for n in pair])
        return original(x, *arguments, **options)

    return unittest.mock.patch.object(mxnet.sym, "Convolution", convolution)


def cntk_padding():
    import cntk

    original = cntk.convolution

    def convolution(weight, x, strides, auto_padding):
        edges = [(n - 1) // 2 if padded else 0 for n, padded in zip(weight.shape[2:], auto_padding[1:])]
        x = cntk.pad(x, [(0, 0), *((n + 1, n - 1) if n else (0, 0) for n in edges)], cntk.CONSTANT_PAD, 0)
        return original(weight, x, strides=strides, auto_padding=[False])

    return unittest.mock.patch.object(cntk, "convolution", convolution)


PADDINGS = {
    "pytorch": pytorch_padding,
    "tensorflow": tensorflow_padding,
    "jax": jax_padding,
    "mxnet": mxnet_padding,
    "cntk": cntk_padding,
}
