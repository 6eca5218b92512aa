"""Downsampled ImageNet as it is published, and any pictures in its form: .npz archives of one small size.

    <root>/train_data_batch_1.npz ... train_data_batch_10.npz    data: uint8 (pictures, 3 size^2), a picture a row: all
    <root>/val_data.npz                                          its red, then its green, then its blue; labels unread

Archives are read from their beginning to their end in a thread, never whole; a window of pictures shuffles them.
docs/data.md has the policies.
"""

import collections
import contextlib
import hashlib
import os
import re
import zipfile
import zlib

import numpy

from tbd.data import kinds
from tbd.data.prefetch import InThread
from tbd.data.source import BadData, Share, Source, absolute, batch_of

FILES = {"train": re.compile(r"train_data_batch_([0-9]+)\.npz\Z"), "val": re.compile(r"(val)_data\.npz\Z")}
PIECE = 1024  # pictures that are read at once
WINDOW = 8192  # pictures that shuffling draws from: 100 MB of 64x64
AHEAD = 2  # batches that wait for the loop

# count: of pictures. checksum: CRC-32 of the array, as the archive itself has it.
Archive = collections.namedtuple("Archive", "path count checksum")


def resolve(options, cache):
    return dict(options, root=absolute(options["root"]))


def open_source(specification, request):
    """The pictures of <data.root>'s archives of the split data.split. Raises BadData."""
    return SmallPictures(specification, request)


class SmallPictures(Source):
    name = "imagenet64"

    def __init__(self, specification, request):
        root, split = request["data"]["root"], request["data"]["split"]
        self._specification = specification
        self._share = Share(request)
        self._rows = specification.rows(None, self._share.batch_size)  # of all ranks
        self._share.of(range(self._rows))  # raises BadData where there are too few
        self._size = specification.form(kinds.SMALL_PICTURES).size
        self._source = "%s, %s" % (root, split)
        self._archives = [examined(path, self._size) for path in paths_of(root, split)]
        self._count = sum(archive.count for archive in self._archives)
        self._thread = None

    def describe(self):
        digest = hashlib.sha256()
        for path, count, checksum in self._archives:
            digest.update(("%s\0%d\0%08x\0" % (os.path.basename(path), count, checksum)).encode("utf-8"))
        counts = {"pictures": self._count, "archives": len(self._archives)}
        return {
            "name": self.name,
            "digest": digest.hexdigest(),
            "source": self._source,
            "counts": counts,
            "skipped": {},
        }

    def one_of_each_shape(self):
        """The stream's first batch: every batch has its shapes."""
        return [next(self._batches())]

    def batches(self):
        self.close()
        self._thread = InThread(self._batches(), AHEAD)
        return self._thread

    def close(self):
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def _batches(self):
        random = numpy.random.RandomState(self._share.seed)
        pictures, number = numpy.empty((0, self._size, self._size, 3), numpy.uint8), 0
        while True:
            for shuffled in self._epoch(random):
                pictures = numpy.concatenate([pictures, shuffled])
                while len(pictures) >= self._rows:
                    batch, pictures = pictures[: self._rows], pictures[self._rows :]
                    seeds = self._share.seeds(number, self._rows)
                    arrays = self._specification.batch_of((self._share.of(batch),), None, seeds)
                    yield batch_of(self._specification, arrays)
                    number += 1

    def _epoch(self, random):
        """Every picture once, in arrays of at most PIECE.

        The archives come in an order drawn anew. Each picture takes the place of another, drawn from the window of
        those that came before it, which leaves; in the end those that are left leave in an order drawn at random.
        """
        window = numpy.empty((min(WINDOW, self._count), self._size, self._size, 3), numpy.uint8)
        filled = 0
        for n in random.permutation(len(self._archives)):
            for piece in pieces(self._archives[n], self._size):
                room = min(len(piece), len(window) - filled)
                window[filled : filled + room] = piece[:room]
                filled += room
                places = random.permutation(len(window))[: len(piece) - room]
                leaving = window[places]
                window[places] = piece[room:]
                if len(leaving):
                    yield leaving
        order = random.permutation(len(window))
        for begin in range(0, len(order), PIECE):
            yield window[order[begin : begin + PIECE]]


