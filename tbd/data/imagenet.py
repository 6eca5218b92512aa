"""ImageNet, and any folder of JPEGs in its form: <root>/<split>/<class>/*.JPEG, the classes numbered in sorted order.

Processes of their own decode, crop, flip and normalise the pictures (tbd/data/pictures.py), in an order drawn anew each
epoch from the seed; the batches are the same whatever the number of processes. docs/data.md has the policies.
"""

import hashlib
import os

import numpy

from tbd.data import kinds
from tbd.data.decoded import SPARES, Decoded, import_pictures
from tbd.data.source import BadData, absolute, batch_of

ENDINGS = (".jpg", ".jpeg")


def resolve(options, cache):
    return dict(options, root=absolute(options["root"]))


def open_source(specification, request):
    """The pictures of <data.root>/<data.split>. Raises BadData."""
    return Pictures(specification, request)


class Pictures(Decoded):
    name = "imagenet"

    def __init__(self, specification, request):
        data = request["data"]
        self._pictures = import_pictures(self.name)
        super(Pictures, self).__init__(specification, request, self._pictures.read_batch)
        self._rows = specification.rows(None, self._share.batch_size)  # of all ranks
        form = specification.form(kinds.LABELLED_PICTURES)
        self._image_size = form.size
        self._folder = os.path.join(data["root"], data["split"])
        self._paths, self._labels, self._classes, self._ignored, self._digest = scan(data["root"], data["split"])
        if len(self._classes) > form.classes:
            message = "%s has %d classes but the model has %d: set model.classes=%d"
            raise BadData(message % (self._folder, len(self._classes), form.classes, len(self._classes)))
        self.files = len(self._paths)

    def describe(self):
        skipped = {"not .jpg or .jpeg": self._ignored} if self._ignored else {}
        skipped.update(self.skipped())
        counts = {"pictures": len(self._paths), "classes": len(self._classes)}
        return {
            "name": self.name,
            "digest": self._digest,
            "source": self._folder,
            "counts": counts,
            "skipped": skipped,
        }

    def one_of_each_shape(self):
        """The stream's first batch, decoded in this process: every batch has its shapes."""
        return [self.batch(0, self._read(next(self.requests())))]

    def requests(self):
        """What read_batch takes, batch after batch: for each of this rank's rows its picture, then the row's spares.

        A row's spares are the pictures of the same row in the batches that follow: which one takes a broken one's place
        depends on no other row, so that ranks need not know of each other's.
        """
        size = self._rows
        own = self._share.of(range(size))
        order, first = numpy.empty(0, int), 0  # of the stream's endless order, the part from position `first` on
        epochs = shuffles(len(self._paths), self._share.seed)
        while True:
            while len(order) < size * (1 + SPARES):
                order = numpy.concatenate([order, next(epochs)])
            places = [range(row, size * (1 + SPARES), size) for row in own]
            yield [[self._picture(first + n, order[n]) for n in row] for row in places], self._image_size
            order, first = order[size:], first + size

    def _picture(self, position, index):
        return self._pictures.Picture(self._paths[index], self._labels[index], self._share.seed + [position])

    def batch(self, number, answer):
        """The Batch of that number, of what read_batch gave. Raises BadData where too much is broken."""
        images, labels, broken = answer
        self.note_broken(broken)
        seeds = self._share.seeds(number, self._rows)
        if len(labels) < len(seeds):
            raise BadData("%s and %d around it are broken (%s)" % (broken[-1][0], SPARES, broken[-1][1]))
        return batch_of(self._specification, self._specification.batch_of((images, labels), None, seeds))


def shuffles(count, seed):
    """Permutations of range(count), one an epoch, for ever."""
    random = numpy.random.RandomState(seed)
    while True:
        yield random.permutation(count)


def scan(root, split):
    """(paths, labels, class names, count of other files, digest) of <root>/<split>. Raises BadData.

    The digest is the sha256 over each picture's class, name and size in bytes: reading 140 GB to identify them would
    take longer than a run.
    """
    if not os.path.isdir(root):
        raise BadData("data.root=%s is no folder: name the one that holds train/<class>/*.JPEG" % root)
    folder = os.path.join(root, split)
    if not os.path.isdir(folder):
        here = ", ".join(subfolders(root)[:8]) or "no folder"
        raise BadData("%s is missing: data.root=%s holds %s; set data.split" % (folder, root, here))
    classes = subfolders(folder)
    if not classes:
        raise BadData("%s holds no folder: each class must be a folder of its pictures" % folder)
    paths, labels, ignored, digest = [], [], 0, hashlib.sha256()
    for label, name in enumerate(classes):
        found = sorted((e for e in os.scandir(os.path.join(folder, name)) if e.is_file()), key=lambda entry: entry.name)
        pictures = [entry for entry in found if entry.name.lower().endswith(ENDINGS)]
        if not pictures:
            raise BadData("%s holds no .jpg or .jpeg file: each class needs a picture" % os.path.join(folder, name))
        ignored += len(found) - len(pictures)
        for entry in pictures:
            paths.append(entry.path)
            labels.append(label)
            digest.update(os.fsencode("%s/%s\0%d\0" % (name, entry.name, entry.stat().st_size)))
    return paths, labels, classes, ignored, digest.hexdigest()


def subfolders(folder):
    """The names of the folders in `folder`, sorted, hidden ones left out."""
    return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
