"""Non-maximum suppression on a GPU, as one kernel that the host need not wait for.

Triton comes with PyTorch's CUDA builds. PyTorch's own operators could do it too, but not without asking the device,
tile by tile, whether it is done; torchvision's gives as many indices as it keeps, and so waits as well.
"""

import torch
import triton
import triton.language as tl

TILE, CHUNK = 128, 128  # candidates at a time, and how many kept boxes they meet at a time


def suppress(boxes, count, threshold, most):
    """tbd.frameworks.pytorch.boxes.suppress for boxes (n, 4) float32 and a count on a GPU."""
    kept = boxes.new_empty(most, 4)
    indices = torch.zeros(most, dtype=torch.long, device=boxes.device)
    found = torch.empty([], dtype=torch.long, device=boxes.device)
    one_block[(1,)](boxes.contiguous(), count, kept, indices, found, threshold, most, TILE, CHUNK, num_warps=16)
    return indices, found


@triton.jit
def one_block(boxes, count, kept, indices, found, threshold, most, TILE: tl.constexpr, CHUNK: tl.constexpr):
    """In order, tile by tile: which of a tile are free of the boxes kept so far, and which of those are kept."""
    count = tl.load(count).to(tl.int32)
    number, start = 0, 0
    within = tl.arange(0, TILE)
    earlier = within[None, :] < within[:, None]
    while (start < count) & (number < most):
        own = start + within
        free = (own < count).to(tl.int32)
        for first in range(0, number, CHUNK):
            others = first + tl.arange(0, CHUNK)
            hit = overlapping(boxes, own, own < count, kept, others, others < number, threshold)
            free = free & (1 - tl.max(hit.to(tl.int32), 1))
        hit = overlapping(boxes, own, own < count, boxes, own, own < count, threshold) & earlier
        hit = hit.to(tl.int32)
        keep, changed = free, 1
        while changed > 0:  # the first box is right at once, and with each turn at least one more
            after = free & (1 - tl.max(hit * keep[None, :], 1))
            changed = tl.max((after != keep).to(tl.int32), 0)
            keep = after
        slots = number + tl.cumsum(keep, 0) - 1
        real = (keep > 0) & (slots < most)
        tl.store(indices + slots, own.to(tl.int64), real)
        for side in tl.static_range(4):
            tl.store(kept + slots * 4 + side, tl.load(boxes + own * 4 + side, real, 0.0), real)
        tl.debug_barrier()  # what one thread has stored others load in the next turn
        number += tl.sum(keep, 0)
        start += TILE
    tl.store(found, tl.minimum(number, most).to(tl.int64))


@triton.jit
def overlapping(boxes, rows, real_rows, others, columns, real_columns, threshold):
    """(rows, columns): whether a box and one of the others overlap by more than `threshold`."""
    x1 = tl.load(boxes + rows * 4, real_rows, 0.0)[:, None]
    y1 = tl.load(boxes + rows * 4 + 1, real_rows, 0.0)[:, None]
    x2 = tl.load(boxes + rows * 4 + 2, real_rows, 0.0)[:, None]
    y2 = tl.load(boxes + rows * 4 + 3, real_rows, 0.0)[:, None]
    left = tl.load(others + columns * 4, real_columns, 0.0)[None, :]
    top = tl.load(others + columns * 4 + 1, real_columns, 0.0)[None, :]
    right = tl.load(others + columns * 4 + 2, real_columns, 0.0)[None, :]
    bottom = tl.load(others + columns * 4 + 3, real_columns, 0.0)[None, :]
    across = tl.maximum(tl.minimum(x2, right) - tl.maximum(x1, left), 0.0)
    down = tl.maximum(tl.minimum(y2, bottom) - tl.maximum(y1, top), 0.0)
    intersection = across * down
    union = (x2 - x1) * (y2 - y1) + (right - left) * (bottom - top) - intersection
    return (intersection > 0) & (tl.div_rn(intersection, union) > threshold)
