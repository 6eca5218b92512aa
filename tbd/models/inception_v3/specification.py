"""Inception v3: convolutions factorised into smaller and asymmetric ones, side by side in modules.

Sources: Szegedy et al., arXiv 1512.00567 (the paper). Where it leaves a number open: its authors' own code, TF-Slim's
nets/inception_v3.py and inception_utils.py (Slim), and for the names and the count of parameters torchvision's
inception_v3, which is Slim's network with the scale that batch norm has there by choice.

Every convolution is without bias and followed by batch norm and ReLU. A padded one has (kernel - 1) / 2 zeros on each
side, and stride 1. A module lays `branches` over the same input and joins their channels, in order; `trunk` and `top`
are its modules in order. The average pooling of a branch is 3x3 with stride 1 over the places that exist: a window at
the border is divided by the number of its pixels, not by 9 (as in Slim, where the paper's network comes from;
torchvision divides by 9). The max-pooling is 3x3 with stride 2, without padding.

The auxiliary head reads what the trunk gives: average pooling 5x5 with stride 3, two convolutions, mean over height and
width, its fc. On pictures too small for its 5x5 windows they are as large as what they are laid over (Slim's
_reduced_kernel_size_for_small_input). The head proper is mean over height and width, dropout, fc.

    loss = L(logits) + 0.4 L(auxiliary logits), 0.4 as in Slim. L is the mean over the batch of the cross-entropy with
    the smoothed label, 0.9 of the class and 0.1 spread evenly over all classes, it included (paper, section 7)
"""

import collections
import math
import re

from tbd.data.options import Option
from tbd.models.pictures import PictureClassifier
from tbd.models.specification import parameter, rmsprop

AVERAGE, MAX = "average", "max"

# One convolution with its batch norm: `kernel` (rows, columns), `padding` (rows, columns) of zeros on each side, `size`
# height and width of what it gives, `deviation` of its initial weights.
Convolution = collections.namedtuple("Convolution", "name channels out kernel stride padding size deviation")

# Each branch is a tuple of layers, one after another: Convolutions, AVERAGE, MAX, and tuples of Convolutions that lie
# side by side. `channels` and `size` are those of what the module gives.
Module = collections.namedtuple("Module", "branches channels size")

# A convolution before it is laid over an input.
Layer = collections.namedtuple("Layer", "name out kernel stride padded")


def layer(name, out, rows=1, columns=1, stride=1, padded=True):
    return Layer(name, out, (rows, columns), stride, padded and stride == 1)


STEM = (
    layer("Conv2d_1a_3x3", 32, 3, 3, stride=2),
    layer("Conv2d_2a_3x3", 32, 3, 3, padded=False),
    layer("Conv2d_2b_3x3", 64, 3, 3),
    MAX,
    layer("Conv2d_3b_1x1", 80),
    layer("Conv2d_4a_3x3", 192, 3, 3, padded=False),
    MAX,
)


def module_a(pooled):
    """Paper, figure 5."""
    return (
        (layer("branch1x1", 64),),
        (layer("branch5x5_1", 48), layer("branch5x5_2", 64, 5, 5)),
        (layer("branch3x3dbl_1", 64), layer("branch3x3dbl_2", 96, 3, 3), layer("branch3x3dbl_3", 96, 3, 3)),
        (AVERAGE, layer("branch_pool", pooled)),
    )


# paper, figure 10: to half the height and width
MODULE_B = (
    (layer("branch3x3", 384, 3, 3, stride=2),),
    (layer("branch3x3dbl_1", 64), layer("branch3x3dbl_2", 96, 3, 3), layer("branch3x3dbl_3", 96, 3, 3, stride=2)),
    (MAX,),
)


def module_c(middle):
    """Paper, figure 6 with n = 7."""
    return (
        (layer("branch1x1", 192),),
        (layer("branch7x7_1", middle), layer("branch7x7_2", middle, 1, 7), layer("branch7x7_3", 192, 7, 1)),
        (
            layer("branch7x7dbl_1", middle),
            layer("branch7x7dbl_2", middle, 7, 1),
            layer("branch7x7dbl_3", middle, 1, 7),
            layer("branch7x7dbl_4", middle, 7, 1),
            layer("branch7x7dbl_5", 192, 1, 7),
        ),
        (AVERAGE, layer("branch_pool", 192)),
    )


# as MODULE_B, with the 7x7 of module C
MODULE_D = (
    (layer("branch3x3_1", 192), layer("branch3x3_2", 320, 3, 3, stride=2)),
    (
        layer("branch7x7x3_1", 192),
        layer("branch7x7x3_2", 192, 1, 7),
        layer("branch7x7x3_3", 192, 7, 1),
        layer("branch7x7x3_4", 192, 3, 3, stride=2),
    ),
    (MAX,),
)

