"""What the network costs a training step: a model fitted to measured steps, and what an all-reduce takes by its costs.

Everywhere: `bytes_per_s` is what one direction of a node's link carries, `sent_bytes` what a node sends in a step.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tbd.measure.events import Absent, Array

GBIT_IN_BYTE = 8e-9  # Gbit/s of one byte/s
ROUNDING = 1e-6
ENOUGH = 0.1  # the network is the bottleneck no longer where steps wait for it at most this share of their time


class Link(NamedTuple):
    """`latency_s`: of a short message, one way."""

    bytes_per_s: float
    latency_s: float


class Point(NamedTuple):
    """One measured step, of several nodes."""

    bytes_per_s: float
    sent_bytes: float
    step_s: float

    @property
    def transfer_s(self) -> float:
        return self.sent_bytes / self.bytes_per_s


class Step(NamedTuple):
    """step = compute + max(0, sent bytes / bandwidth - overlap), all in seconds, 0 <= overlap <= compute.

    Or, what is the same, (compute - overlap) + max(overlap, sent bytes / bandwidth): what no exchange goes on beside,
    and the longer of the transfer and of the computation beside it.
    """

    compute_s: float
    overlap_s: float

    def seconds(self, transfer_s: float) -> float:
        return self.compute_s + max(0.0, transfer_s - self.overlap_s)

    def enough_bytes_per_s(self, sent_bytes: float, share: float = ENOUGH) -> float:
        """The bandwidth at which steps wait for the network for `share` of their time.

        transfer - overlap = share x (compute + transfer - overlap), solved for the transfer's time.
        """
        return sent_bytes / (self.overlap_s + share / (1 - share) * self.compute_s)


class Fit(NamedTuple):
    """`left_out`: of each point, what the fit to all others says of it / what was measured - 1; None where those don't
    suffice. `slow_enough`, `fast_enough`: whether the overlap is within what these speeds can tell: at the slowest the
    transfer takes longer than the overlap, and at the fastest it takes less. Where not, it may be larger, or smaller.
    """

    step: Step
    errors: Sequence[float]
    left_out: Sequence[float | None]
    slow_enough: bool
    fast_enough: bool


def fit(points: Sequence[Point]) -> Fit:
    """The Step nearest to the points: least squares of the relative errors. Raises Absent below two speeds."""
    step = nearest(points)
    left_out: list[float | None] = []
    for number, point in enumerate(points):
        others = [*points[:number], *points[number + 1 :]]
        try:
            left_out.append(nearest(others).seconds(point.transfer_s) / point.step_s - 1)
        except Absent:
            left_out.append(None)
    transfers = [point.transfer_s for point in points]
    return Fit(
        step,
        [step.seconds(point.transfer_s) / point.step_s - 1 for point in points],
        left_out,
        step.overlap_s < max(transfers) * (1 - ROUNDING),
        step.overlap_s > min(transfers) * (1 + ROUNDING),
    )


def nearest(points: Sequence[Point]) -> Step:
    """With serial = compute - overlap the model is serial + max(overlap, transfer). Between two neighbouring transfer
    times it is linear in both, so each such interval is one bounded linear problem, and the best of them is the best.
    Below the shortest transfer every overlap is as good: then it is taken as that. Raises Absent below two speeds.
    """
    from scipy.optimize import lsq_linear

    transfer = np.array([point.transfer_s for point in points], dtype=np.float64)
    measured = np.array([point.step_s for point in points], dtype=np.float64)
    edges = np.unique(transfer)
    if len(edges) < 2:
        raise Absent("it takes steps at two speeds of the network at least")
    best, least = Step(0.0, 0.0), math.inf
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        exposed = transfer >= high
        columns = np.stack([np.ones_like(transfer), ~exposed], axis=1)  # of serial and overlap
        wanted = measured - np.where(exposed, transfer, 0.0)
        found: Array = lsq_linear(
            columns / measured[:, None], wanted / measured, bounds=([0.0, low], [np.inf, high]), method="bvls"
        ).x
        step = Step(float(found[0] + found[1]), float(found[1]))
        errors = np.array([step.seconds(one) for one in transfer]) / measured - 1
        if (cost := float(errors @ errors)) < least:
            best, least = step, cost
    return best


# ---- what an all-reduce of `size` bytes takes between `ranks` that have one link each


def ring_s(ranks: int, size: float, link: Link) -> float:
    """2 (n - 1) latency + 2 (n - 1) / n x size / bandwidth: each of 2 (n - 1) steps sends size / n.

    Patarasuk and Yuan 2009, J. Parallel Distrib. Comput. 69(2), which shows that no algorithm sends less; latency as in
    Thakur, Rabenseifner and Gropp 2005, Int. J. High Perform. Comput. Appl. 19(1). What adding takes is left out.
    """
    return 2 * (ranks - 1) * (link.latency_s + size / ranks / link.bytes_per_s)


def tree_s(ranks: int, size: float, link: Link) -> float:
    """A reduction and then a broadcast, each over two binary trees with half of the data, in blocks one behind another.

    Each takes 2 ceil(log2 n) + 2 k steps of latency + size / (2 k) / bandwidth, at the best number of blocks
    k = sqrt(size x ceil(log2 n) / (2 latency bandwidth)), so size / bandwidth + 2 h latency
    + sqrt(8 h latency size / bandwidth), h = ceil(log2 n). Sanders, Speck and Traeff 2009, Parallel Computing 35(12).
    """
    if ranks == 1:
        return 0.0
    height, transfer = math.ceil(math.log2(ranks)), size / link.bytes_per_s
    return 2 * (transfer + 2 * height * link.latency_s + math.sqrt(8 * height * link.latency_s * transfer))


ALGORITHMS = {"ring": ring_s, "tree": tree_s}
