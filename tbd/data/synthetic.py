"""Synthetic batches: learnable, deterministic, made before the first step so that the loop never waits for data."""

import collections
import hashlib
import itertools

import numpy

from tbd.data.source import Share, Source, batch_of

RING = 8  # batches that take turns: few enough to keep in memory, enough that no step sees its predecessor's batch
# Of large batches fewer, two at least: 256 MB are beyond every cache, and to draw more takes minutes.
RING_BYTES = 2**28


def open_source(specification, request):
    """At most RING batches of the specification's own, drawn from the request's seed, for ever in turn."""
    return Synthetic(specification, request)


class Synthetic(Source):
    name = "synthetic"

    def __init__(self, specification, request):
        share = Share(request)
        random = numpy.random.RandomState(share.seed)
        self._ring, self._items = [], collections.Counter()
        digest = hashlib.sha256()
        drawn_bytes = 0
        while len(self._ring) < 2 or (len(self._ring) < RING and drawn_bytes < RING_BYTES):
            arrays = specification.synthetic_batch(share.batch_size, random)
            drawn_bytes += sum(array.nbytes for array in arrays.values())
            for name in sorted(arrays):
                digest.update(arrays[name].tobytes())
            self._items.update(specification.items(arrays))
            own = {name: numpy.ascontiguousarray(share.of(array)) for name, array in arrays.items()}
            self._ring.append(batch_of(specification, own))
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