# paper, figure 7
MODULE_E = (
    (layer("branch1x1", 320),),
    (layer("branch3x3_1", 384), (layer("branch3x3_2a", 384, 1, 3), layer("branch3x3_2b", 384, 3, 1))),
    (
        layer("branch3x3dbl_1", 448),
        layer("branch3x3dbl_2", 384, 3, 3),
        (layer("branch3x3dbl_3a", 384, 1, 3), layer("branch3x3dbl_3b", 384, 3, 1)),
    ),
    (AVERAGE, layer("branch_pool", 192)),
)

# modules at 35x35, 17x17 and 8x8, with torchvision's and Slim's names; their widths are Slim's
MODULES_A = (("Mixed_5b.", module_a(32)), ("Mixed_5c.", module_a(64)), ("Mixed_5d.", module_a(64)))
MODULES_C = (
    ("Mixed_6b.", module_c(128)),
    ("Mixed_6c.", module_c(160)),
    ("Mixed_6d.", module_c(160)),
    ("Mixed_6e.", module_c(192)),
)
MODULES_E = (("Mixed_7b.", MODULE_E), ("Mixed_7c.", MODULE_E))

SMALLEST = 75  # pixels, of which the last modules see one


class InceptionV3(PictureClassifier):
    name = "inception_v3"
    source = "arXiv 1512.00567; TF-Slim's inception_v3"
    SIZES = {
        "full": {"image_size": 299, "classes": 1000, "width": 1.0, "blocks": "3,4,2", "dropout": 0.5},
        "small": {"image_size": 75, "classes": 10, "width": 0.0625, "blocks": "1,1,1", "dropout": 0.0},
    }
    OPTIONS = {
        "image_size": Option(int, SMALLEST),
        "classes": Option(int, 1),
        "width": Option(float, 0.01),
        "blocks": Option(str),
        "dropout": Option(float, 0.0, 0.99),
    }

    # Batch norm: y = (x - mean) / sqrt(variance + epsilon) * weight + bias with the batch's biased variance;
    # running = (1 - momentum) * running + momentum * batch statistic, the variance there being the unbiased one.
    # 1e-3 is Slim's and torchvision's; 0.1 is torchvision's (Slim's 0.0003 is for training by 50 machines at once).
    batch_norm_epsilon = 1e-3
    batch_norm_momentum = 0.1

    label_smoothing = 0.1
    auxiliary_weight = 0.4

    def check(self, batch_size):
        if not re.match(r"[1-3],[1-4],[1-2]\Z", self.options["blocks"]):
            allowed = "three whole numbers with commas between them, up to 3,4,2"
            raise ValueError("model.blocks=%s must be %s" % (self.options["blocks"], allowed))
        smallest = min(convolution.size for convolution in self.convolutions)
        if batch_size * smallest * smallest < 2:
            raise ValueError(
                "batch_size=%d at model.image_size=%d leaves batch norm one value a channel: it has no variance; at "
                "least two are needed" % (batch_size, self.options["image_size"])
            )

    @property
    def blocks(self):
        """How many modules of kind A, C and E there are: the first ones of MODULES_A, _C and _E."""
        return [int(count) for count in self.options["blocks"].split(",")]

    @property
    def stem(self):
        """The layers before the modules, each a Convolution or MAX."""
        return self.laid(STEM, "", 3, self.options["image_size"])

    @property
    def trunk(self):
        """The Modules up to where the auxiliary head reads."""
        of_a, of_c, _ = self.blocks
        tables = MODULES_A[:of_a] + (("Mixed_6a.", MODULE_B),) + MODULES_C[:of_c]
        return self.modules(tables, *after(self.stem, 3, self.options["image_size"]))

    @property
    def top(self):
        """The Modules from there on."""
        tables = (("Mixed_7a.", MODULE_D),) + MODULES_E[: self.blocks[2]]
        return self.modules(tables, self.trunk[-1].channels, self.trunk[-1].size)

    @property
    def auxiliary(self):
        """(kernel of the auxiliary head's average pooling, its two Convolutions)."""
        size = self.trunk[-1].size
        pool = min(5, size)
        size = (size - pool) // 3 + 1
        kernel = min(5, size)
        layers = layer("conv0", 128), layer("conv1", 768, kernel, kernel, padded=False)
        first, second = self.laid(layers, "AuxLogits.", self.trunk[-1].channels, size)
        return pool, (first, second._replace(deviation=0.01))  # Slim's trunc_normal(0.01)

    def modules(self, tables, channels, size):
        """The Modules of `tables`, (prefix of the names, branches), one after another."""
        found = []
        for prefix, branches in tables:
            laid = tuple(self.laid(branch, prefix, channels, size) for branch in branches)
            shapes = [after(branch, channels, size) for branch in laid]
            channels, size = sum(given for given, _ in shapes), shapes[0][1]
            found.append(Module(laid, channels, size))
        return tuple(found)

    def laid(self, layers, prefix, channels, size):
        """The layers one after another over an input of so many channels and that height and width."""
        found = []
        for one in layers:
            if isinstance(one, Layer):
                found.append(self.convolution(one, prefix, channels, size))
            elif isinstance(one, tuple):
                found.append(tuple(self.convolution(beside, prefix, channels, size) for beside in one))
            else:
                found.append(one)
            channels, size = after(found[-1:], channels, size)
        return tuple(found)

    def convolution(self, layer, prefix, channels, size):
        rows, columns = layer.kernel
        out = max(1, int(layer.out * self.options["width"]))
        padding = (rows // 2, columns // 2) if layer.padded else (0, 0)
        if not layer.padded:
            size = (size - rows) // layer.stride + 1
        # Slim's variance_scaling_initializer: variance 2 / fan-in, as He et al., arXiv 1502.01852, equation 10
        deviation = math.sqrt(2.0 / (rows * columns * channels))
        return Convolution(prefix + layer.name, channels, out, layer.kernel, layer.stride, padding, size, deviation)

    @property
    def convolutions(self):
        """Every Convolution, in order."""
        branches = [[module.branches for module in modules] for modules in (self.trunk, self.top)]
        return list(flat((self.stem, branches[0], self.auxiliary[1], branches[1])))

    @property
    def batch_norms(self):
        """{name of a batch norm: how many values of a channel it sees in each row of the batch}."""
        return collections.OrderedDict((c.name + ".bn", c.size * c.size) for c in self.convolutions)

    @property
    def features(self):
        """Channels that the last module gives to fc."""
        return self.top[-1].channels

    @property
    def parameters(self):
        found = []
        for one in self.convolutions:
            shape = (one.out, one.channels) + one.kernel
            found.append(parameter(one.name + ".conv.weight", shape, "conv", ("normal", one.deviation)))
            norm = one.name + ".bn."
            found.append(parameter(norm + "weight", (one.out,), "vector", ("constant", 1.0)))
            found.append(parameter(norm + "bias", (one.out,), "vector", ("constant", 0.0)))
            found.append(parameter(norm + "running_mean", (one.out,), "vector", ("constant", 0.0), role="statistic"))
            found.append(parameter(norm + "running_var", (one.out,), "vector", ("constant", 1.0), role="statistic"))
        classes, of_auxiliary = self.options["classes"], self.auxiliary[1][-1].out
        # Slim: trunc_normal(0.001) here, variance scaling there
        found.append(parameter("AuxLogits.fc.weight", (classes, of_auxiliary), "dense", ("normal", 0.001)))
        found.append(parameter("AuxLogits.fc.bias", (classes,), "vector", ("constant", 0.0)))
        deviation = math.sqrt(2.0 / self.features)
        found.append(parameter("fc.weight", (classes, self.features), "dense", ("normal", deviation)))
        found.append(parameter("fc.bias", (classes,), "vector", ("constant", 0.0)))
        return found

    def optimizer(self, batch_size):
        # Paper, section 8: RMSProp with decay 0.9 and epsilon 1, learning rate 0.045, gradients clipped at 2. It has a
        # factor of 0.94 on the rate every two epochs, which begins after more steps than a benchmark makes.
        return rmsprop(learning_rate=0.045, alpha=0.9, epsilon=1.0, clip_norm=2.0)

    def macs(self, arrays):
        """Of both heads: training computes the auxiliary one too."""
        return len(arrays["labels"]) * self.macs_of(self.convolutions, self.features + self.auxiliary[1][-1].out)

    def macs_of(self, convolutions, features):
        """Multiply-accumulates for one picture of these convolutions, and of heads with so many features."""
        return sum(macs_of(one) for one in convolutions) + features * self.options["classes"]

    def flops(self, arrays):
        # forward, gradient by the weights and gradient by the input are one product each; the first convolution
        # needs no gradient by its input (the images)
        return 2 * (3 * self.macs(arrays) - len(arrays["labels"]) * macs_of(self.convolutions[0]))


def macs_of(convolution):
    rows, columns = convolution.kernel
    return convolution.channels * convolution.out * rows * columns * convolution.size * convolution.size


def flat(layers):
    """The Convolutions among layers, however nested, in order."""
    if isinstance(layers, Convolution):
        yield layers
    elif isinstance(layers, (tuple, list)):
        for one in layers:
            for convolution in flat(one):
                yield convolution


def after(layers, channels, size):
    """(channels, height = width) of what the layers, one after another, give of such an input."""
    for one in layers:
        if one == MAX:
            size = (size - 3) // 2 + 1
        elif isinstance(one, Convolution):
            channels, size = one.out, one.size
        elif isinstance(one, tuple):
            channels = sum(beside.out for beside in one)
    return channels, size


SPECIFICATION = InceptionV3
