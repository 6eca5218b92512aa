"""Pascal VOC 2007, and any folder in its form: pictures with the boxes of their objects.

    <root>/ImageSets/Main/<split>.txt   a picture's name a line
    <root>/Annotations/<name>.xml       its size and its objects
    <root>/JPEGImages/<name>.jpg

All annotations are read when the source is opened; processes of their own decode, scale, flip and normalise the
pictures (tbd/data/pictures.py). A batch holds pictures of one of the model's shapes. docs/data.md has the policies.
"""

import collections
import hashlib
import os
import re
from xml.etree import ElementTree

import numpy

from tbd.data import kinds
from tbd.data.decoded import SPARES, Decoded, first_readable, import_pictures
from tbd.data.iwslt15 import by_shape
from tbd.data.source import BadData, absolute, batch_of

# VOC 2007's development kit, section 2.1, in its numbers' order; 0 is the background
CLASSES = (
    "aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person pottedplant sheep "
    "sofa train tvmonitor"
).split()
LONGEST = 1000000  # bytes of an annotation; VOC 2007's are below 10,000

# size: (width, height). boxes: float64 (n, 4) of continuous edges. classes: int32 (n,) from 1 on. difficult: how many
# objects were left out.
Annotation = collections.namedtuple("Annotation", "size boxes classes difficult")


def resolve(options, cache):
    return dict(options, root=absolute(options["root"]))


def open_source(specification, request):
    """The pictures of <data.root>/ImageSets/Main/<data.split>.txt. Raises BadData."""
    return BoxedPictures(specification, request)


class BoxedPictures(Decoded):
    name = "voc"

    def __init__(self, specification, request):
        self._pictures = import_pictures(self.name)
        super(BoxedPictures, self).__init__(specification, request, self._pictures.read_boxed_batch)
        self._form = specification.form(kinds.BOXED_PICTURES)
        if self._form.classes < len(CLASSES):
            message = "VOC has %d classes but the model has %d: set model.classes=%d"
            raise BadData(message % (len(CLASSES), self._form.classes, len(CLASSES)))
        root, split = request["data"]["root"], request["data"]["split"]
        self._source = "%s, %s" % (root, split)
        names = listed(root, split)
        self.files = len(names)
        self._digest = hashlib.sha256(split.encode("utf-8"))
        self._counts = collections.OrderedDict(pictures=0, objects=0, shapes=0)
        self._left_out = collections.Counter()
        self._usable = list(self._read_annotations(root, names))
        sizes = [picture.scaled for picture in self._usable]
        self._buckets = by_shape(specification.shapes_of(tuple(zip(*sizes)), None)) if sizes else {}
        self._drop_broken_of_rare_shapes()
        if not self._buckets:
            raise BadData("%s holds no picture with an object that can be read" % self._source)
        self._counts["shapes"] = len(self._buckets)
        self._rows = {shape: specification.rows(shape, self._share.batch_size) for shape in self._buckets}
        for rows in self._rows.values():
            self._share.of(range(rows))  # raises BadData where there are too few, before anything is built

    def _read_annotations(self, root, names):
        """The BoxedPictures of the pictures that can be used, without their seeds; counts the others."""
        for name in names:
            path = os.path.join(root, "Annotations", name + ".xml")
            picture = os.path.join(root, "JPEGImages", name + ".jpg")
            try:
                content = content_of(path)
                found = annotation(content)
            except (OSError, ValueError) as error:
                self.note_broken([(path, getattr(error, "strerror", None) or str(error))])
                continue
            try:
                length = os.stat(picture).st_size
            except OSError as error:
                self.note_broken([(picture, error.strerror)])
                continue
            self._digest.update(("%s\0%d\0%d\0" % (name, len(content), length)).encode("utf-8") + content)
            self._left_out["objects marked difficult"] += found.difficult
            if not len(found.boxes):
                self._left_out["pictures without an object"] += 1
                continue
            if len(found.boxes) > self._form.boxes:
                message = "%s has %d objects but the model has room for %d: set model.boxes=%d"
                raise BadData(message % (path, len(found.boxes), self._form.boxes, len(found.boxes)))
            self._counts["pictures"] += 1
            self._counts["objects"] += len(found.boxes)
            scaled, scale = self._scaled(found.size)
            yield self._pictures.BoxedPicture(picture, found.size, scaled, scale, found.boxes, found.classes, None)

    def _scaled(self, size):
        """((height, width), scale) of a picture of that (width, height) as the model wants it."""
        scale = min(self._form.shorter / float(min(size)), self._form.longer / float(max(size)))
        width, height = (max(1, int(round(side * scale))) for side in size)
        return (height, width), scale

    def _drop_broken_of_rare_shapes(self):
        """Where a shape has too few pictures for spares, reads them at once: all ranks then know which are broken."""
        for shape, indices in list(self._buckets.items()):
            if len(indices) <= SPARES:
                good = [n for n in indices if self._readable(self._usable[n])]
                self._buckets[shape] = numpy.array(good, int)
                if not good:
                    del self._buckets[shape]

    def _readable(self, picture):
        broken = []
        first_readable([picture._replace(seed=[0])], self._pictures.read_boxed, broken)
        self.note_broken(broken)
        return not broken

    def describe(self):
        skipped = {why: count for why, count in self._left_out.items() if count}
        skipped.update(self.skipped())
        return {
            "name": self.name,
            "digest": self._digest.hexdigest(),
            "source": self._source,
            "counts": dict(self._counts),
            "skipped": skipped,
        }

    def one_of_each_shape(self):
        """The first pictures of each shape, decoded in this process."""
        first = (self._batches_of(shape, indices)[0] for shape, indices in sorted(self._buckets.items()))
        return [self.batch(0, self._read(self._request(0, *batch))) for batch in first]

    def requests(self):
        """What read_boxed_batch takes, batch after batch: each epoch shuffles each shape and then the batches."""
        random, number = numpy.random.RandomState(self._share.seed), 0
        while True:
            epoch = []
            for shape, indices in sorted(self._buckets.items()):
                epoch.extend(self._batches_of(shape, random.permutation(indices)))
            for turn in random.permutation(len(epoch)):
                yield self._request(number, *epoch[turn])
                number += 1

    def _batches_of(self, shape, order):
        """[(shape, rows)] of an epoch's pictures of a shape in their order; the last is completed by the first ones.

        A row is its picture and then its spares: the same row's pictures in the batches that follow.
        """
        size = self._rows[shape]
        return [
            (shape, [numpy.take(order, range(row, row + size * (1 + SPARES), size), mode="wrap") for row in rows])
            for rows in (range(begin, begin + size) for begin in range(0, len(order), size))
        ]

    def _request(self, number, shape, rows):
        """This rank's rows of the stream's batch of that number, with their pictures' seeds."""
        seeds = self._share.seeds(number, len(rows))
        own = zip(self._share.of(rows), seeds)
        return [[self._usable[n]._replace(seed=seed + [1]) for n in row] for row, seed in own], shape

    def batch(self, number, answer):
        """The Batch of that number, of what read_boxed_batch gave. Raises BadData where too much is broken."""
        samples, shape, broken = answer
        self.note_broken(broken)
        seeds = self._share.seeds(number, self._rows[shape])
        if len(samples) < len(seeds):
            raise BadData("%s and %d of its shape are broken (%s)" % (broken[-1][0], SPARES, broken[-1][1]))
        arrays = self._specification.batch_of(tuple(zip(*samples)), shape, seeds)
        return batch_of(self._specification, arrays)


