"""Faster R-CNN in PyTorch, channels last. The arrays are named as in the specification, which defines it all."""

import torch
from torch import nn
from torch.nn import functional

from tbd.frameworks.pytorch import boxes
from tbd.models.faster_rcnn import anchors
from tbd.models.faster_rcnn.specification import EXPANSION


class Network(nn.Module):
    """Gives the loss of a batch. PyTorch's own convolution layout, (out, in, height, width), is the canonical one."""

    host_inputs = ()  # the inputs that the network wants in the host's memory

    def __init__(self, specification):
        super().__init__()
        self.specification, self.options = specification, specification.options
        self.conv1 = nn.Conv2d(3, self.options["width"], 7, stride=2, padding=3, bias=False)
        self.bn1 = FrozenNorm(self.options["width"])
        for stage in (1, 2, 3, 4):
            first = [layer for layer in specification.stage(stage) if layer.name.endswith("conv1")]
            blocks = [
                Bottleneck(layer.channels, layer.out, 2 if stage > 1 and n == 0 else 1, n == 0)
                for n, layer in enumerate(first)
            ]
            self.add_module(f"layer{stage}", nn.Sequential(*blocks))
        self.rpn, self.head = nn.Module(), nn.Module()
        width, places, classes = (
            self.options["rpn_width"],
            specification.anchors_of_a_place,
            self.options["classes"] + 1,
        )
        self.rpn.conv = nn.Conv2d(specification.features(3), width, 3, padding=1)
        self.rpn.score = nn.Conv2d(width, 2 * places, 1)
        self.rpn.delta = nn.Conv2d(width, 4 * places, 1)
        self.head.score = nn.Linear(specification.features(4), classes)
        self.head.delta = nn.Linear(specification.features(4), 4 * classes)
        self.norms = [module for module in self.modules() if isinstance(module, FrozenNorm)]
        self.constants = {}  # {name: tensor on the device}: made once, for each copy to a GPU waits for it

    def canonical(self):
        """{canonical name: tensor}."""
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}

    def forward(self, arrays, update):
        freeze(self.norms, self.specification.batch_norm_epsilon)
        # (batch, height, width, channels) read as (batch, channels, height, width) is channels_last as it lies
        x = functional.relu_(self.bn1(self.conv1(arrays["images"].permute(0, 3, 1, 2))))
        x = functional.max_pool2d(x, kernel_size=3, stride=2, padding=1)
        features = self.layer3(self.layer2(self.layer1(x)))

        t = functional.relu_(self.rpn.conv(features))
        scores, deltas = (
            rows(convolution(t), size) for convolution, size in ((self.rpn.score, 2), (self.rpn.delta, 4))
        )
        margins = scores[..., 1] - scores[..., 0]
        with torch.no_grad():
            regions, labels, targets, sampled = self.regions(margins, deltas, features.shape[2:], arrays)

        pooled = boxes.roi_align(
            features, regions, self.options["pooled"], anchors.STRIDE, self.specification.bin_offset
        )
        x = self.layer4(pooled).mean((2, 3))
        return self.proposal_loss(margins, deltas, arrays) + self.head_loss(x, labels, targets, sampled)

    def proposal_loss(self, margins, deltas, arrays):
        labels = arrays["anchor_labels"]
        weights = share(labels >= 0, margins.dtype)
        # of two classes, the cross-entropy of softmax is that of the sigmoid of their margin
        wrong = functional.binary_cross_entropy_with_logits(margins, (labels == 1).to(margins.dtype), reduction="none")
        missed = smooth_l1(deltas, arrays["anchor_targets"], self.specification.rpn_sigma)
        return (wrong * weights).sum() + (missed * (weights * (labels == 1))).sum()

    def head_loss(self, x, labels, targets, sampled):
        labels, targets = labels.flatten(), targets.flatten(0, 1)
        weights = share(sampled, targets.dtype).flatten()
        wrong = functional.cross_entropy(at_least_float32(self.head.score(x)), labels, reduction="none")
        deltas = at_least_float32(self.head.delta(x)).view(len(labels), -1, 4)
        deltas = deltas.gather(1, labels.view(-1, 1, 1).expand(-1, 1, 4)).squeeze(1)
        missed = smooth_l1(deltas, targets, self.specification.head_sigma)
        return (wrong * weights).sum() + (missed * (weights * (labels > 0))).sum()

    def regions(self, margins, deltas, size, arrays):
        """The sampled regions of all pictures: boxes, labels, targets, and whether a row is one (batch, regions)."""
        grid = self.constant(size, lambda: anchors.anchor_grid(*size, self.specification.scales), margins)
        everywhere = boxes.decode(grid, deltas, self.specification.largest_growth)
        found = []
        for n in range(len(margins)):
            proposals, real = self.proposals(margins[n], everywhere[n], grid, arrays["sizes"][n], arrays["scales"][n])
            real_boxes, classes = arrays["boxes"][n].to(margins.dtype), arrays["classes"][n].long()
            candidates = torch.cat([proposals, real_boxes])
            real = torch.cat([real, classes > 0])
            found.append(self.sample(candidates, real, real_boxes, classes, arrays["region_order"][n].long()))
        return [torch.stack(column) for column in zip(*found, strict=True)]

    def constant(self, name, values, like):
        """The array values() on the device of `like` and in its type."""
        if name not in self.constants:
            self.constants[name] = torch.as_tensor(values(), dtype=like.dtype, device=like.device)
        return self.constants[name]

    def proposals(self, margins, found, grid, size, scale):
        """A picture's proposals (proposals, 4), and whether a row is one."""
        height, width = size
        bounds = torch.stack([width, height, width, height])
        found = torch.minimum(found.clamp(min=0), bounds)
        sides = found[:, 2:] - found[:, :2]
        corner = (grid[:, :2] + grid[:, 2:] - anchors.STRIDE) / 2
        usable = (corner < bounds[:2]).all(1) & (sides >= self.options["smallest"] * scale).all(1)
        margins, order = torch.where(usable, margins, -torch.inf).sort(descending=True, stable=True)
        order = order[: self.options["before_nms"]]
        count = (margins[: len(order)] > -torch.inf).sum()
        kept, count = boxes.suppress(found[order], count, self.specification.nms_threshold, self.options["proposals"])
        return found[order][kept], torch.arange(len(kept), device=kept.device) < count

    def sample(self, candidates, real, real_boxes, classes, order):
        """The sampled regions of a picture: boxes, labels, targets, and whether a row is one."""
        most, best = boxes.overlaps(candidates, real_boxes).max(1)
        objects = real & (most >= self.specification.object_overlap)
        total = self.options["regions"]
        chosen = first(objects[order], int(total * self.specification.object_share))
        taken = chosen | first((real & ~objects)[order], total - chosen.sum())
        turns = torch.arange(len(order), device=order.device)
        places = torch.where(taken, turns, turns + len(order)).topk(total, largest=False).indices
        rows, sampled = order[places], taken[places]
        is_object = objects[rows] & sampled
        regions, wanted = candidates[rows], best[rows]
        targets = boxes.encode(regions, real_boxes[wanted])
        targets = targets / self.constant("deviations", lambda: self.specification.deviations, regions)
        return (
            regions,
            torch.where(is_object, classes[wanted], 0),
            torch.where(is_object[:, None], targets, 0),
            sampled,
        )


