"""WGAN-GP by hand on nn.Conv2d, nn.BatchNorm2d and nn.GroupNorm: the residual networks of gan_64x64.py.

Five critic's updates with a penalty by torch.autograd.grad to each of the generator's.
"""

import torch
from torch import nn

from peers.pytorch import loop

SOURCE = "by hand, torch.nn, after improved_wgan_training"


class Block(nn.Module):
    """norm, relu, convolution, twice, beside a shortcut; `scaling` is an upsampling before or a pooling after."""

    def __init__(self, norm, channels, out, upsample):
        super().__init__()
        self.scaling = nn.Upsample(scale_factor=2) if upsample else nn.AvgPool2d(2)
        between = out if upsample else channels
        before, after = (self.scaling, nn.Identity()) if upsample else (nn.Identity(), self.scaling)
        self.body = nn.Sequential(
            norm(channels), nn.ReLU(inplace=True), before, nn.Conv2d(channels, between, 3, padding=1, bias=False),
            norm(between), nn.ReLU(inplace=True), nn.Conv2d(between, out, 3, padding=1), after,
        )  # fmt: skip
        self.shortcut = nn.Conv2d(channels, out, 1)
        self.upsample = upsample

    def forward(self, x):
        beside = self.scaling(self.shortcut(x)) if self.upsample else self.shortcut(self.scaling(x))
        return self.body(x) + beside


def layer_norm(channels):
    return nn.GroupNorm(1, channels)


def batch_norm(channels):
    return nn.BatchNorm2d(channels, track_running_stats=False)


def networks(options):
    """(generator, critic)."""
    halvings = (options["image_size"] // 4).bit_length() - 1
    channels = [options["width"] * min(2**n, 8) for n in range(halvings + 1)]
    up = channels[::-1]
    generator = nn.Sequential(
        nn.Linear(options["noise"], up[0] * 16), nn.Unflatten(1, (up[0], 4, 4)),
        *(Block(batch_norm, a, b, True) for a, b in zip(up, up[1:], strict=False)),
        batch_norm(up[-1]), nn.ReLU(inplace=True), nn.Conv2d(up[-1], 3, 3, padding=1), nn.Tanh(),
    )  # fmt: skip
    critic = nn.Sequential(
        nn.Conv2d(3, channels[0], 3, padding=1),
        *(Block(layer_norm, a, b, False) for a, b in zip(channels, channels[1:], strict=False)),
        nn.Flatten(), nn.Linear(channels[-1] * 16, 1),
    )  # fmt: skip
    return generator, critic


def build(options, batch_size, device, precision, compile):
    if options["lipschitz"] != "gradient_penalty" or compile != "eager":
        raise ValueError("only with a gradient penalty, which torch.compile can't differentiate twice")
    where, autocast = loop.set_up(device, precision)
    generator, critic = (n.to(where, memory_format=torch.channels_last) for n in networks(options))
    optimizers = [torch.optim.Adam(n.parameters(), 1e-4, (0.0, 0.9), fused=True) for n in (generator, critic)]

    def penalty(real, fake, mixture):
        mix = torch.lerp(real, fake, mixture[:, None, None, None]).requires_grad_()
        (gradients,) = torch.autograd.grad(critic(mix).sum(), mix, create_graph=True)
        return 10 * (gradients.flatten(1).norm(dim=1) - 1).square().mean()

    def move(loss, optimizer):
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def step(arrays):
        inputs = {name: torch.from_numpy(array).to(where, non_blocking=True) for name, array in arrays.items()}
        critic.requires_grad_(False)
        with autocast:
            loss = -critic(generator(inputs["generator_noise"])).mean()
        move(loss, optimizers[0])
        critic.requires_grad_(True)
        for n in range(inputs["images"].shape[1]):
            real = inputs["images"][:, n].permute(0, 3, 1, 2) / 127.5 - 1
            with autocast:
                with torch.no_grad():
                    fake = generator(inputs["noise"][:, n]).to(real.dtype)
                loss = critic(fake).mean() - critic(real).mean() + penalty(real, fake, inputs["mixture"][:, n])
            move(loss, optimizers[1])

    return step, lambda: loop.wait(where)
