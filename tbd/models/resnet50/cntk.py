"""ResNet-50 v1.5 in CNTK, channels first. See specification.py for the definition. Python 3.6 syntax."""

import cntk as C

from tbd.frameworks.cntk.layers import (
    batch_norm,
    channels_first,
    convolution,
    cross_entropy,
    dense,
    max_pool,
    mean_of_all,
    mean_of_pixels,
)
from tbd.models.resnet50.specification import batch_norm_of


class Network:
    """The loss of a batch (tbd/frameworks/cntk/training.py)."""

    def __init__(self, specification, weights):
        self.specification, self.weights = specification, weights
        self.strides = {name: stride for name, _, _, _, stride, _ in specification.convolutions}

    def __call__(self, inputs, update, rows):
        def normalised(x, name):
            """The convolution of that name and the batch norm that follows it."""
            norm = batch_norm_of(name)
            return batch_norm(
                convolution(x, self.weights[name + ".weight"], self.strides[name]),
                self.weights[norm + ".weight"],
                self.weights[norm + ".bias"],
                self.weights[norm + ".running_mean"],
                self.weights[norm + ".running_var"],
                self.specification.batch_norm_epsilon,
                self.specification.batch_norm_momentum,
                rows,
            )

        def bottleneck(x, prefix):
            y = C.relu(normalised(x, prefix + "conv1"))
            y = C.relu(normalised(y, prefix + "conv2"))
            y = normalised(y, prefix + "conv3")
            shortcut = prefix + "downsample.0"
            if shortcut in self.strides:
                x = normalised(x, shortcut)
            return C.relu(y + x)

        x = C.relu(normalised(channels_first(inputs["images"]), "conv1"))
        x = max_pool(x, kernel=3, stride=2)
        for stage, count in enumerate(self.specification.blocks):
            for block in range(count):
                x = bottleneck(x, "layer%d.%d." % (stage + 1, block))
        logits = dense(mean_of_pixels(x), self.weights["fc.weight"], self.weights["fc.bias"])
        return mean_of_all(cross_entropy(logits, inputs["labels"])), []


NETWORK = Network
