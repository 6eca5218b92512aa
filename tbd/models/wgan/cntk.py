"""WGAN by weight clipping in CNTK, channels first. See specification.py for the definition. Python 3.6 syntax.

CNTK has no gradients of gradients, so the gradient penalty is refused (tbd/frameworks/cntk/__init__.py).
"""

import cntk as C
import numpy

from tbd.frameworks.cntk.layers import (
    average_pool,
    channels_first,
    convolution,
    dense,
    mean_of_all,
    own_batch_norm,
    rows_of,
)
from tbd.frameworks.cntk.layers import layer_norm as layer_norm_over
from tbd.models.wgan.specification import START


class Network:
    """The loss of an update (tbd/frameworks/cntk/training.py)."""

    def __init__(self, specification, weights):
        self.specification, self.weights = specification, weights

    def __call__(self, inputs, update, rows):
        fake = self.generated(inputs["noise"], rows)
        if update == "generator":
            return -mean_of_all(self.scores(fake)), []
        real = channels_first(inputs["images"]) / 127.5 - 1
        # layer norm knows no other picture of its batch: both kinds can be in one
        both = C.splice(*[rows_of(pictures, rows) for pictures in (C.stop_gradient(fake), real)], axis=0)
        scores = rows_of(self.scores(C.to_batch(both)), 2 * rows)
        of_fake, of_real = (C.slice(scores, 0, n * rows, (n + 1) * rows) for n in range(2))
        return C.reduce_mean(of_fake, (0, 1), keepdims=False) - C.reduce_mean(of_real, (0, 1), keepdims=False), []

    def generated(self, noise, rows):
        """Pictures of noise."""

        def batch_norm(x, name):
            weight, bias = self.weights[name + ".weight"], self.weights[name + ".bias"]
            return own_batch_norm(x, weight, bias, self.specification.batch_norm_epsilon, rows)[0]

        x = C.reshape(self.dense(noise, "generator.input"), (-1, START, START))
        for n in range(len(self.specification.generator_blocks)):
            prefix = "generator.blocks.%d." % n
            y = self.convolution(up(C.relu(batch_norm(x, prefix + "norm1"))), prefix + "conv1")
            y = self.convolution(C.relu(batch_norm(y, prefix + "norm2")), prefix + "conv2")
            x = y + up(self.convolution(x, prefix + "shortcut"))
        return C.tanh(self.convolution(C.relu(batch_norm(x, "generator.norm")), "generator.output"))

    def scores(self, pictures):
        """The critic's score of each picture: (1,)."""
        x = self.convolution(pictures, "critic.input")
        for n in range(len(self.specification.critic_blocks)):
            prefix = "critic.blocks.%d." % n
            y = self.convolution(C.relu(self.layer_norm(x, prefix + "norm1")), prefix + "conv1")
            y = self.convolution(C.relu(self.layer_norm(y, prefix + "norm2")), prefix + "conv2")
            x = down(y) + self.convolution(down(x), prefix + "shortcut")
        return self.dense(C.reshape(x, (-1,)), "critic.output")

    def dense(self, x, name):
        return dense(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def convolution(self, x, name):
        y, bias = convolution(x, self.weights[name + ".weight"]), self.weights.get(name + ".bias")
        return y if bias is None else y + C.reshape(bias, (-1, 1, 1))

    def layer_norm(self, x, name):
        weight, bias = self.weights[name + ".weight"], self.weights[name + ".bias"]
        return layer_norm(x, weight, bias, self.specification.layer_norm_epsilon)


def layer_norm(x, weight, bias, epsilon):
    """Over channels, height and width of each picture, with a weight and a bias a channel."""
    weight, bias = (C.reshape(array, (-1, 1, 1)) for array in (weight, bias))
    return layer_norm_over(x, weight, bias, epsilon, axes=(0, 1, 2))


def up(x):
    """Each pixel 2x2 times."""
    channels, height, width = x.shape
    pixels = C.reshape(x, (channels, height, 1, width, 1))
    copies = pixels + C.Constant(numpy.zeros((1, 1, 2, 1, 2), x.dtype))
    return C.reshape(copies, (channels, 2 * height, 2 * width))


def down(x):
    return average_pool(x, 2, 2)


NETWORK = Network
