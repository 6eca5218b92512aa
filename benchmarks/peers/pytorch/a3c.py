"""A3C's actor-critic by hand: the DQN network of 1312.5602 as nn.Sequential, one loss over all steps of the batch."""

import torch
from torch import nn
from torch.nn import functional

from peers.pytorch import loop

SOURCE = "by hand, torch.nn"


class ActorCritic(nn.Module):
    def __init__(self, options):
        super().__init__()
        width, size = options["width"], (options["image_size"] - 8) // 4 + 1
        size = (size - 4) // 2 + 1
        self.body = nn.Sequential(
            nn.Conv2d(4, width, 8, 4), nn.ReLU(inplace=True),
            nn.Conv2d(width, 2 * width, 4, 2), nn.ReLU(inplace=True), nn.Flatten(),
            nn.Linear(2 * width * size * size, 16 * width), nn.ReLU(inplace=True),
        )  # fmt: skip
        self.policy = nn.Linear(16 * width, options["actions"])
        self.value = nn.Linear(16 * width, 1)

    def forward(self, frames):
        x = self.body(frames.flatten(0, 1).permute(0, 3, 1, 2) / 255.0)
        return self.policy(x), self.value(x)[:, 0]


def build(options, batch_size, device, precision, compile):
    def loss(network, inputs):
        logits, values = network(inputs["frames"])
        error = inputs["returns"].flatten() - values
        likelihoods = functional.log_softmax(logits.float(), 1)
        chosen = likelihoods.gather(1, inputs["actions"].flatten().long()[:, None])[:, 0]
        entropy = -(likelihoods.exp() * likelihoods).sum(1)
        return (0.5 * error.square() - chosen * error.detach() - 0.01 * entropy).sum() / len(inputs["actions"])

    def optimizer(parameters):
        return torch.optim.RMSprop(parameters, 2.5e-4, alpha=0.99, eps=0.1**0.5, foreach=True)

    return loop.build(ActorCritic(options), loss, optimizer, device, precision, compile, clip_norm=40.0)
