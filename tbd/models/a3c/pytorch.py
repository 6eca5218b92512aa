"""A3C's actor-critic in PyTorch: the parameters are named as in the specification."""

from torch import nn
from torch.nn import functional


class Network(nn.Module):
    """Gives the loss of a batch, and what actors need of the frames that they see."""

    host_inputs = ()

    def __init__(self, specification):
        super().__init__()
        self.specification = specification
        for name, channels, out, kernel, stride, _ in specification.convolutions:
            self.add_module(name, nn.Conv2d(channels, out, kernel, stride))
        for name, features, out in specification.dense:
            self.add_module(name, nn.Linear(features, out))

    def canonical(self):
        return dict(self.named_parameters())

    def forward(self, inputs, update):
        logits, values = self.heads(inputs["frames"].flatten(0, 1))
        actions, returns = inputs["actions"].flatten(), inputs["returns"].flatten()
        error = returns - values
        log_policy = functional.log_softmax(logits, 1)
        chosen = log_policy.gather(1, actions.long()[:, None])[:, 0]
        entropy = -(log_policy.exp() * log_policy).sum(1)
        s = self.specification
        loss = s.value_coefficient * error.square() - chosen * constant(error) - s.entropy_coefficient * entropy
        return loss.sum() / len(inputs["actions"])

    def outputs(self, inputs):
        """policy: logits (n, actions), value: (n,), of frames (n, size, size, 4)."""
        logits, values = self.heads(inputs["frames"])
        return {"policy": logits, "value": values}

    def heads(self, frames):
        """(logits, values) of frames as bytes."""
        x = frames.to(self.conv1.weight.dtype).mul_(self.specification.frame_scale)
        x = functional.relu_(self.conv1(x.permute(0, 3, 1, 2)))  # channels_last as it lies
        x = functional.relu_(self.conv2(x))
        # height, width, channels: as channels_last has them
        x = functional.relu_(self.hidden(x.permute(0, 2, 3, 1).flatten(1)))
        return self.policy(x), self.value(x)[:, 0]


def constant(x):
    """What the gradient does not go through."""
    return x.detach()


NETWORK = Network
