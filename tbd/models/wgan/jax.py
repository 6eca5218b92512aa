"""WGAN in JAX, channels last. See specification.py for the definition."""

import jax
import jax.numpy as jnp

from tbd.frameworks.jax.layers import at_least_float32, convolution, dense, normalised
from tbd.models.wgan.specification import START


class Network:
    """The loss of an update (tbd/frameworks/jax/training.py)."""

    def __init__(self, specification):
        self.specification = specification

    def __call__(self, weights, inputs, update):
        fake = self.generated(weights, inputs["noise"])
        if update == "generator":
            return -jnp.mean(self.scores(weights, fake)), {}
        real = inputs["images"].astype(fake.dtype) / 127.5 - 1
        # layer norm knows no other picture of its batch: both kinds can be in one
        fake_scores, real_scores = jnp.split(self.scores(weights, jnp.concatenate([fake, real])), 2)
        loss = jnp.mean(fake_scores) - jnp.mean(real_scores)
        if not self.specification.penalised:
            return loss, {}
        mix = real + inputs["mixture"][:, None, None, None] * (fake - real)
        gradients = jax.grad(lambda mix: jnp.sum(self.scores(weights, mix)))(mix)
        excess = slopes(at_least_float32(gradients)) - 1
        return loss + self.specification.penalty * jnp.mean(jnp.square(excess)), {}

    def generated(self, weights, noise):
        def norm(x, name):
            weight, bias, epsilon = weights[name + ".weight"], weights[name + ".bias"], s.batch_norm_epsilon
            return jax.nn.relu(normalised(x, weight, bias, epsilon, (0, 1, 2))[0])

        s = self.specification
        x = biased(dense(noise, weights["generator.input.weight"]), weights, "generator.input")
        x = x.reshape(-1, s.channels[-1], START, START).transpose(0, 2, 3, 1)
        for n in range(len(s.generator_blocks)):
            name = f"generator.blocks.{n}."
            y = convolved(up(norm(x, name + "norm1")), weights, name + "conv1")
            y = convolved(norm(y, name + "norm2"), weights, name + "conv2")
            x = y + up(convolved(x, weights, name + "shortcut"))
        return jnp.tanh(convolved(norm(x, "generator.norm"), weights, "generator.output"))

    def scores(self, weights, pictures):
        """The critic's score of each picture, in at least float32."""

        def norm(x, name):
            weight, bias = weights[name + ".weight"], weights[name + ".bias"]
            return jax.nn.relu(layer_norm(x, weight, bias, self.specification.layer_norm_epsilon))

        x = convolved(pictures, weights, "critic.input")
        for n in range(len(self.specification.critic_blocks)):
            name = f"critic.blocks.{n}."
            y = convolved(norm(x, name + "norm1"), weights, name + "conv1")
            y = convolved(norm(y, name + "norm2"), weights, name + "conv2")
            x = down(y) + convolved(down(x), weights, name + "shortcut")
        x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
        x = biased(dense(x, weights["critic.output.weight"]), weights, "critic.output")
        return at_least_float32(x[:, 0])


def convolved(x, weights, name):
    """The convolution of that name."""
    return biased(convolution(x, weights[name + ".weight"], 1), weights, name)


def biased(x, weights, name):
    """x plus the bias of the layer of that name, where it has one."""
    bias = weights.get(name + ".bias")
    return x if bias is None else x + bias.astype(x.dtype)


def layer_norm(x, weight, bias, epsilon):
    """Layer norm over all axes but the first, with a weight and a bias a channel."""
    return normalised(x, weight, bias, epsilon, (1, 2, 3))[0]


def slopes(gradients):
    """The norm of each picture's gradient."""
    return jnp.sqrt(jnp.sum(jnp.square(gradients), range(1, gradients.ndim)))


def up(x):
    """Each pixel 2x2 times."""
    n, height, width, channels = x.shape
    x = jnp.broadcast_to(x[:, :, None, :, None], (n, height, 2, width, 2, channels))
    return x.reshape(n, 2 * height, 2 * width, channels)


def down(x):
    """The mean of each 2x2 pixels."""
    n, height, width, channels = x.shape
    return jnp.mean(x.reshape(n, height // 2, 2, width // 2, 2, channels), (2, 4))


NETWORK = Network
