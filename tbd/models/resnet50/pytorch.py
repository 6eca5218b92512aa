"""ResNet-50 v1.5 in PyTorch: the parameters are named as in the specification."""

from torch import nn
from torch.nn import functional

from tbd.models.resnet50.specification import EXPANSION


class Network(nn.Module):
    """Gives the loss of a batch. PyTorch's own convolution layout, (out, in, height, width), is the canonical one."""

    host_inputs = ()  # the inputs that the network wants in the host's memory

    def __init__(self, specification):
        super().__init__()
        options = specification.options
        width = options["width"]
        self.conv1 = convolution(3, width, 7, stride=2)
        self.bn1 = batch_norm(specification, width)
        channels = width
        self.stages = []
        for stage, count in enumerate(specification.blocks):
            blocks = nn.Sequential()
            for block in range(count):
                stride = 2 if block == 0 and stage > 0 else 1
                blocks.append(Bottleneck(specification, channels, width * 2**stage, stride, first=block == 0))
                channels = width * 2**stage * EXPANSION
            name = "layer%d" % (stage + 1)
            self.add_module(name, blocks)
            self.stages.append(name)
        self.fc = nn.Linear(channels, options["classes"])

    def canonical(self):
        """{canonical name: tensor}."""
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def forward(self, arrays, update):
        # (batch, height, width, channels) read as (batch, channels, height, width) is channels_last as it lies
        x = arrays["images"].permute(0, 3, 1, 2)
        x = functional.relu_(self.bn1(self.conv1(x)))
        x = functional.max_pool2d(x, kernel_size=3, stride=2, padding=1)
        for name in self.stages:
            x = getattr(self, name)(x)
        return functional.cross_entropy(self.fc(x.mean((2, 3))), arrays["labels"].long())


class Bottleneck(nn.Module):
    def __init__(self, specification, channels, middle, stride, first):
        super().__init__()
        out = middle * EXPANSION
        self.conv1 = convolution(channels, middle, 1)
        self.bn1 = batch_norm(specification, middle)
        self.conv2 = convolution(middle, middle, 3, stride)
        self.bn2 = batch_norm(specification, middle)
        self.conv3 = convolution(middle, out, 1)
        self.bn3 = batch_norm(specification, out)
        if first:
            self.downsample = nn.Sequential(convolution(channels, out, 1, stride), batch_norm(specification, out))
        else:
            self.downsample = nn.Identity()

    def forward(self, x):
        y = functional.relu_(self.bn1(self.conv1(x)))
        y = functional.relu_(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += self.downsample(x)
        return functional.relu_(y)


def convolution(channels, out, kernel, stride=1):
    return nn.Conv2d(channels, out, kernel, stride, padding=kernel // 2, bias=False)


def batch_norm(specification, channels):
    norm = nn.BatchNorm2d(channels, eps=specification.batch_norm_epsilon, momentum=specification.batch_norm_momentum)
    norm.num_batches_tracked = None  # a counter that only momentum=None needs, and one more operator a layer
    return norm


NETWORK = Network
