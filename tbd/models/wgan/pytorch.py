"""WGAN in PyTorch: the parameters are named as in the specification. See specification.py for the definition."""

import torch
from torch import nn
from torch.nn import functional

from tbd.frameworks.pytorch.training import product_type
from tbd.models.wgan.specification import START


class Network(nn.Module):
    """Gives the loss of an update. PyTorch's layouts, channels first, are the canonical ones."""

    host_inputs = ()  # the inputs that the network wants in the host's memory

    def __init__(self, specification):
        super().__init__()
        self.penalty = specification.penalty
        self.generator = Generator(specification)
        self.critic = Critic(specification)

    def canonical(self):
        """{canonical name: tensor}."""
        return dict(self.named_parameters())

    def forward(self, inputs, update):
        fake = self.generator(inputs["noise"])
        if update == "generator":
            return -self.critic(fake).mean()
        # (batch, height, width, channels) read as (batch, channels, height, width) is channels_last as it lies
        real = inputs["images"].permute(0, 3, 1, 2).to(inputs["noise"].dtype) / 127.5 - 1
        # layer norm knows no other picture of its batch: both kinds can be in one
        fake_scores, real_scores = self.critic(torch.cat([fake, real])).chunk(2)
        loss = fake_scores.mean() - real_scores.mean()
        if "mixture" not in inputs:
            return loss
        mix = torch.lerp(real, fake.to(real.dtype), inputs["mixture"][:, None, None, None]).requires_grad_()
        # through a view, since torch's own counter of operations refuses a leaf as the input of a module here
        scores = self.critic(mix.view_as(mix))
        (gradients,) = torch.autograd.grad(scores.sum(), mix, create_graph=True)
        return loss + self.penalty * (slopes(gradients) - 1).square().mean()


def slopes(gradients):
    """The norm of each picture's gradient."""
    return torch.linalg.vector_norm(gradients, dim=tuple(range(1, gradients.dim())))


class Generator(nn.Module):
    def __init__(self, specification):
        super().__init__()
        channels = specification.channels
        self.input = nn.Linear(specification.options["noise"], channels[-1] * START**2)
        self.blocks = nn.Sequential(
            *(Up(specification, before, after) for before, after, _ in specification.generator_blocks)
        )
        self.norm = batch_norm(specification, channels[0])
        self.output = nn.Conv2d(channels[0], 3, 3, padding=1)

    def forward(self, noise):
        x = self.input(noise).unflatten(1, (-1, START, START)).contiguous(memory_format=torch.channels_last)
        x = functional.relu_(self.norm(self.blocks(x)))
        return self.output(x).tanh()


class Up(nn.Module):
    """A block of the generator."""

    def __init__(self, specification, channels, out):
        super().__init__()
        self.norm1 = batch_norm(specification, channels)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1, bias=False)
        self.norm2 = batch_norm(specification, out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.shortcut = nn.Conv2d(channels, out, 1)

    def forward(self, x):
        y = self.conv1(up(functional.relu_(self.norm1(x))))
        y = self.conv2(functional.relu_(self.norm2(y)))
        return y + up(self.shortcut(x))


class Critic(nn.Module):
    def __init__(self, specification):
        super().__init__()
        channels = specification.channels
        self.input = Convolution(3, channels[0], 3)
        self.blocks = nn.Sequential(
            *(Down(specification, before, after) for before, after, _ in specification.critic_blocks)
        )
        self.output = nn.Linear(channels[-1] * START**2, 1)

    def forward(self, pictures):
        return self.output(self.blocks(self.input(pictures)).flatten(1))


class Down(nn.Module):
    """A block of the critic."""

    def __init__(self, specification, channels, out):
        super().__init__()
        self.norm1 = layer_norm(specification, channels)
        self.conv1 = Convolution(channels, channels, 3, bias=False)
        self.norm2 = layer_norm(specification, channels)
        self.conv2 = Convolution(channels, out, 3)
        self.shortcut = Convolution(channels, out, 1)

    def forward(self, x):
        y = self.conv1(functional.relu_(self.norm1(x)))
        y = self.conv2(functional.relu_(self.norm2(y)))
        return down(y) + self.shortcut(down(x))


def up(x):
    return functional.interpolate(x, scale_factor=2, mode="nearest")


class Convolution(nn.Conv2d):
    """A convolution whose gradient by its input is a transposed convolution, which has an ordinary gradient itself.

    PyTorch's own gradient of second order by the weight is a convolution with kernels of the size of the pictures.
    """

    def __init__(self, channels, out, kernel, bias=True):
        super().__init__(channels, out, kernel, padding=kernel // 2, bias=bias)

    def forward(self, x):
        dtype = product_type(x)
        bias = None if self.bias is None else self.bias.to(dtype)
        return Convolved.apply(x.to(dtype), self.weight.to(dtype), bias)


class Convolved(torch.autograd.Function):
    @staticmethod
    def forward(context, x, weight, bias):
        context.save_for_backward(x, weight)
        return functional.conv2d(x, weight, bias, padding=weight.shape[-1] // 2)

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        edge = weight.shape[-1] // 2
        if torch.is_grad_enabled():  # a gradient that is differentiated itself: only that by the pictures is
            return functional.conv_transpose2d(gradient, weight, padding=edge), None, None
        return torch.ops.aten.convolution_backward(
            gradient,
            x,
            weight,
            [len(weight)],
            stride=[1, 1],
            padding=[edge, edge],
            dilation=[1, 1],
            transposed=False,
            output_padding=[0, 0],
            groups=1,
            output_mask=context.needs_input_grad,
        )


class Mean(torch.autograd.Function):
    """The mean of each 2x2 pixels.

    PyTorch's own gradient of it keeps the pixels, and sends them zeros in the second order, which are then propagated.
    """

    @staticmethod
    def forward(context, x):
        return functional.avg_pool2d(x, 2)

    @staticmethod
    def backward(context, gradient):
        return up(gradient / 4)


down = Mean.apply


def batch_norm(specification, channels):
    return nn.BatchNorm2d(channels, eps=specification.batch_norm_epsilon, track_running_stats=False)


def layer_norm(specification, channels):
    """Over channels, height and width, which is group norm with one group."""
    return nn.GroupNorm(1, channels, eps=specification.layer_norm_epsilon)


NETWORK = Network
