"""The Transformer on flax.linen's attention, as Flax's WMT example: normalisation before, one embedding for all."""

import jax.numpy as jnp
import numpy
import optax
from flax import linen as nn

from peers.jax import loop

SOURCE = "by hand on flax.linen, as Flax's WMT example"


class Block(nn.Module):
    """A layer of the encoder, or with `memory` of the decoder."""

    options: dict
    dtype: type

    @nn.compact
    def __call__(self, x, mask, memory=None, memory_mask=None):
        o = self.options

        def dropped(y):
            return nn.Dropout(o["dropout"], deterministic=False)(y)

        def attended(y, seen, mask):
            return nn.MultiHeadDotProductAttention(
                o["heads"], dtype=self.dtype, use_bias=False, dropout_rate=o["dropout"], deterministic=False
            )(y, seen, mask=mask)

        y = nn.LayerNorm(dtype=self.dtype)(x)
        x = x + dropped(attended(y, y, mask))
        if memory is not None:
            x = x + dropped(attended(nn.LayerNorm(dtype=self.dtype)(x), memory, memory_mask))
        y = nn.LayerNorm(dtype=self.dtype)(x)
        y = dropped(nn.relu(nn.Dense(o["feedforward"], dtype=self.dtype)(y)))
        return x + dropped(nn.Dense(o["width"], dtype=self.dtype)(y))


class Translator(nn.Module):
    options: dict
    dtype: type

    @nn.compact
    def __call__(self, source, source_length, target):
        o = self.options
        width, length = o["width"], source.shape[1]
        embedding = nn.Embed(o["vocabulary"], width, embedding_init=nn.initializers.normal(width**-0.5))
        angles = numpy.arange(length)[:, None] / 10000 ** (numpy.arange(0, width, 2) / width)
        positions = numpy.stack([numpy.sin(angles), numpy.cos(angles)], 2).reshape(length, width)

        def embed(ids):
            x = (embedding(ids) * width**0.5 + positions).astype(self.dtype)
            return nn.Dropout(o["dropout"], deterministic=False)(x)

        real = (jnp.arange(length) < source_length[:, None])[:, None, None]
        x, y = embed(source), embed(target)
        for _ in range(o["layers"]):
            x = Block(o, self.dtype)(x, real)
        memory = nn.LayerNorm(dtype=self.dtype)(x)
        for _ in range(o["layers"]):
            y = Block(o, self.dtype)(y, nn.make_causal_mask(target), memory, real)
        return nn.LayerNorm(dtype=self.dtype)(y) @ embedding.embedding.T.astype(self.dtype)


def build(options, batch_size, device, precision, compile):
    dtype = loop.set_up(device, precision)

    def loss(apply, inputs):
        logits = apply(inputs["source"], inputs["source_length"], inputs["target_input"]).astype(jnp.float32)
        smoothing = options["label_smoothing"]
        right = jnp.take_along_axis(logits, inputs["target_output"][..., None], -1)[..., 0]
        losses = nn.logsumexp(logits, -1) - (1 - smoothing) * right - smoothing * logits.mean(-1)
        real = jnp.arange(losses.shape[1]) < inputs["target_length"][:, None]
        return jnp.sum(losses * real) / jnp.sum(real)

    example = jnp.zeros((2, 4), jnp.int32), jnp.ones(2, jnp.int32), jnp.zeros((2, 4), jnp.int32)
    return loop.build(Translator(options, dtype), loss, optax.adam(1e-4, b1=0.9, b2=0.98, eps=1e-9), example)
