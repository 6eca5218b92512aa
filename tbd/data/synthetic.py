"""Synthetic batches: learnable, deterministic, made before the first step so that the loop never waits for data."""

import hashlib
import itertools

import numpy

from tbd.data.source import Source, batch_of

RING = 8  # batches that take turns: few enough to keep in memory, enough that no step sees its predecessor's batch


def open_source(specification, request):
    """RING batches of the specification's own, drawn from the request's seed and rank, for ever in turn."""
    return Synthetic(specification, request)


class Synthetic(Source):
    name = "synthetic"

    def __init__(self, specification, request):
        random = numpy.random.RandomState([request["seed"], request["rank"]])
        size = request["batch_size"]
        self._ring = [batch_of(specification, specification.synthetic_batch(size, random)) for _ in range(RING)]
        self._items = {}
        digest = hashlib.sha256()
        for batch in self._ring:
            for name in sorted(batch.arrays):
                digest.update(batch.arrays[name].tobytes())
            for unit, count in batch.items.items():
                self._items[unit] = self._items.get(unit, 0) + count
        self._digest = digest.hexdigest()
        self._source = "synthetic batches of %s, seed %d" % (specification.name, request["seed"])

    def describe(self):
        counts = dict(self._items, batches=len(self._ring))
        return {"name": self.name, "digest": self._digest, "source": self._source, "counts": counts, "skipped": {}}

    def one_of_each_shape(self):
        shapes = {}
        for batch in self._ring:
            shapes.setdefault(tuple((name, batch.arrays[name].shape) for name in sorted(batch.arrays)), batch)
        return list(shapes.values())

    def batches(self):
        return itertools.cycle(self._ring)

    def close(self):
        """Nothing to end."""
