"""What detectors do with boxes, (..., 4) tensors of x1, y1, x2, y2 in pixels with continuous edges."""

import torch
from torch.nn import functional

TILE = 256  # boxes at a time: few enough that most of a tile's overlaps count, enough to hide the operators' own time


def decode(boxes, deltas, largest_growth):
    """The boxes moved by (dx, dy, dw, dh): the centre by (dx, dy) sizes, the size times exp((dw, dh))."""
    size = boxes[..., 2:] - boxes[..., :2]
    centre = (boxes[..., :2] + boxes[..., 2:]) / 2 + deltas[..., :2] * size
    half = size * deltas[..., 2:].clamp(max=largest_growth).exp() / 2
    return torch.cat([centre - half, centre + half], -1)


def encode(boxes, targets):
    """(dx, dy, dw, dh) that move the boxes to the targets."""
    size, wanted = boxes[..., 2:] - boxes[..., :2], targets[..., 2:] - targets[..., :2]
    shift = (targets[..., :2] + targets[..., 2:] - boxes[..., :2] - boxes[..., 2:]) / 2
    return torch.cat([shift / size, (wanted / size).log()], -1)


def overlaps(boxes, others):
    """(boxes, others): intersection over union of each pair, 0 where two boxes have no area in common."""
    x1, y1, x2, y2 = boxes[:, None].unbind(-1)
    left, top, right, bottom = others.unbind(-1)
    across = torch.minimum(x2, right).sub_(torch.maximum(x1, left)).clamp_(min=0)
    down = torch.minimum(y2, bottom).sub_(torch.maximum(y1, top)).clamp_(min=0)
    intersection = across.mul_(down)
    union = ((x2 - x1) * (y2 - y1) + (right - left) * (bottom - top)).sub_(intersection)
    return torch.where(intersection > 0, intersection.div_(union), 0)


def suppress(boxes, count, threshold, most):
    """Non-maximum suppression of boxes (n, 4), best first: indices (most,) of those kept and how many they are.

    In order, each that overlaps no kept one by more than `threshold` is kept: the first `most` of the first `count`, a
    tensor. Decides in float32.
    """
    boxes = boxes.float()
    if boxes.is_cuda:
        from tbd.frameworks.pytorch import suppression  # a CPU's build of PyTorch has no Triton

        return suppression.suppress(boxes, count, threshold, most)
    count = int(count)
    kept = boxes.new_zeros(most + TILE, 4)
    indices = torch.zeros(most + TILE, dtype=torch.long, device=boxes.device)
    found = 0
    for start in range(0, count, TILE):
        tile = boxes[start : min(start + TILE, count)]
        free = ~(overlaps(tile, kept[:found]) > threshold).any(1)
        earlier = (overlaps(tile, tile) > threshold).tril_(-1)
        keep = free
        while True:  # the first box is right at once, and with each turn at least one more: those after it depend on it
            after = free & ~(earlier & keep).any(1)
            if torch.equal(after, keep):
                break
            keep = after
        (own,) = keep.nonzero(as_tuple=True)
        kept[found : found + len(own)] = tile[own]
        indices[found : found + len(own)] = own + start
        found += len(own)
        if found >= most:
            break
    return indices[:most], min(found, most)


def roi_align(features, boxes, pooled, stride, offset):
    """(batch * n, channels, pooled, pooled) channels last: the features (batch, channels, height, width), channels
    last too, at the bins' centres of boxes (batch, n, 4), interpolated linearly in both directions.

    Bin i's centre is at feature (y1 + (i + 0.5) (y2 - y1) / pooled) / stride - offset, within the outermost features.
    The sum of four weighted rows is one operator, whose gradient is again one.
    """
    batch, channels, height, width = features.shape
    first = torch.arange(batch, device=features.device).mul_(height * width).view(batch, 1, 1, 1, 1)
    bins = (torch.arange(pooled, device=features.device, dtype=boxes.dtype) + 0.5) / pooled
    columns, across = corners(boxes[..., 0, None], boxes[..., 2, None], bins, width, stride, offset)
    rows, down = corners(boxes[..., 1, None], boxes[..., 3, None], bins, height, stride, offset)
    # (batch, n, pooled, pooled, 2, 2): row bin, column bin, row neighbour, column neighbour
    places = first[..., None] + rows[:, :, :, None, :, None] * width + columns[:, :, None, :, None, :]
    weights = (down[:, :, :, None, :, None] * across[:, :, None, :, None, :]).to(features.dtype)
    table = features.permute(0, 2, 3, 1).reshape(-1, channels)
    found = functional.embedding_bag(
        places.reshape(-1, 4), table, per_sample_weights=weights.reshape(-1, 4), mode="sum"
    )
    return found.view(-1, pooled, pooled, channels).permute(0, 3, 1, 2)


def corners(begin, end, bins, size, stride, offset):
    """(..., bins, 2): the indices of the two features beside each bin's centre, and their weights."""
    place = ((begin + bins * (end - begin)) / stride - offset).clamp(0, size - 1)
    low = place.floor()
    high = (low + 1).clamp(max=size - 1)
    share = place - low
    return torch.stack([low, high], -1).long(), torch.stack([1 - share, share], -1)
