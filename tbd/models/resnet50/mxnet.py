"""ResNet-50 v1.5 in MXNet, channels first. See specification.py for the definition."""

from mxnet import sym

from tbd.frameworks.mxnet.layers import (
    batch_norm,
    channels_first,
    convolution,
    cross_entropy,
    dense,
    max_pool,
    relu,
)
from tbd.models.resnet50.specification import batch_norm_of


class Network:
    """The loss of a batch, and its moved statistics (tbd/frameworks/mxnet/training.py)."""

    def __init__(self, specification):
        self.specification = specification
        self.strides = {name: stride for name, _, _, _, stride, _ in specification.convolutions}

    def __call__(self, weights, inputs, update):
        build = Build(self, weights)
        x = relu(build.normalised(channels_first(inputs["images"]), "conv1"))
        x = max_pool(x, kernel=3, stride=2)
        for stage, count in enumerate(self.specification.blocks):
            for block in range(count):
                x = build.bottleneck(x, f"layer{stage + 1}.{block}.")
        logits = dense(sym.mean(x, axis=(2, 3)), weights["fc.weight"], weights["fc.bias"])
        return sym.mean(cross_entropy(logits, inputs["labels"])), build.moved


class Build:
    """One symbol of the network in the making: `moved` collects the statistics."""

    def __init__(self, network, weights):
        self.network, self.weights, self.moved = network, weights, {}

    def bottleneck(self, x, prefix):
        y = relu(self.normalised(x, prefix + "conv1"))
        y = relu(self.normalised(y, prefix + "conv2"))
        y = self.normalised(y, prefix + "conv3")
        shortcut = prefix + "downsample.0"
        if shortcut in self.network.strides:
            x = self.normalised(x, shortcut)
        return relu(y + x)

    def normalised(self, x, name):
        """The convolution of that name and the batch norm that follows it."""
        w, norm, specification = self.weights, batch_norm_of(name), self.network.specification
        y, self.moved[norm + ".running_mean"], self.moved[norm + ".running_var"] = batch_norm(
            convolution(x, w[name + ".weight"], self.network.strides[name]),
            w[norm + ".weight"],
            w[norm + ".bias"],
            w[norm + ".running_mean"],
            w[norm + ".running_var"],
            specification.batch_norm_epsilon,
            specification.batch_norm_momentum,
        )
        return y


NETWORK = Network
