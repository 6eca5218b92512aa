"""Inception v3 in MXNet, channels first. See specification.py for the definition."""

from mxnet import sym

from tbd.frameworks.mxnet.layers import (
    average_pool,
    batch_norm,
    channels_first,
    convolution,
    cross_entropy,
    dense,
    dropout,
    max_pool,
    relu,
)
from tbd.models.inception_v3.specification import AVERAGE, MAX, Convolution


class Network:
    """The loss of a batch, and its moved statistics (tbd/frameworks/mxnet/training.py)."""

    def __init__(self, specification):
        self.specification = specification

    def __call__(self, weights, inputs, update):
        specification, build = self.specification, Build(self.specification, weights)
        x = build.modules(specification.trunk, build.through(specification.stem, channels_first(inputs["images"])))
        pool, convolutions = specification.auxiliary
        auxiliary = build.through(convolutions, average_pool(x, pool, 3, padded=False))
        x = build.modules(specification.top, x)
        x = dropout(sym.mean(x, axis=(2, 3)), specification.options["dropout"])
        loss = build.loss(x, "fc", inputs["labels"])
        loss = loss + specification.auxiliary_weight * build.loss(
            sym.mean(auxiliary, axis=(2, 3)), "AuxLogits.fc", inputs["labels"]
        )
        return loss, build.moved


class Build:
    """One symbol of the network in the making: `moved` collects the statistics."""

    def __init__(self, specification, weights):
        self.specification, self.weights, self.moved = specification, weights, {}

    def loss(self, features, head, labels):
        logits = dense(features, self.weights[head + ".weight"], self.weights[head + ".bias"])
        return sym.mean(cross_entropy(logits, labels, self.specification.label_smoothing))

    def modules(self, modules, x):
        for module in modules:
            x = sym.concat(*[self.through(branch, x) for branch in module.branches], dim=1)
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
                x = sym.concat(*[self.unit(beside, x) for beside in layer], dim=1)
        return x

    def unit(self, layer, x):
        """A convolution, its batch norm and ReLU."""
        w, conv, norm = self.weights, layer.name + ".conv", layer.name + ".bn"
        y, self.moved[norm + ".running_mean"], self.moved[norm + ".running_var"] = batch_norm(
            convolution(x, w[conv + ".weight"], layer.stride, padded=layer.padding != (0, 0)),
            w[norm + ".weight"],
            w[norm + ".bias"],
            w[norm + ".running_mean"],
            w[norm + ".running_var"],
            self.specification.batch_norm_epsilon,
            self.specification.batch_norm_momentum,
        )
        return relu(y)


NETWORK = Network
