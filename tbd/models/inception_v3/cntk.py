"""Inception v3 in CNTK, channels first. See specification.py for the definition. Python 3.6 syntax."""

import cntk as C

from tbd.frameworks.cntk.layers import (
    average_pool,
    channels_first,
    convolution,
    cross_entropy,
    dense,
    dropout,
    max_pool,
    mean_of_all,
    mean_of_pixels,
    summed_batch_norm,
)
from tbd.models.inception_v3.specification import AVERAGE, MAX, Convolution


class Network:
    """The loss of a batch, and its moved statistics (tbd/frameworks/cntk/training.py)."""

    def __init__(self, specification, weights):
        self.specification, self.weights = specification, weights

    def __call__(self, inputs, update, rows):
        specification, build = self.specification, Build(self.specification, self.weights, rows)
        x = build.modules(specification.trunk, build.through(specification.stem, channels_first(inputs["images"])))
        pool, convolutions = specification.auxiliary
        auxiliary = build.through(convolutions, average_pool(x, pool, 3))
        x = mean_of_pixels(build.modules(specification.top, x))
        x = dropout(x, specification.options["dropout"])
        of_auxiliary = build.loss(mean_of_pixels(auxiliary), "AuxLogits.fc", inputs["labels"])
        return build.loss(x, "fc", inputs["labels"]) + specification.auxiliary_weight * of_auxiliary, build.moved


class Build:
    """One network in the making, of so many rows: `moved` collects the statistics."""

    def __init__(self, specification, weights, rows):
        self.specification, self.weights, self.rows, self.moved = specification, weights, rows, []

    def loss(self, features, head, labels):
        logits = dense(features, self.weights[head + ".weight"], self.weights[head + ".bias"])
        return mean_of_all(cross_entropy(logits, labels, self.specification.label_smoothing))

    def modules(self, modules, x):
        for module in modules:
            x = C.splice(*[self.through(branch, x) for branch in module.branches], axis=0)
        return x

    def through(self, layers, x):
        for layer in layers:
            if layer == MAX:
                x = max_pool(x, 3, 2, padded=False)
            elif layer == AVERAGE:
                x = average_pool(x, 3, 1, padded=True)
            elif isinstance(layer, Convolution):
                x = self.unit(layer, x)
            else:
                x = C.splice(*[self.unit(beside, x) for beside in layer], axis=0)
        return x

    def unit(self, layer, x):
        """A convolution, its batch norm and ReLU."""
        weights, norm = self.weights, layer.name + ".bn."
        y, moved = summed_batch_norm(
            convolution(x, weights[layer.name + ".conv.weight"], layer.stride, padded=layer.padding != (0, 0)),
            weights[norm + "weight"],
            weights[norm + "bias"],
            weights[norm + "running_mean"],
            weights[norm + "running_var"],
            self.specification.batch_norm_epsilon,
            self.specification.batch_norm_momentum,
            self.rows,
        )
        self.moved += moved
        return C.relu(y)


NETWORK = Network
