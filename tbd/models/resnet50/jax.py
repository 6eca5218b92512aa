"""ResNet-50 v1.5 in JAX, channels last. See specification.py for the definition."""

import jax
import jax.numpy as jnp

from tbd.frameworks.jax.layers import batch_norm, convolution, cross_entropy, max_pool
from tbd.models.resnet50.specification import batch_norm_of


class Network:
    """The loss of a batch and the moved statistics (tbd/frameworks/jax/training.py)."""

    def __init__(self, specification):
        self.specification = specification
        self.strides = {name: stride for name, _, _, _, stride, _ in specification.convolutions}

    def __call__(self, weights, inputs, update):
        moved = {}

        def normalised(x, name):
            """The convolution of that name and the batch norm that follows it."""
            norm = batch_norm_of(name)
            y, moved[norm + ".running_mean"], moved[norm + ".running_var"] = batch_norm(
                convolution(x, weights[name + ".weight"], self.strides[name]),
                weights[norm + ".weight"],
                weights[norm + ".bias"],
                weights[norm + ".running_mean"],
                weights[norm + ".running_var"],
                self.specification.batch_norm_epsilon,
                self.specification.batch_norm_momentum,
            )
            return y

        def bottleneck(x, prefix):
            y = jax.nn.relu(normalised(x, prefix + "conv1"))
            y = jax.nn.relu(normalised(y, prefix + "conv2"))
            y = normalised(y, prefix + "conv3")
            shortcut = prefix + "downsample.0"
            if shortcut in self.strides:
                x = normalised(x, shortcut)
            return jax.nn.relu(y + x)

        x = jax.nn.relu(normalised(inputs["images"], "conv1"))
        x = max_pool(x, kernel=3, stride=2)
        for stage, count in enumerate(self.specification.blocks):
            for block in range(count):
                x = bottleneck(x, f"layer{stage + 1}.{block}.")
        logits = jnp.mean(x, (1, 2)) @ weights["fc.weight"]
        logits += weights["fc.bias"].astype(logits.dtype)
        return jnp.mean(cross_entropy(logits, inputs["labels"])), moved


NETWORK = Network
