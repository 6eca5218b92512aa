"""Inception v3 with its auxiliary head written by hand on flax.linen: no package that is kept up has it."""

import jax.numpy as jnp
import optax
from flax import linen as nn

from peers.jax import loop

SOURCE = "by hand on flax.linen"


class Inception(nn.Module):
    classes: int
    rate: float
    dtype: type

    @nn.compact
    def __call__(self, x):
        """(logits, logits of the auxiliary head)."""

        def unit(x, out, rows=1, columns=1, stride=1, padding="SAME"):
            x = nn.Conv(out, (rows, columns), stride, padding=padding, use_bias=False, dtype=self.dtype)(x)
            return nn.relu(nn.BatchNorm(use_running_average=False, momentum=0.9, epsilon=1e-3, dtype=self.dtype)(x))

        def largest(x):
            return nn.max_pool(x, (3, 3), (2, 2))

        def pooled(x, out):
            return unit(nn.avg_pool(x, (3, 3), padding="SAME", count_include_pad=False), out)

        def joined(*branches):
            return jnp.concatenate(branches, -1)

        x = unit(x.astype(self.dtype), 32, 3, 3, 2, "VALID")
        x = largest(unit(unit(x, 32, 3, 3, 1, "VALID"), 64, 3, 3))
        x = largest(unit(unit(x, 80), 192, 3, 3, 1, "VALID"))
        for out in (32, 64, 64):
            double = unit(unit(unit(x, 64), 96, 3, 3), 96, 3, 3)
            x = joined(unit(x, 64), unit(unit(x, 48), 64, 5, 5), double, pooled(x, out))
        double = unit(unit(unit(x, 64), 96, 3, 3), 96, 3, 3, 2, "VALID")
        x = joined(unit(x, 384, 3, 3, 2, "VALID"), double, largest(x))
        for middle in (128, 160, 160, 192):
            once = unit(unit(unit(x, middle), middle, 1, 7), 192, 7, 1)
            twice = unit(unit(unit(x, middle), middle, 7, 1), middle, 1, 7)
            twice = unit(unit(twice, middle, 7, 1), 192, 1, 7)
            x = joined(unit(x, 192), once, twice, pooled(x, 192))
        auxiliary = unit(unit(nn.avg_pool(x, (5, 5), (3, 3)), 128), 768, 5, 5, 1, "VALID").mean((1, 2))
        auxiliary = nn.Dense(self.classes, dtype=jnp.float32)(auxiliary)
        sevens = unit(unit(unit(unit(x, 192), 192, 1, 7), 192, 7, 1), 192, 3, 3, 2, "VALID")
        x = joined(unit(unit(x, 192), 320, 3, 3, 2, "VALID"), sevens, largest(x))
        for _ in range(2):
            once, twice = unit(x, 384), unit(unit(x, 448), 384, 3, 3)
            forks = [unit(y, 384, *kernel) for y in (once, twice) for kernel in ((1, 3), (3, 1))]
            x = joined(unit(x, 320), *forks, pooled(x, 192))
        x = nn.Dropout(self.rate, deterministic=False)(x.mean((1, 2)))
        return nn.Dense(self.classes, dtype=jnp.float32)(x), auxiliary


def build(options, batch_size, device, precision, compile):
    if (options["width"], options["blocks"]) != (1.0, "3,4,2") or options["image_size"] < 299:
        raise ValueError("this inception_v3 has the full size alone, and its auxiliary head 299 pixels or more")
    dtype = loop.set_up(device, precision)
    size, classes = options["image_size"], options["classes"]

    def loss(apply, inputs):
        labels = optax.smooth_labels(jnp.eye(classes)[inputs["labels"]], 0.1)
        losses = [optax.softmax_cross_entropy(logits, labels).mean() for logits in apply(inputs["images"])]
        return losses[0] + 0.4 * losses[1]

    optimizer = optax.chain(optax.clip_by_global_norm(2.0), optax.rmsprop(0.045, decay=0.9, eps=1.0, eps_in_sqrt=False))
    network = Inception(classes, options["dropout"], dtype)
    return loop.build(network, loss, optimizer, (jnp.zeros((2, size, size, 3)),))
