"""WGAN by weight clipping in MXNet, channels first. See specification.py for the definition.

MXNet has no gradients of second order, so the gradient penalty is refused (tbd/frameworks/mxnet/__init__.py).
"""

from mxnet import sym

from tbd.frameworks.mxnet.layers import average_pool, channels_first, convolution, dense, relu, shape_of, type_of
from tbd.models.wgan.specification import START


class Network:
    """The loss of an update (tbd/frameworks/mxnet/training.py)."""

    def __init__(self, specification):
        self.specification = specification

    def __call__(self, weights, inputs, update):
        build = Build(self.specification, weights)
        fake = build.generated(inputs["noise"])
        if update == "generator":
            return -sym.mean(build.scores(fake)), {}
        real = sym.cast(channels_first(inputs["images"]), type_of(inputs["noise"])) / 127.5 - 1
        # layer norm knows no other picture of its batch: both kinds can be in one
        fake_scores, real_scores = sym.SliceChannel(build.scores(sym.concat(fake, real, dim=0)), num_outputs=2, axis=0)
        return sym.mean(fake_scores) - sym.mean(real_scores), {}


class Build:
    """The networks as symbols over `weights`."""

    def __init__(self, specification, weights):
        self.specification, self.weights = specification, weights

    def generated(self, noise):
        """Pictures, channels first, of noise."""
        x = sym.reshape(self.dense(noise, "generator.input"), (0, -1, START, START))
        for n in range(len(self.specification.generator_blocks)):
            prefix = f"generator.blocks.{n}."
            y = self.convolution(up(relu(self.batch_norm(x, prefix + "norm1"))), prefix + "conv1")
            y = self.convolution(relu(self.batch_norm(y, prefix + "norm2")), prefix + "conv2")
            x = y + up(self.convolution(x, prefix + "shortcut"))
        return sym.tanh(self.convolution(relu(self.batch_norm(x, "generator.norm")), "generator.output"))

    def scores(self, pictures):
        """The critic's score of each picture."""
        x = self.convolution(pictures, "critic.input")
        for n in range(len(self.specification.critic_blocks)):
            prefix = f"critic.blocks.{n}."
            y = self.convolution(relu(self.layer_norm(x, prefix + "norm1")), prefix + "conv1")
            y = self.convolution(relu(self.layer_norm(y, prefix + "norm2")), prefix + "conv2")
            x = down(y) + self.convolution(down(x), prefix + "shortcut")
        return self.dense(sym.Flatten(x), "critic.output")

    def dense(self, x, name):
        return dense(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def convolution(self, x, name):
        return convolution(x, self.weights[name + ".weight"], bias=self.weights.get(name + ".bias"))

    def batch_norm(self, x, name):
        weight, bias = self.weights[name + ".weight"], self.weights[name + ".bias"]
        return sym.BatchNorm(x, weight, bias, fix_gamma=False, eps=self.specification.batch_norm_epsilon)

    def layer_norm(self, x, name):
        weight, bias = self.weights[name + ".weight"], self.weights[name + ".bias"]
        return layer_norm(x, weight, bias, self.specification.layer_norm_epsilon)


def layer_norm(x, weight, bias, epsilon):
    """Over channels, height and width of each picture, with a weight and a bias a channel.

    The fused operator for it is batch norm, to which the pictures are channels of one picture.
    """
    shape, dtype = shape_of(x), type_of(x)
    pictures, channels, height, width = shape
    ones, zeros = (of(pictures, dtype=dtype) for of in (sym.ones, sym.zeros))
    flat = sym.reshape(x, (1, pictures, channels * height, width))
    y = sym.reshape(sym.BatchNorm(flat, ones, zeros, fix_gamma=True, eps=epsilon), shape)
    weight, bias = (sym.reshape(array, (1, channels, 1, 1)) for array in (weight, bias))
    return sym.broadcast_add(sym.broadcast_mul(y, weight), bias)


def up(x):
    return sym.UpSampling(x, scale=2, sample_type="nearest")


def down(x):
    return average_pool(x, 2, 2, padded=False)


NETWORK = Network
