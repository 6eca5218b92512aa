"""The contract of a data source: tbd/data/<name>.py defines open_source(specification, request), which gives a Source.

numpy only, but for Pillow where pictures are decoded; no framework, Python 3.6 syntax: every framework's worker uses
it.
"""

import collections

# What the training loop takes: `arrays` as the specification's synthetic_batch gives them, and for them the
# specification's `items` {unit: count}, `flops` and `work`, worked out beforehand: the loop has nothing to compute.
Batch = collections.namedtuple("Batch", "arrays items flops work")


class BadData(Exception):
    """The data can't be used. The message names the file or folder, what is wrong and the way out."""


def batch_of(specification, arrays):
    """The Batch of `arrays`."""
    return Batch(arrays, specification.items(arrays), specification.flops(arrays), specification.work(arrays))


class Source(object):
    """An endless stream of batches, the same for the same request."""

    name = None  # as in `data=NAME`

    def describe(self):
        """{"name", "digest", "source", "counts": {what: n}, "skipped": {why: n}}: what goes into the run's dataset."""
        raise NotImplementedError

    def one_of_each_shape(self):
        """A list of Batches, one for each distinct set of array shapes that batches() can give: for compiling."""
        raise NotImplementedError

    def batches(self):
        """The stream of Batches, prefetched; never ends."""
        raise NotImplementedError

    def close(self):
        """End the threads and processes that prefetch."""