def listed(root, split):
    """The names of the split's pictures. Raises BadData."""
    if not os.path.isdir(root):
        raise BadData("data.root=%s is no folder: name the one that holds Annotations and JPEGImages" % root)
    path = os.path.join(root, "ImageSets", "Main", split + ".txt")
    try:
        with open(path, "rb") as file:
            lines = file.read().decode("utf-8").split("\n")
    except OSError as error:
        folder = os.path.dirname(path)
        lists = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        here = ", ".join(name[:-4] for name in lists if name.endswith(".txt") and "_" not in name) or "none"
        raise BadData("%s can't be read (%s): data.split can be %s" % (path, error.strerror, here))
    except UnicodeDecodeError as error:
        raise BadData(
            "%s is not UTF-8 (byte 0x%02x): it must be a picture's name a line" % (path, error.object[error.start])
        )
    names = [line.strip() for line in lines if line.strip()]
    for number, name in enumerate(names, 1):
        if not re.match(r"[\w.-]+\Z", name):
            raise BadData("%s, line %d is no picture's name (%s): it must be a name a line" % (path, number, name[:40]))
    if not names:
        raise BadData("%s names no picture" % path)
    return names


def content_of(path):
    """The bytes of an annotation. Raises ValueError where it is larger than any can be."""
    with open(path, "rb") as file:
        content = file.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise ValueError("larger than %d bytes" % LONGEST)
    return content


def annotation(content):
    """The Annotation of a file's bytes. Raises ValueError where it is not one of VOC's.

    Entities can only be declared in a DOCTYPE, which none of VOC's files has: none is read, inner or outer.
    """
    text = content.decode("utf-8")
    if "<!DOCTYPE" in text:
        raise ValueError("it has a DOCTYPE, which no annotation of VOC's has")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError("not XML: %s" % error)
    size = tuple(int(number(root, "size/" + side)) for side in ("width", "height"))
    if min(size) < 1:
        raise ValueError("the picture is %d x %d pixels" % size)
    boxes, classes, difficult = [], [], 0
    for found in root.findall("object"):
        name = (found.findtext("name") or "").strip()
        if name not in CLASSES:
            raise ValueError("class %s is none of VOC's: %s" % (name[:40] or "''", ", ".join(CLASSES)))
        box = edges(found, size)
        if (found.findtext("difficult") or "0").strip() == "1":
            difficult += 1
        else:
            boxes.append(box)
            classes.append(1 + CLASSES.index(name))
    boxes = numpy.array(boxes, numpy.float64).reshape(-1, 4)
    return Annotation(size, boxes, numpy.array(classes, numpy.int32), difficult)


def edges(found, size):
    """(x1, y1, x2, y2) of an object with continuous edges. VOC counts pixels from 1 and names the last one.

    Up to a pixel beyond the picture is cut off: some tools count from 0.
    """
    box = [number(found, "bndbox/" + side) for side in ("xmin", "ymin", "xmax", "ymax")]
    x1, y1, x2, y2 = box[0] - 1, box[1] - 1, box[2], box[3]
    width, height = size
    if not (-1 <= x1 and -1 <= y1 and x2 <= width + 1 and y2 <= height + 1):
        raise ValueError("a box (%g, %g, %g, %g) reaches beyond the picture's %d x %d pixels" % tuple(box + list(size)))
    x1, y1, x2, y2 = max(x1, 0), max(y1, 0), min(x2, width), min(y2, height)
    if not (x1 < x2 and y1 < y2):
        raise ValueError("a box (%g, %g, %g, %g) has no area" % tuple(box))
    return x1, y1, x2, y2


def number(element, path):
    """The finite number that the element has at `path`. Raises ValueError."""
    text = element.findtext(path)
    if text is None:
        raise ValueError("%s has no %s" % (element.tag, path))
    value = float(text)
    if not numpy.isfinite(value):
        raise ValueError("%s is %s" % (path, text.strip()[:40]))
    return value
