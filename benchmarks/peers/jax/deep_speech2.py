"""Deep Speech 2 on flax.linen: Conv, Bidirectional RNNs over GRU cells, BatchNorm with masks, optax.ctc_loss."""

import functools
import operator

import jax.numpy as jnp
import optax
from flax import linen as nn

from peers.jax import loop

SOURCE = "by hand, flax.linen.Bidirectional and GRUCell"
BINS, CHARACTERS = 161, 29


class DeepSpeech(nn.Module):
    options: dict
    dtype: type

    @nn.compact
    def __call__(self, frames, steps):
        o = self.options
        norm = functools.partial(nn.BatchNorm, use_running_average=False, momentum=0.9, dtype=self.dtype)
        cell = functools.partial({"gru": nn.GRUCell, "rnn": nn.SimpleCell}[o["cell"]], o["width"], dtype=self.dtype)
        x = frames[..., None].astype(self.dtype)
        for kernel, stride in (((11, 41), (2, 2)), ((11, 21), (1, 2))):
            edges = [(size // 2, size // 2) for size in kernel]
            x = nn.Conv(o["channels"], kernel, stride, edges, use_bias=False, dtype=self.dtype)(x)
            real = jnp.arange(x.shape[1]) < steps[:, None]
            x = jnp.clip(norm()(x, mask=real[:, :, None, None]), 0, 20) * real[:, :, None, None]
        x = x.reshape(*x.shape[:2], -1)
        for layer in range(o["layers"]):
            if layer:
                x = norm()(x, mask=real[:, :, None])
            x = nn.Bidirectional(nn.RNN(cell()), nn.RNN(cell()), merge_fn=operator.add)(x, seq_lengths=steps)
        return nn.Dense(CHARACTERS, use_bias=False, dtype=self.dtype)(norm()(x, mask=real[:, :, None]))


def build(options, batch_size, device, precision, compile):
    dtype = loop.set_up(device, precision)

    def loss(apply, inputs):
        steps = (inputs["frame_length"] + 1) // 2
        logits = apply(inputs["frames"], steps).astype(jnp.float32)
        beyond = jnp.arange(logits.shape[1]) >= steps[:, None]
        no_label = jnp.arange(inputs["labels"].shape[1]) >= inputs["label_length"][:, None]
        losses = optax.ctc_loss(logits, beyond.astype(jnp.float32), inputs["labels"], no_label.astype(jnp.float32))
        return jnp.mean(losses)

    optimizer = optax.chain(optax.clip_by_global_norm(100.0), optax.sgd(3e-4, momentum=0.9))
    example = jnp.zeros((2, options["synthetic_length"], BINS)), jnp.ones(2, jnp.int32)
    return loop.build(DeepSpeech(options, dtype), loss, optimizer, example)
