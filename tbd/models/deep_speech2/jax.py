"""Deep Speech 2 in JAX. See specification.py for the definition.

From the convolutions on, time is the first axis. What doesn't depend on the step before is one product over all steps,
outside the loops. Past an utterance's end everything is 0.
"""

import jax
import jax.numpy as jnp

from tbd.frameworks.jax.ctc import ctc_loss
from tbd.frameworks.jax.layers import convolution, dense, masked_batch_norm
from tbd.frameworks.jax.recurrence import recurrence
from tbd.models.deep_speech2.specification import BLANK, batch_norm_of, steps_of


class Network:
    """The loss of a batch and the running statistics (tbd/frameworks/jax/training.py)."""

    def __init__(self, specification):
        self.specification = specification
        self.cell = CELLS[specification.options["cell"]]

    def __call__(self, weights, inputs, update):
        moved = {}
        steps = steps_of(inputs["frame_length"])
        x = inputs["frames"][..., None]
        for name, _, _, _, stride, _ in self.specification.convolutions:
            x = convolution(x, weights[name + ".weight"], stride)
            real = real_steps(steps, x.shape[1])
            x = self.normalised(x, real[:, :, None, None], batch_norm_of(name), weights, moved)
            x = jnp.clip(x, 0, self.specification.clip)
        x = jnp.swapaxes(x.reshape(*x.shape[:2], -1), 0, 1)
        real = real.T[:, :, None].astype(x.dtype)
        for layer in range(self.specification.options["layers"]):
            if layer:
                x = self.normalised(x, real, f"recurrent.{layer}.bn", weights, moved)
            directions = ((f"recurrent.{layer}.{direction}.") for direction in ("forward", "backward"))
            parts = ([weights[prefix + part] for part in ("input", "hidden", "bias")] for prefix in directions)
            x = bidirectional(self.cell, x, real, *parts)
        logits = dense(self.normalised(x, real, "output.bn", weights, moved), weights["output"])
        return jnp.mean(ctc_loss(logits, steps, inputs["labels"], inputs["label_length"], BLANK)), moved

    def normalised(self, x, real, name, weights, moved):
        """The batch norm of that name; puts its new running statistics into `moved`."""
        names = [f"{name}.{part}" for part in ("weight", "bias", "running_mean", "running_var")]
        epsilon, momentum = self.specification.batch_norm_epsilon, self.specification.batch_norm_momentum
        y, *statistics = masked_batch_norm(x, real, *(weights[name] for name in names), epsilon, momentum)
        moved.update(zip(names[2:], statistics, strict=True))
        return y


def real_steps(steps, longest):
    """(batch, longest) booleans: whether a step is within its utterance."""
    return jnp.arange(longest) < steps[:, None]


def bidirectional(cell, x, real, forward, backward):
    """The sum of both directions' states after every step, (time, batch, width); one loop runs both.

    The backward direction stays in its zero state until it comes to the utterance's end.
    """

    def both(product, state, inputs, constants):
        of_forward, of_backward, real = inputs
        ahead = cell(of_forward, product("forward", state[0]), state[0])
        back = cell(of_backward, product("backward", state[1]), state[1]) * real
        return (ahead, back), (ahead, back)

    gates = [dense(x, weight) + bias.astype(x.dtype) for weight, _, bias in (forward, backward)]
    sequences = gates[0], gates[1][::-1], real[::-1]
    zero = jnp.zeros((x.shape[1], len(forward[1])), x.dtype)
    ahead, back = recurrence(both, (zero, zero), sequences, (), {"forward": forward[1], "backward": backward[1]})
    return ahead * real + back[::-1]


def gru(known, of_state, state):
    """The state after one step from W x + b, U h and h."""
    r, z, n = jnp.split(known, 3, 1)
    of_r, of_z, of_n = jnp.split(of_state, 3, 1)
    n = jnp.tanh(n + jax.nn.sigmoid(r + of_r) * of_n)
    return n + jax.nn.sigmoid(z + of_z) * (state - n)


def rnn(known, of_state, state):
    return jnp.tanh(known + of_state)


CELLS = {"gru": gru, "rnn": rnn}
NETWORK = Network
