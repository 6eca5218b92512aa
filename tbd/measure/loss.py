"""Whether the training learned: a fast run that does not is no result."""

import math

import numpy as np

from tbd.measure.events import Absent, Array

MAX_LAST = 10


def losses(values: Array) -> dict[str, float]:
    """loss_first: of the very first step, so from the canonical weights: the same in every framework.

    loss_last: the mean of the last k losses, k = a quarter of the steps, at least 1 and at most 10: one batch is noise.
    loss_ratio: loss_last / loss_first; left out where loss_first is not above 0.
    Raises Absent where any loss is not finite.
    """
    if not len(values):
        raise Absent("no loss was read")
    if not np.isfinite(values).all():
        raise Absent(f"the loss is not finite at step {int(np.argmin(np.isfinite(values)))}")
    last = float(values[-max(1, min(MAX_LAST, len(values) // 4)) :].mean())
    found = {"loss_first": float(values[0]), "loss_last": last}
    if values[0] > 0 and math.isfinite(last / values[0]):
        found["loss_ratio"] = last / float(values[0])
    return found
