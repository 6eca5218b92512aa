"""ResNet-50 v1.5: the residual network of He et al. 2016 with the stride on the 3x3 convolution of a bottleneck.

Source: arXiv 1512.03385, table 1 (50 layers), and Goyal et al., arXiv 1706.02677, section 5.1 (v1.5 and the training).

A bottleneck is conv1 1x1 -> bn1 -> relu -> conv2 3x3 (stride, padding 1) -> bn2 -> relu -> conv3 1x1 -> bn3, plus the
shortcut, then relu. The shortcut of each stage's first block is downsample.0 (conv 1x1, the same stride) and
downsample.1 (batch norm); elsewhere it is the identity. The stem is conv1 7x7 stride 2 padding 3, bn1, relu, max-pool
3x3 stride 2 padding 1; the head is the mean over height and width, then fc. No convolution has a bias.
The loss is the mean cross-entropy over the batch.
"""

import math
import re

from tbd.data.options import Option
from tbd.models.pictures import PictureClassifier
from tbd.models.specification import parameter, sgd

EXPANSION = 4  # a bottleneck's output has 4 times its width (He et al., table 1)


class ResNet50(PictureClassifier):
    name = "resnet50"
    source = "arXiv 1512.03385 table 1; arXiv 1706.02677 section 5.1"
    SIZES = {
        "full": {"image_size": 224, "classes": 1000, "width": 64, "blocks": "3,4,6,3"},
        "small": {"image_size": 32, "classes": 10, "width": 8, "blocks": "1,1,1,1"},
    }
    OPTIONS = {
        "image_size": Option(int, 1),
        "classes": Option(int, 1),
        "width": Option(int, 1),
        "blocks": Option(str),
    }

    # Batch norm: y = (x - mean) / sqrt(variance + epsilon) * weight + bias with the batch's biased variance;
    # running = (1 - momentum) * running + momentum * batch statistic, the variance there being the unbiased one.
    # 1e-5 and 0.1 are the values of arXiv 1706.02677 (its 0.9 is 1 - momentum in this notation).
    batch_norm_epsilon = 1e-5
    batch_norm_momentum = 0.1

    @property
    def blocks(self):
        """Bottlenecks in each of the four stages."""
        return [int(count) for count in self.options["blocks"].split(",")]

    def check(self, batch_size):
        if not re.match(r"[1-9][0-9]*(,[1-9][0-9]*){3}\Z", self.options["blocks"]):
            allowed = "four whole numbers of at least 1 with commas between them, such as 3,4,6,3"
            raise ValueError("model.blocks=%s must be %s" % (self.options["blocks"], allowed))
        size = self.convolutions[-1][-1]
        if batch_size * size * size < 2:
            raise ValueError(
                "batch_size=%d at model.image_size=%d leaves batch norm one value a channel in the last stage: it has "
                "no variance; at least two are needed" % (batch_size, self.options["image_size"])
            )

    @property
    def convolutions(self):
        """Every convolution in order: (name, in channels, out channels, kernel, stride, output height = width)."""
        width, size = self.options["width"], self.options["image_size"]
        size = halved(size)
        layers = [("conv1", 3, width, 7, 2, size)]
        size = halved(size)  # the max-pool
        channels = width
        for stage, count in enumerate(self.blocks):
            middle = width * 2**stage
            for block in range(count):
                stride = 2 if block == 0 and stage > 0 else 1
                out_size = halved(size) if stride == 2 else size
                prefix = "layer%d.%d." % (stage + 1, block)
                layers.append((prefix + "conv1", channels, middle, 1, 1, size))
                layers.append((prefix + "conv2", middle, middle, 3, stride, out_size))
                layers.append((prefix + "conv3", middle, middle * EXPANSION, 1, 1, out_size))
                if block == 0:
                    layers.append((prefix + "downsample.0", channels, middle * EXPANSION, 1, stride, out_size))
                channels, size = middle * EXPANSION, out_size
        return layers

    @property
    def batch_norms(self):
        """{name of a batch norm: how many values of a channel it sees in each row of the batch}."""
        return {batch_norm_of(name): size * size for name, _, _, _, _, size in self.convolutions}

    @property
    def features(self):
        """Channels that the last stage gives to fc."""
        return self.options["width"] * 2 ** (len(self.blocks) - 1) * EXPANSION

    @property
    def parameters(self):
        found = []
        for name, channels, out, kernel, _, _ in self.convolutions:
            # He et al., arXiv 1502.01852, equation 14 (fan-out): variance 2 / (kernel area x out channels)
            deviation = math.sqrt(2.0 / (kernel * kernel * out))
            found.append(parameter(name + ".weight", (out, channels, kernel, kernel), "conv", ("normal", deviation)))
            norm = batch_norm_of(name)
            found.append(parameter(norm + ".weight", (out,), "vector", ("constant", 1.0)))
            found.append(parameter(norm + ".bias", (out,), "vector", ("constant", 0.0)))
            found.append(parameter(norm + ".running_mean", (out,), "vector", ("constant", 0.0), role="statistic"))
            found.append(parameter(norm + ".running_var", (out,), "vector", ("constant", 1.0), role="statistic"))
        # arXiv 1706.02677, section 5.1: the last layer from a Gaussian of standard deviation 0.01
        classes = self.options["classes"]
        found.append(parameter("fc.weight", (classes, self.features), "dense", ("normal", 0.01)))
        found.append(parameter("fc.bias", (classes,), "vector", ("constant", 0.0)))
        return found

    def optimizer(self, batch_size):
        # arXiv 1706.02677: learning rate 0.1 at batch 256, scaled linearly; momentum 0.9; weight decay 1e-4
        return sgd(learning_rate=0.1 * batch_size / 256.0, momentum=0.9, weight_decay=1e-4)

    def macs(self, arrays):
        per_image = sum(c * out * k * k * size * size for _, c, out, k, _, size in self.convolutions)
        return len(arrays["labels"]) * (per_image + self.features * self.options["classes"])

    def flops(self, arrays):
        # forward, gradient by the weights and gradient by the input are one product each; the first convolution
        # needs no gradient by its input (the images)
        _, channels, out, kernel, _, size = self.convolutions[0]
        first = len(arrays["labels"]) * channels * out * kernel * kernel * size * size
        return 2 * (3 * self.macs(arrays) - first)


def halved(size):
    """Output height of the stride-2 layers here, all of which pad to ceil(size / 2)."""
    return (size + 1) // 2


def batch_norm_of(convolution):
    """The name of the batch norm that follows a convolution: conv1 -> bn1, downsample.0 -> downsample.1."""
    if convolution.endswith("downsample.0"):
        return convolution[:-1] + "1"
    return convolution.replace("conv", "bn")


SPECIFICATION = ResNet50
