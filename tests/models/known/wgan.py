"""What the tests must know of wgan."""

import contextlib
import unittest.mock

import numpy

from tbd import models
from tests.models.known import RING
from tests.parity.fault import Fault
from tests.parity.faults import with_optimizers

# by hand from the layers of the released code (gan_64x64.py): generator 8,540,483, critic 7,491,841
PARAMETERS = 16_032_324
VARIANTS = {"weight_clipping": {"lipschitz": "weight_clipping"}}
MEMORY_OPTIONS = {"width": 32}
# 0.01, made for wide networks, leaves a narrow critic scores that differ by less than float32 rounds them
CLIP_WEIGHTS = 0.2
# Each of 60 updates may meet a ReLU's input that rounding flips: with this seed 10 steps in float32 stay within 1e-3 of
# float64's, in both variants and though every weight is moved by 1e-6 of itself, five times at random.
BATCH_SEED = 50


def learned(losses):
    """The critic's loss goes below 0: each of the last is below each of the first."""
    return max(losses[-RING:]) < min(losses[:RING])


class Penalised(Fault):
    """A mistake in what only the penalty needs."""

    @classmethod
    def fits(cls, specification):
        return specification.penalised


class NoPenalty(Penalised):
    def specification(self, specification):
        specification.penalty = 0.0
        return specification


class OneNorm(Penalised):
    """The penalty on one norm, over the whole batch."""

    @contextlib.contextmanager
    def planted(self):
        network = models.network("wgan", self.framework)
        slopes = network.slopes
        with unittest.mock.patch.object(network, "slopes", lambda gradients: slopes(gradients[None])):
            yield


class OneMixture(Penalised):
    """One number for the whole batch, instead of one for each picture, says how real and fake are mixed."""

    def batch(self, arrays):
        return dict(arrays, mixture=numpy.broadcast_to(arrays["mixture"][:1], arrays["mixture"].shape))


class StoppedMean(Penalised):
    """Layer norm's variance taken of x - constant(mean), as tf.nn.moments does: right in the first order only."""

    @contextlib.contextmanager
    def planted(self):
        layer_norm = {"pytorch": pytorch_stopped_mean, "tensorflow": tensorflow_stopped_mean, "jax": jax_stopped_mean}
        network = models.network("wgan", self.framework)
        with unittest.mock.patch.object(network, "layer_norm", layer_norm[self.framework]):
            yield


class FourUpdates(Fault):
    """The critic is updated four times a step."""

    def specification(self, specification):
        updates = specification.updates
        specification.updates = lambda batch_size: tuple(
            u._replace(repeat=min(u.repeat, 4)) for u in updates(batch_size)
        )
        return specification


class SamePictures(Fault):
    """The critic sees the same pictures in each of its updates."""

    def batch(self, arrays):
        return dict(arrays, images=numpy.broadcast_to(arrays["images"][:, :1], arrays["images"].shape))


class OtherScale(Fault):
    """Pictures in 0..1."""

    def batch(self, arrays):
        return dict(arrays, images=128 + arrays["images"] // 2)


class Betas(Penalised):
    """Adam's usual averages instead of 0 and 0.9."""

    def specification(self, specification):
        return with_optimizers(specification, lambda o: o._replace(beta1=0.5, beta2=0.999))


class NoWeightClipping(Fault):
    @classmethod
    def fits(cls, specification):
        return not specification.penalised

    def specification(self, specification):
        return with_optimizers(specification, lambda o: o._replace(clip_weights=None))


class ChannelLast(Fault):
    """The critic's last map flattened with its channels last."""

    def weights_in(self, weights):
        return moved(weights, lambda array: array.transpose(0, 2, 3, 1))

    def weights_out(self, weights):
        return moved(weights, lambda array: array.transpose(0, 3, 1, 2), channels_last=True)


def moved(weights, order, channels_last=False):
    """The weights with the critic's output's, as an array (1, channels, 4, 4), in another order."""
    array = weights.get("critic.output.weight")
    if array is None:  # the generator's gradients
        return weights
    shape = (1, 4, 4, -1) if channels_last else (1, -1, 4, 4)
    return dict(weights, **{"critic.output.weight": order(array.reshape(shape)).reshape(array.shape)})


class BatchNormInTheCritic(Fault):
    """The norm over a batch's pictures of each channel."""

    @contextlib.contextmanager
    def planted(self):
        batch_norm = {"pytorch": pytorch_batch_norm, "mxnet": mxnet_batch_norm, "cntk": cntk_batch_norm}
        network = models.network("wgan", self.framework)
        with unittest.mock.patch.object(network, "layer_norm", batch_norm.get(self.framework, last_axis_norm)):
            yield


def pytorch_batch_norm(specification, channels):
    import torch

    return torch.nn.BatchNorm2d(channels, eps=specification.layer_norm_epsilon, track_running_stats=False)


def mxnet_batch_norm(x, weight, bias, epsilon):
    import mxnet

    return mxnet.sym.BatchNorm(x, weight, bias, fix_gamma=False, eps=epsilon)


def cntk_batch_norm(x, weight, bias, epsilon):
    import cntk

    statistics = [cntk.Constant(numpy.zeros(weight.shape, weight.dtype)) for _ in range(2)]
    count = cntk.Constant(numpy.zeros((), weight.dtype))
    return cntk.batch_normalization(x, weight, bias, *statistics, spatial=True, running_count=count, epsilon=epsilon)


def last_axis_norm(x, weight, bias, epsilon):
    """Batch norm over all axes but the last, by operators that TensorFlow and JAX have in common."""
    if hasattr(x, "graph"):
        import tensorflow as tf

        mean, variance = tf.nn.moments(x, [0, 1, 2])
    else:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * (variance + epsilon) ** -0.5 * weight + bias


def pytorch_stopped_mean(specification, channels):
    import torch

    class Norm(torch.nn.GroupNorm):
        def forward(self, x):
            mean = x.mean((1, 2, 3), keepdim=True)
            variance = (x - mean.detach()).square().mean((1, 2, 3), keepdim=True)
            weight, bias = self.weight[:, None, None], self.bias[:, None, None]
            return (x - mean) * (torch.rsqrt(variance + self.eps) * weight) + bias

    return Norm(1, channels, eps=specification.layer_norm_epsilon)


def tensorflow_stopped_mean(x, weight, bias, epsilon):
    import tensorflow as tf

    mean, variance = tf.nn.moments(x, [1, 2, 3], keepdims=True)
    return (x - mean) * (tf.math.rsqrt(variance + epsilon) * weight) + bias


def jax_stopped_mean(x, weight, bias, epsilon):
    import jax

    mean = x.mean((1, 2, 3), keepdims=True)
    variance = ((x - jax.lax.stop_gradient(mean)) ** 2).mean((1, 2, 3), keepdims=True)
    return (x - mean) * ((variance + epsilon) ** -0.5 * weight) + bias


FAULTS = {
    "no_penalty": NoPenalty,
    "one_norm": OneNorm,
    "one_mixture": OneMixture,
    "stopped_mean": StoppedMean,
    "four_updates": FourUpdates,
    "same_pictures": SamePictures,
    "other_scale": OtherScale,
    "betas": Betas,
    "no_weight_clipping": NoWeightClipping,
    "channel_last": ChannelLast,
    "batch_norm_in_the_critic": BatchNormInTheCritic,
}
