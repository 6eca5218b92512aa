"""The NMT tutorial's translation on flax.linen: nn.RNN as encoder, nn.scan over cells with attention as decoder."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from peers.jax import loop

SOURCE = "by hand, flax.linen.RNN and scan"


class AttentionCell(nn.Module):
    width: int
    layers: int
    dtype: type

    @nn.compact
    def __call__(self, carry, embedded, memory, keys, mask):
        states, attentional = carry
        x, found = jnp.concatenate([embedded, attentional], -1), []
        for state in states:
            state, x = nn.OptimizedLSTMCell(self.width, dtype=self.dtype)(state, x)
            found.append(state)
        query = nn.Dense(self.width, use_bias=False, dtype=self.dtype)(x)
        score = nn.Dense(1, use_bias=False, dtype=self.dtype)(jnp.tanh(keys + query[:, None]))[..., 0]
        weight = jax.nn.softmax(score + mask).astype(self.dtype)
        context = jnp.einsum("bs,bsf->bf", weight, memory)
        attentional = nn.Dense(self.width, use_bias=False, dtype=self.dtype)(jnp.concatenate([x, context], -1))
        return (found, attentional), attentional


class Translator(nn.Module):
    options: dict
    dtype: type

    @nn.compact
    def __call__(self, source, source_length, target):
        o, dtype = self.options, self.dtype
        width = o["width"]
        x, states = nn.Embed(o["source_vocabulary"], width, dtype=dtype)(source), []
        for _ in range(o["layers"]):
            cell = nn.OptimizedLSTMCell(width, dtype=dtype)
            state, x = nn.RNN(cell, return_carry=True)(x, seq_lengths=source_length)
            states.append(state)
        keys = nn.Dense(width, use_bias=False, dtype=dtype)(x)
        mask = jnp.where(jnp.arange(source.shape[1]) < source_length[:, None], 0.0, -1e9)
        decoder = nn.scan(
            AttentionCell,
            variable_broadcast="params",
            split_rngs={"params": False},
            in_axes=(1, nn.broadcast, nn.broadcast, nn.broadcast),
            out_axes=1,
        )(width, o["layers"], dtype)
        embedded = nn.Embed(o["target_vocabulary"], width, dtype=dtype)(target)
        _, attentional = decoder((states, jnp.zeros_like(states[0][1])), embedded, x, keys, mask)
        return nn.Dense(o["target_vocabulary"], use_bias=False, dtype=dtype)(attentional)


def build(options, batch_size, device, precision, compile):
    dtype = loop.set_up(device, precision)

    def loss(apply, inputs):
        logits = apply(inputs["source"], inputs["source_length"], inputs["target_input"]).astype(jnp.float32)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, inputs["target_output"])
        real = jnp.arange(losses.shape[1]) < inputs["target_length"][:, None]
        return jnp.sum(losses * real) / jnp.sum(real)

    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-4))
    example = jnp.zeros((2, 4), jnp.int32), jnp.ones(2, jnp.int32), jnp.zeros((2, 4), jnp.int32)
    return loop.build(Translator(options, dtype), loss, optimizer, example)
