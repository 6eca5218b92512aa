"""torchvision's ResNet-50, which is v1.5 as ours, channels last, with the optimizer of its training reference."""

import torch
from torch.nn import functional

from peers.pytorch import loop, vision

SOURCE = "torchvision.models.resnet50"


def build(options, batch_size, device, precision, compile):
    if (options["width"], options["blocks"]) != (64, "3,4,6,3"):
        raise ValueError("torchvision's resnet50 has the full size alone")
    network = vision.models().resnet50(num_classes=options["classes"])

    def loss(network, inputs):
        return functional.cross_entropy(network(inputs["images"].permute(0, 3, 1, 2)), inputs["labels"].long())

    def optimizer(parameters):
        return torch.optim.SGD(parameters, 0.1 * batch_size / 256, momentum=0.9, weight_decay=1e-4, fused=True)

    return loop.build(network, loss, optimizer, device, precision, compile)
