"""WGAN-GP on flax.linen layers: the residual networks of gan_64x64.py, one jitted step for all its updates."""

import functools

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from peers.jax import loop

SOURCE = "by hand, flax.linen, after improved_wgan_training"


def doubled(x):
    return x.repeat(2, 1).repeat(2, 2)


def halved(x):
    return nn.avg_pool(x, (2, 2), (2, 2))


class Block(nn.Module):
    """norm, relu, convolution, twice, beside a shortcut."""

    out: int
    upsample: bool
    dtype: type

    @nn.compact
    def __call__(self, x):
        if self.upsample:
            norm = functools.partial(nn.BatchNorm, use_running_average=False, dtype=self.dtype)
        else:
            norm = functools.partial(nn.GroupNorm, num_groups=1, epsilon=1e-5, dtype=self.dtype)
        before, after = (doubled, lambda y: y) if self.upsample else (lambda y: y, halved)
        between = self.out if self.upsample else x.shape[-1]
        y = nn.Conv(between, (3, 3), use_bias=False, dtype=self.dtype)(before(nn.relu(norm()(x))))
        y = after(nn.Conv(self.out, (3, 3), dtype=self.dtype)(nn.relu(norm()(y))))
        shortcut = nn.Conv(self.out, (1, 1), dtype=self.dtype)
        return y + (doubled(shortcut(x)) if self.upsample else shortcut(halved(x)))


class Generator(nn.Module):
    channels: tuple
    dtype: type

    @nn.compact
    def __call__(self, noise):
        x = nn.Dense(self.channels[-1] * 16, dtype=self.dtype)(noise).reshape(-1, 4, 4, self.channels[-1])
        for out in self.channels[-2::-1]:
            x = Block(out, True, self.dtype)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=False, dtype=self.dtype)(x))
        return jnp.tanh(nn.Conv(3, (3, 3), dtype=self.dtype)(x))


class Critic(nn.Module):
    channels: tuple
    dtype: type

    @nn.compact
    def __call__(self, pictures):
        x = nn.Conv(self.channels[0], (3, 3), dtype=self.dtype)(pictures)
        for out in self.channels[1:]:
            x = Block(out, False, self.dtype)(x)
        return nn.Dense(1, dtype=self.dtype)(x.reshape(len(x), -1)).astype(jnp.float32)


def build(options, batch_size, device, precision, compile):
    if options["lipschitz"] != "gradient_penalty":
        raise ValueError("only with a gradient penalty")
    dtype, size = loop.set_up(device, precision), options["image_size"]
    channels = tuple(options["width"] * min(2**n, 8) for n in range((size // 4).bit_length()))
    generator, critic = Generator(channels, dtype), Critic(channels, dtype)
    adam = optax.adam(1e-4, b1=0.0, b2=0.9)
    key = jax.random.key(0)
    made = generator.init(key, jnp.zeros((2, options["noise"])))
    weights = made["params"], critic.init(key, jnp.zeros((2, size, size, 3)))["params"]
    state = weights, tuple(adam.init(one) for one in weights)

    def pictures(weights, noise):
        return generator.apply({"params": weights}, noise, mutable=["batch_stats"])[0]

    def score(weights, seen):
        return critic.apply({"params": weights}, seen)

    def generators_loss(weights, critics, noise):
        return -score(critics, pictures(weights, noise)).mean()

    def critics_loss(weights, real, fake, mixture):
        mix = real + mixture[:, None, None, None] * (fake - real)
        gradients = jax.grad(lambda seen: score(weights, seen).sum())(mix)
        slopes = jnp.sqrt(jnp.square(gradients).sum((1, 2, 3)))
        penalty = 10 * jnp.square(slopes - 1).mean()
        return score(weights, fake).mean() - score(weights, real).mean() + penalty

    def moved(loss, weights, kept, *arguments):
        changes, kept = adam.update(jax.grad(loss)(weights, *arguments), kept)
        return optax.apply_updates(weights, changes), kept

    def train(state, inputs):
        (generators, critics), (first, second) = state
        generators, first = moved(generators_loss, generators, first, critics, inputs["generator_noise"])

        # not a scan, in whose body XLA runs convolutions on one thread of a CPU
        for n in range(inputs["images"].shape[1]):
            real = inputs["images"][:, n].astype(jnp.float32) / 127.5 - 1
            fake = pictures(generators, inputs["noise"][:, n]).astype(jnp.float32)
            critics, second = moved(critics_loss, critics, second, real, fake, inputs["mixture"][:, n])
        return (generators, critics), (first, second)

    compiled = jax.jit(train, donate_argnums=0)

    def step(arrays):
        nonlocal state
        state = compiled(state, jax.device_put(arrays))

    return step, lambda: jax.block_until_ready(state)
