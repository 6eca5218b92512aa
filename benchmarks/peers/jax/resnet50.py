"""ResNet-50 v1.5 as in Flax's own ImageNet example, on flax.linen's layers."""

import jax.numpy as jnp
import optax
from flax import linen as nn

from peers.jax import loop

SOURCE = "by hand on flax.linen, as Flax's ImageNet example"


class Bottleneck(nn.Module):
    width: int
    stride: int
    dtype: type

    @nn.compact
    def __call__(self, x):
        def unit(x, out, kernel, stride=1):
            x = nn.Conv(out, (kernel, kernel), stride, padding=kernel // 2, use_bias=False, dtype=self.dtype)(x)
            return nn.BatchNorm(use_running_average=False, momentum=0.9, epsilon=1e-5, dtype=self.dtype)(x)

        y = nn.relu(unit(x, self.width, 1))
        y = nn.relu(unit(y, self.width, 3, self.stride))
        y = unit(y, 4 * self.width, 1)
        if x.shape != y.shape:
            x = unit(x, 4 * self.width, 1, self.stride)
        return nn.relu(x + y)


class ResNet(nn.Module):
    options: dict
    dtype: type

    @nn.compact
    def __call__(self, x):
        width = self.options["width"]
        x = nn.Conv(width, (7, 7), 2, padding=3, use_bias=False, dtype=self.dtype)(x.astype(self.dtype))
        x = nn.BatchNorm(use_running_average=False, momentum=0.9, epsilon=1e-5, dtype=self.dtype)(x)
        x = nn.max_pool(nn.relu(x), (3, 3), (2, 2), ((1, 1), (1, 1)))
        for stage, count in enumerate(self.options["blocks"].split(",")):
            for block in range(int(count)):
                stride = 2 if stage and not block else 1
                x = Bottleneck(width * 2**stage, stride, self.dtype)(x)
        return nn.Dense(self.options["classes"], dtype=jnp.float32)(x.mean((1, 2)))


def build(options, batch_size, device, precision, compile):
    dtype = loop.set_up(device, precision)
    size = options["image_size"]

    def loss(apply, inputs):
        return optax.softmax_cross_entropy_with_integer_labels(apply(inputs["images"]), inputs["labels"]).mean()

    optimizer = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(0.1 * batch_size / 256, momentum=0.9))
    return loop.build(ResNet(options, dtype), loss, optimizer, (jnp.zeros((1, size, size, 3)),))
