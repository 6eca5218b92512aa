"""The contract of a data source: tbd/data/<name>.py defines open_source(specification, request), which gives a Source.

It may define resolve(options, cache) too: the source's options with its own defaults filled in and its paths absolute.
The controller calls that, before a worker starts in another folder; `cache` is the folder for what sources make.

A source yields samples of one kind (tbd/data/kinds.py) and knows no model: what they must be like and how they become
batches is asked of the specification (form, shapes_of, rows, batch_of). numpy only, but for Pillow where pictures are
decoded and soundfile where sound is; no framework, Python 3.6 syntax: every framework's worker uses it.
"""

import collections
import os

# What the training loop takes: `arrays` as the specification's batch_of gives them, and for them the specification's
# `items` {unit: count}, `flops` and `work`, worked out beforehand: the loop has nothing to compute.
Batch = collections.namedtuple("Batch", "arrays items flops work")


class BadData(Exception):
    """The data can't be used. The message names the file or folder, what is wrong and the way out."""


def batch_of(specification, arrays):
    """The Batch of `arrays`."""
    return Batch(arrays, specification.items(arrays), specification.flops(arrays), specification.work(arrays))


def absolute(path):
    """The path `path` from this process's folder, ~ for the user's."""
    return os.path.abspath(os.path.expanduser(path))


class Share(object):
    """A rank's part of every batch.

    Batches are drawn for all ranks together, from the seed alone; a rank keeps its own rows. So n ranks at batch size b
    train on the batches, rows and shapes of one process at batch size n * b.
    """

    def __init__(self, request):
        self.seed = [request["seed"], 0]  # for numpy's RandomState; what else is drawn from the seed has other numbers
        self.batch_size = request["batch_size"] * request["world_size"]  # of all ranks together
        self._rank, self._ranks = request["rank"], request["world_size"]

    def of(self, rows):
        """This rank's of all rows, a sequence or array: every world_size-th. The ranks' counts differ by one at most.

        Raises BadData where there are fewer rows than ranks: every rank has to take part in every step.
        """
        if len(rows) < self._ranks:
            raise BadData("a batch of %d rows is too few for %d ranks: raise batch_size" % (len(rows), self._ranks))
        return rows[self._rank :: self._ranks]

    def seeds(self, number, count):
        """The seeds of this rank's of the `count` rows of the stream's batch `number`, for specification.batch_of."""
        return [self.seed + [number, row] for row in self.of(range(count))]


class Source(object):
    """An endless stream of batches, the same for the same request."""

    name = None  # as in `data=NAME`
    emulator_s = None  # seconds that batches() has waited for emulators so far, where data are played

    def connect(self, training):
        """Called once the network is built, before any batch is asked for: data may depend on what it makes of earlier
        data (Training.outputs), and such a source needs it."""

    def describe(self):
        """{"name", "digest", "source", "counts": {what: n}, "skipped": {why: n}}: what goes into the run's dataset.

        Of the data, not of a rank's share: the same in every rank, but for what is skipped while reading.
        """
        raise NotImplementedError

    def one_of_each_shape(self):
        """A list of Batches, one for each distinct set of array shapes that batches() can give: for compiling.

        A framework may compile each: there must be few, a dozen or so, however long the stream is.
        """
        raise NotImplementedError

    def largest(self):
        """A Batch of the shape whose work is largest: what decides whether training fits into memory."""
        return max(self.one_of_each_shape(), key=lambda batch: batch.work)

    def batches(self):
        """The stream of Batches from its beginning, prefetched; never ends. A second call ends the first stream."""
        raise NotImplementedError

    def close(self):
        """End the threads and processes that prefetch."""
