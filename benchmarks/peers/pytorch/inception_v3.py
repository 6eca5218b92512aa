"""torchvision's Inception v3 with its auxiliary head, channels last, with the optimizer and the bound of the paper.

Its average pools divide by 9 at the border too: the same work.
"""

import torch
from torch.nn import functional

from peers.pytorch import loop, vision

SOURCE = "torchvision.models.inception_v3"


def build(options, batch_size, device, precision, compile):
    if (options["width"], options["blocks"]) != (1.0, "3,4,2") or options["image_size"] < 299:
        raise ValueError(
            "torchvision's inception_v3 has the full size alone, and its auxiliary head 299 pixels or more"
        )
    network = vision.models().inception_v3(
        num_classes=options["classes"], init_weights=False, dropout=options["dropout"], transform_input=False
    )

    def loss(network, inputs):
        outputs, labels = network(inputs["images"].permute(0, 3, 1, 2)), inputs["labels"].long()
        losses = [functional.cross_entropy(one, labels, label_smoothing=0.1) for one in outputs]
        return losses[0] + 0.4 * losses[1]

    def optimizer(parameters):
        return torch.optim.RMSprop(parameters, 0.045, alpha=0.9, eps=1.0)

    return loop.build(network, loss, optimizer, device, precision, compile, clip_norm=2.0)
