"""Inception v3 in PyTorch, channels last. See specification.py for the definition."""

import torch
from torch import nn
from torch.nn import functional

from tbd.models.inception_v3.specification import AVERAGE, MAX, Convolution


class Network(nn.Module):
    """Gives the loss of a batch. PyTorch's own convolution layout, (out, in, height, width), is the canonical one."""

    host_inputs = ()  # the inputs that the network wants in the host's memory

    def __init__(self, specification):
        super().__init__()
        self.specification = specification
        self.units = {convolution.name: Unit(specification, convolution) for convolution in specification.convolutions}
        for name, unit in self.units.items():
            self.add_module(name.replace(".", "_"), unit)
        self.pool, self.auxiliary = specification.auxiliary
        self.stem, self.trunk, self.top = specification.stem, specification.trunk, specification.top
        classes = specification.options["classes"]
        self.fc = nn.Linear(specification.features, classes)
        self.auxiliary_fc = nn.Linear(self.auxiliary[-1].out, classes)

    def canonical(self):
        """{canonical name: tensor}."""
        named = {"fc": self.fc, "AuxLogits.fc": self.auxiliary_fc, **self.units}
        return {
            f"{name}.{key}": tensor
            for name, module in named.items()
            for key, tensor in (*module.named_parameters(), *module.named_buffers())
        }

    def forward(self, arrays, update):
        # (batch, height, width, channels) read as (batch, channels, height, width) is channels_last as it lies
        x = self.through(self.stem, arrays["images"].permute(0, 3, 1, 2))
        x = self.modules_of(self.trunk, x)
        auxiliary = self.through(self.auxiliary, functional.avg_pool2d(x, self.pool, 3))
        x = self.modules_of(self.top, x).mean((2, 3))
        x = functional.dropout(x, self.specification.options["dropout"])
        labels = arrays["labels"].long()
        loss = self.loss(self.fc(x), labels)
        return loss + self.specification.auxiliary_weight * self.loss(self.auxiliary_fc(auxiliary.mean((2, 3))), labels)

    def loss(self, logits, labels):
        return functional.cross_entropy(logits, labels, label_smoothing=self.specification.label_smoothing)

    def modules_of(self, modules, x):
        for module in modules:
            x = torch.cat([self.through(branch, x) for branch in module.branches], 1)
        return x

    def through(self, layers, x):
        for layer in layers:
            if layer == MAX:
                x = functional.max_pool2d(x, 3, 2)
            elif layer == AVERAGE:
                x = functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
            elif isinstance(layer, Convolution):
                x = self.units[layer.name](x)
            else:
                x = torch.cat([self.units[beside.name](x) for beside in layer], 1)
        return x


class Unit(nn.Module):
    """A convolution, its batch norm and ReLU."""

    def __init__(self, specification, convolution):
        super().__init__()
        c = convolution
        self.conv = nn.Conv2d(c.channels, c.out, c.kernel, c.stride, c.padding, bias=False)
        self.bn = nn.BatchNorm2d(c.out, specification.batch_norm_epsilon, specification.batch_norm_momentum)
        self.bn.num_batches_tracked = None  # a counter that only momentum=None needs, and one more operator a layer

    def forward(self, x):
        return functional.relu_(self.bn(self.conv(x)))


NETWORK = Network
