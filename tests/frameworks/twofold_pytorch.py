"""twofold.py's network in PyTorch."""

import torch
from torch import nn

from tests.frameworks.twofold import SIZE


class Network(nn.Module):
    host_inputs = ()

    def __init__(self, specification):
        super().__init__()
        for name in ("first", "second", "scale"):
            self.register_parameter(name, nn.Parameter(torch.empty(SIZE)))
        self.register_buffer("seen", torch.empty(SIZE))

    def canonical(self):
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def forward(self, inputs, update):
        if update == "second":
            return (self.first * self.second * inputs["z"]).square().mean()
        with torch.no_grad():
            self.seen += inputs["x"].mean(0)
        return (self.scale * (self.first * inputs["x"] + self.second) - inputs["y"]).square().mean()


NETWORK = Network
