"""Inception v3 in JAX, channels last. See specification.py for the definition."""

import jax
import jax.numpy as jnp

from tbd.frameworks.jax.layers import average_pool, batch_norm, convolution, cross_entropy, dense, dropout, max_pool
from tbd.models.inception_v3.specification import AVERAGE, MAX, Convolution


class Network:
    """The loss of a batch (tbd/frameworks/jax/training.py)."""

    def __init__(self, specification):
        self.specification = specification
        self.draws = specification.options["dropout"] > 0

    def __call__(self, weights, inputs, update):
        return Pass(self.specification, weights).loss(inputs)


class Pass:
    """One forward pass over `weights`; `moved` are the statistics that it leaves."""

    def __init__(self, specification, weights):
        self.specification, self.weights = specification, weights
        self.moved = {}

    def loss(self, inputs):
        """(loss, moved statistics)."""
        specification, labels = self.specification, inputs["labels"]
        x = self.modules(specification.trunk, self.through(specification.stem, inputs["images"]))
        pool, convolutions = specification.auxiliary
        auxiliary = self.through(convolutions, average_pool(x, pool, 3, padded=False))
        x = jnp.mean(self.modules(specification.top, x), (1, 2))
        x = dropout(x, specification.options["dropout"], inputs.get("key"))
        loss = self.loss_of(x, "fc", labels)
        return loss + specification.auxiliary_weight * self.loss_of(
            jnp.mean(auxiliary, (1, 2)), "AuxLogits.fc", labels
        ), self.moved

    def loss_of(self, features, head, labels):
        logits = dense(features, self.weights[head + ".weight"])
        logits += self.weights[head + ".bias"].astype(logits.dtype)
        return jnp.mean(cross_entropy(logits, labels, self.specification.label_smoothing))

    def modules(self, modules, x):
        for module in modules:
            x = jnp.concatenate([self.through(branch, x) for branch in module.branches], -1)
        return x

    def through(self, layers, x):
        for layer in layers:
            if layer == MAX:
                x = max_pool(x, 3, 2, padded=False)
            elif layer == AVERAGE:
                x = average_pool(x, 3, 1)
            elif isinstance(layer, Convolution):
                x = self.unit(layer, x)
            else:
                x = jnp.concatenate([self.unit(beside, x) for beside in layer], -1)
        return x

    def unit(self, layer, x):
        """A convolution, its batch norm and ReLU."""
        weights, norm = self.weights, layer.name + ".bn."
        y, mean, variance = batch_norm(
            convolution(x, weights[layer.name + ".conv.weight"], layer.stride, padded=layer.padding != (0, 0)),
            weights[norm + "weight"],
            weights[norm + "bias"],
            weights[norm + "running_mean"],
            weights[norm + "running_var"],
            self.specification.batch_norm_epsilon,
            self.specification.batch_norm_momentum,
        )
        self.moved[norm + "running_mean"], self.moved[norm + "running_var"] = mean, variance
        return jax.nn.relu(y)


NETWORK = Network