def paths_of(root, split):
    """The paths of a split's archives, in the order of their numbers. Raises BadData."""
    if split not in FILES:
        raise BadData("data.split=%s is not one of %s" % (split, ", ".join(sorted(FILES))))
    expected = {"train": "train_data_batch_1.npz and so on", "val": "val_data.npz"}[split]
    if not os.path.isdir(root):
        raise BadData("data.root=%s is no folder: name the one that holds %s" % (root, expected))
    found = [(name, FILES[split].match(name)) for name in os.listdir(root)]
    names = sorted((len(match.group(1)), name) for name, match in found if match)
    if not names:
        raise BadData("data.root=%s holds no %s, the archives of data.split=%s" % (root, expected, split))
    return [os.path.join(root, name) for _, name in names]


def examined(path, size):
    """The Archive at `path`, from its directory and the array's header alone. Raises BadData."""
    with reading(path):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if "data.npy" not in names:
                raise BadData("%s holds no array data, only %s" % (path, ", ".join(sorted(names)) or "nothing"))
            entry = archive.getinfo("data.npy")
            with archive.open(entry) as file:
                shape, dtype = header(file)
    if dtype.hasobject:
        raise BadData("%s: its data are pickled Python objects, which are never read: save them as uint8" % path)
    if dtype != numpy.uint8 or len(shape) != 2 or shape[1] != 3 * size * size:
        message = "%s: its data are %s %s, but the model takes uint8 (pictures, %d), of %dx%d pixels%s"
        raise BadData(message % (path, dtype, shape, 3 * size * size, size, size, advice(shape, dtype)))
    if not shape[0]:
        raise BadData("%s holds no picture" % path)
    return Archive(path, shape[0], entry.CRC)


def advice(shape, dtype):
    """Where another model.image_size would do: which."""
    size = int(round((shape[1] / 3.0) ** 0.5)) if dtype == numpy.uint8 and len(shape) == 2 else 0
    return ": set model.image_size=%d" % size if size and 3 * size * size == shape[1] else ""


def pieces(archive, size):
    """An Archive's pictures in order, in arrays (at most PIECE, size, size, 3). Raises BadData."""
    length, left = 3 * size * size, archive.count
    with reading(archive.path):
        with zipfile.ZipFile(archive.path) as opened:
            with opened.open("data.npy") as file:
                header(file)
                while left:
                    content = file.read(min(PIECE, left) * length)
                    if len(content) < min(PIECE, left) * length:
                        raise EOFError("its data end %d bytes too early" % (left * length - len(content)))
                    found = numpy.frombuffer(content, numpy.uint8).reshape(-1, 3, size, size)
                    yield found.transpose(0, 2, 3, 1)
                    left -= len(found)
                if file.read(1):  # reading to the end checks the checksum too
                    raise EOFError("its data go on after %d pictures" % archive.count)


def header(file):
    """(shape, dtype) of the array whose .npy file begins here. Raises ValueError."""
    version = numpy.lib.format.read_magic(file)
    read = {(1, 0): numpy.lib.format.read_array_header_1_0, (2, 0): numpy.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError("its data are in version %d.%d of the .npy format" % version)
    shape, columns_first, dtype = read[version](file)
    if columns_first:
        raise ValueError("its data lie column by column")
    return shape, dtype


@contextlib.contextmanager
def reading(path):
    """What can be wrong with an archive becomes BadData with its path."""
    try:
        yield
    # zipfile raises NotImplementedError for unknown compression, RuntimeError for encryption
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise BadData("%s is broken or no .npz archive (%s): fetch it again" % (path, error))