class Bottleneck(nn.Module):
    def __init__(self, channels, middle, stride, first):
        super().__init__()
        out = middle * EXPANSION
        self.conv1 = nn.Conv2d(channels, middle, 1, bias=False)
        self.bn1 = FrozenNorm(middle)
        self.conv2 = nn.Conv2d(middle, middle, 3, stride, padding=1, bias=False)
        self.bn2 = FrozenNorm(middle)
        self.conv3 = nn.Conv2d(middle, out, 1, bias=False)
        self.bn3 = FrozenNorm(out)
        if first:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), FrozenNorm(out))
        else:
            self.downsample = nn.Identity()

    def forward(self, x):
        y = functional.relu_(self.bn1(self.conv1(x)))
        y = functional.relu_(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += self.downsample(x)
        return functional.relu_(y)


class FrozenNorm(nn.Module):
    """Batch norm of constants, a factor and a summand, which keeps nothing for the backward pass."""

    def __init__(self, channels):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(channels)), nn.Parameter(torch.empty(channels))
        self.register_buffer("running_mean", torch.empty(channels))
        self.register_buffer("running_var", torch.empty(channels))
        self.factor = self.summand = None  # (channels, 1, 1), by freeze()

    def forward(self, x):
        return x.mul_(self.factor.to(x.dtype)).add_(self.summand.to(x.dtype))  # in the convolution's own memory


@torch.no_grad()
def freeze(norms, epsilon):
    """Work out the factors and summands of all FrozenNorms at once."""
    weight, bias, mean, variance = (
        torch.cat([getattr(norm, name) for norm in norms]) for name in ("weight", "bias", "running_mean", "running_var")
    )
    factor = weight * (variance + epsilon).rsqrt()
    summand = bias - mean * factor
    sizes = [len(norm.weight) for norm in norms]
    for norm, own_factor, own_summand in zip(norms, factor.split(sizes), summand.split(sizes), strict=True):
        norm.factor, norm.summand = own_factor.view(-1, 1, 1), own_summand.view(-1, 1, 1)


def rows(x, size):
    """(batch, height * width * anchors of a place, size) in at least float32 of (batch, channels, height, width)."""
    return at_least_float32(x.permute(0, 2, 3, 1).reshape(len(x), -1, size))


def first(flags, count):
    """Of the flags those that are set, but the first `count` alone."""
    return flags & (flags.cumsum(0) <= count)


def share(flags, dtype):
    """(batch, n): 1 / (set flags of the row x batch) where a flag is set, else 0: weights of a mean of means."""
    return flags.to(dtype) / (flags.sum(1, keepdim=True).clamp(min=1) * len(flags))


def smooth_l1(x, target, sigma):
    """(...): the sum over the last axis of (sigma d)^2 / 2 where |d| < 1 / sigma^2, else |d| - 1 / (2 sigma^2)."""
    return functional.smooth_l1_loss(x, target.to(x.dtype), reduction="none", beta=1 / sigma**2).sum(-1)


def at_least_float32(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


NETWORK = Network
