"""The attention-based LSTM translation network in JAX. See specification.py for the definition.

Time is the first axis throughout. What doesn't depend on the step before (the products of the embedded words, the
attention's keys, the vocabulary's logits) is one product over all steps, outside the loops.
"""

import jax
import jax.numpy as jnp

from tbd.frameworks.jax.layers import at_least_float32, cross_entropy, dense
from tbd.frameworks.jax.recurrence import recurrence


class Network:
    """The loss of a batch (tbd/frameworks/jax/training.py)."""

    def __init__(self, specification):
        self.layers = specification.options["layers"]

    def __call__(self, weights, inputs, update):
        memory, state = self.encode(weights, inputs["source"], inputs["source_length"])
        attentional = self.decode(weights, inputs["target_input"], inputs["source_length"], memory, state)
        losses = cross_entropy(dense(attentional, weights["output"]), inputs["target_output"].T)
        real = positions_below(inputs["target_length"], len(losses))
        return jnp.sum(jnp.where(real, losses, 0)) / jnp.sum(real), {}

    def encode(self, w, source, length):
        """The top layer's outputs (S, batch, width) and the final (h, c) of each layer.

        The layers run over the padding too: it comes last, so nothing before it depends on it, no attention falls on
        it, and the state "that stays as it is past a sentence's length" is the one at the last real word.
        """
        x = w["encoder.embedding"][source.T]
        zero = jnp.zeros_like(x[0])
        last = length - 1, jnp.arange(len(length))
        final = []
        for layer in range(self.layers):
            prefix = f"encoder.{layer}."
            gates = with_bias(dense(x, w[prefix + "input"]), w[prefix + "bias"])
            x, c = recurrence(encoder_cell, (zero, zero), gates, (), {"hidden": w[prefix + "hidden"]})
            final.append((x[last], c[last]))
        return x, final

    def decode(self, w, target, source_length, memory, state):
        """The attentional vectors (T, batch, width), from the embedded target and the encoder's outputs and state."""
        real = positions_below(source_length, len(memory)).T
        memory = jnp.swapaxes(memory, 0, 1)
        keys = dense(memory, w["attention.memory"])
        words = w["decoder.embedding"][target.T]
        by_word, of_attentional = jnp.split(w["decoder.0.input"], 2)
        gates = with_bias(dense(words, by_word), w["decoder.0.bias"])
        of_h, of_context = jnp.split(w["attention.output"], 2)
        products = {"input.0": of_attentional, "query": w["attention.query"], "h": of_h, "context": of_context}
        for layer in range(self.layers):
            products[f"hidden.{layer}"] = w[f"decoder.{layer}.hidden"]
            if layer:
                products[f"input.{layer}"] = w[f"decoder.{layer}.input"]
        biases = [w[f"decoder.{layer}.bias"] for layer in range(1, self.layers)]

        def cell(product, state, known, constants):
            memory, keys, real, v, biases = constants
            x, state = state
            after = []
            for layer, (h, c) in enumerate(state):
                gates = product(f"input.{layer}", x) + product(f"hidden.{layer}", h)
                x, c = lstm(with_bias(gates, biases[layer - 1]) if layer else gates + known, c)
                after.append((x, c))
            score = at_least_float32(jnp.tanh(keys + product("query", x)[:, None]) @ v.astype(keys.dtype))
            weight = jax.nn.softmax(jnp.where(real, score, -jnp.inf)).astype(memory.dtype)
            context = jnp.einsum("bs,bsw->bw", weight, memory)
            attentional = product("h", x) + product("context", context)
            return (attentional, after), attentional

        constants = memory, keys, real, w["attention.v"], biases
        return recurrence(cell, (jnp.zeros_like(state[0][0]), state), gates, constants, products)


def encoder_cell(product, state, gates, constants):
    h, c = state
    state = lstm(gates + product("hidden", h), c)
    return state, state


def lstm(gates, c):
    """(h, c) after one step from the four gates' sums, in the order i, f, g, o."""
    i, f, g, o = jnp.split(gates, 4, 1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def with_bias(x, bias):
    return x + bias.astype(x.dtype)


def positions_below(lengths, size):
    """(size, batch) booleans: whether a position is within its row's length."""
    return jnp.arange(size)[:, None] < lengths


NETWORK = Network
