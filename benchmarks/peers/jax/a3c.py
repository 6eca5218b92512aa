"""A3C's actor-critic on flax.linen layers, one loss over all steps of the batch."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from peers.jax import loop

SOURCE = "by hand, flax.linen"


class ActorCritic(nn.Module):
    options: dict
    dtype: type

    @nn.compact
    def __call__(self, frames):
        width = self.options["width"]
        x = frames.reshape(-1, *frames.shape[2:]).astype(self.dtype) / 255
        x = nn.relu(nn.Conv(width, (8, 8), 4, "VALID", dtype=self.dtype)(x))
        x = nn.relu(nn.Conv(2 * width, (4, 4), 2, "VALID", dtype=self.dtype)(x))
        x = nn.relu(nn.Dense(16 * width, dtype=self.dtype)(x.reshape(len(x), -1)))
        logits, values = nn.Dense(self.options["actions"], dtype=self.dtype)(x), nn.Dense(1, dtype=self.dtype)(x)
        return logits.astype(jnp.float32), values[:, 0].astype(jnp.float32)


def build(options, batch_size, device, precision, compile):
    dtype = loop.set_up(device, precision)

    def loss(apply, inputs):
        logits, values = apply(inputs["frames"])
        error = inputs["returns"].reshape(-1) - values
        likelihoods = nn.log_softmax(logits)
        chosen = jnp.take_along_axis(likelihoods, inputs["actions"].reshape(-1, 1), 1)[:, 0]
        entropy = -(jnp.exp(likelihoods) * likelihoods).sum(1)
        each = 0.5 * error**2 - chosen * jax.lax.stop_gradient(error) - 0.01 * entropy
        return each.sum() / len(inputs["actions"])

    optimizer = optax.chain(optax.clip_by_global_norm(40.0), optax.rmsprop(2.5e-4, decay=0.99, eps=0.1))
    example = (jnp.zeros((1, 1, options["image_size"], options["image_size"], 4), jnp.uint8),)
    return loop.build(ActorCritic(options, dtype), loss, optimizer, example)
