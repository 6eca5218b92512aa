"""A3C's actor-critic in JAX, channels last. See specification.py for the definition."""

import jax
import jax.numpy as jnp
from jax import lax

from tbd.frameworks.jax.layers import at_least_float32, convolution


class Network:
    """The loss of a batch, and what actors need of the frames that they see (tbd/frameworks/jax/training.py)."""

    def __init__(self, specification):
        self.specification = specification

    def __call__(self, weights, inputs, update):
        frames = inputs["frames"]
        logits, values = self.heads(weights, frames.reshape(-1, *frames.shape[2:]))
        error = inputs["returns"].reshape(-1) - values
        log_policy = jax.nn.log_softmax(logits)
        chosen = jnp.take_along_axis(log_policy, inputs["actions"].reshape(-1, 1), 1)[:, 0]
        entropy = -jnp.sum(jnp.exp(log_policy) * log_policy, 1)
        s = self.specification
        loss = s.value_coefficient * jnp.square(error) - chosen * constant(error) - s.entropy_coefficient * entropy
        return jnp.sum(loss) / len(frames), {}

    def outputs(self, weights, inputs):
        """policy: logits (n, actions), value: (n,), of frames (n, size, size, 4)."""
        logits, values = self.heads(weights, inputs["frames"])
        return {"policy": logits, "value": values}

    def heads(self, weights, frames):
        """(logits, values) in at least float32, of frames as bytes."""
        x = frames.astype(weights["conv1.weight"].dtype) * self.specification.frame_scale
        for name, _, _, _, stride, _ in self.specification.convolutions:
            x = convolution(x, weights[name + ".weight"], stride, padded=False)
            x = jax.nn.relu(x + weights[name + ".bias"].astype(x.dtype))
        x = jax.nn.relu(dense(weights, "hidden", x.reshape(len(x), -1)))
        return at_least_float32(dense(weights, "policy", x)), at_least_float32(dense(weights, "value", x)[:, 0])


def dense(weights, name, x):
    return x @ weights[name + ".weight"] + weights[name + ".bias"].astype(x.dtype)


def constant(x):
    """What the gradient does not go through."""
    return lax.stop_gradient(x)


NETWORK = Network
