"""What went on at each moment: intervals of several kinds on one axis, cut where any of them begins or ends."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tbd.measure.events import Array


class Moments:
    """`spans` is {kind: array (n, 2) of begins and ends}; within [begin, end] of the axis, in its unit.

    `during[kind]` tells for each stretch between neighbouring cuts whether anything of the kind goes on; `length` is
    how long the stretch is.
    """

    def __init__(self, spans: Mapping[str, Array], begin: float, end: float):
        cut = {kind: np.clip(found, begin, end) for kind, found in spans.items()}
        edges = np.unique(np.concatenate([[begin, end], *(found.ravel() for found in cut.values())]))
        self.length: Array = np.diff(edges)
        self.during: dict[str, NDArray[np.bool_]] = {}
        for kind, found in cut.items():
            change = np.zeros(len(edges), dtype=np.int64)
            np.add.at(change, np.searchsorted(edges, found[:, 0]), 1)
            np.add.at(change, np.searchsorted(edges, found[:, 1]), -1)
            self.during[kind] = np.cumsum(change)[:-1] > 0

    def total(self, stretches: NDArray[np.bool_]) -> float:
        """How long these stretches are together."""
        return float(self.length[stretches].sum())
