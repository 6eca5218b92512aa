"""One picture at a time: decode a JPEG, crop or scale, flip and normalise it. What reading processes run.

Pillow is imported here and by nothing else.
"""

import collections

import numpy
from PIL import Image

from tbd.data.decoded import first_readable

# Szegedy et al., arXiv 1409.4842, section 6: a crop of 8 % to 100 % of the area, its aspect ratio in [3/4, 4/3]
AREA = (0.08, 1.0)
RATIO = (3.0 / 4.0, 4.0 / 3.0)
TRIES = 10  # then the whole picture's centre, as in fb.resnet.torch's RandomSizedCrop (datasets/transforms.lua)
# mean and standard deviation of ImageNet's training pictures, RGB in 0..1 (fb.resnet.torch, datasets/imagenet.lua)
MEAN = numpy.array([0.485, 0.456, 0.406], numpy.float32)
DEVIATION = numpy.array([0.229, 0.224, 0.225], numpy.float32)

# What to read: `seed` a list of ints for numpy's RandomState, which chooses the crop and the flip.
Picture = collections.namedtuple("Picture", "path label seed")

# What to read with its boxes: `size` (width, height) that the file should have, `scaled` (height, width) to make of it,
# `scale` the latter's pixels a pixel of the file; boxes float64 (n, 4) in the file's pixels, classes int32 (n,); `seed`
# for whether to flip it.
BoxedPicture = collections.namedtuple("BoxedPicture", "path size scaled scale boxes classes seed")


def read_batch(request):
    """(images, labels, broken) of `request`, which is (rows, size), each row a list of Pictures.

    Of each row the first picture that can be read: images (rows, size, size, 3) float32, labels (rows,) int32; and
    [(path, what is wrong)] of those before them that can't. The arrays end before a row of which none can.
    """
    rows, size = request
    images, labels, broken = numpy.empty((len(rows), size, size, 3), numpy.float32), [], []
    for row, pictures in enumerate(rows):

        def cropped(picture, row=row):
            images[row] = read(picture.path, size, numpy.random.RandomState(picture.seed))
            return picture.label

        label = first_readable(pictures, cropped, broken)
        if label is None:
            break
        labels.append(label)
    return images[: len(labels)], numpy.array(labels, numpy.int32), broken


def read_boxed_batch(request):
    """(samples, shape, broken) of `request`, which is (rows, shape), each row a list of BoxedPictures to try.

    samples: (picture, boxes, classes, scale), tbd/data/kinds.py's BOXED_PICTURES, of each row's first picture that can
    be read, up to a row of which none can; broken as above.
    """
    rows, shape = request
    samples, broken = [], []
    for candidates in rows:
        sample = first_readable(candidates, read_boxed, broken)
        if sample is None:
            break
        samples.append(sample)
    return samples, shape, broken


def read_boxed(boxed):
    """The sample (picture, boxes, classes, scale) of a BoxedPicture, flipped by chance."""
    height, width = boxed.scaled
    with Image.open(boxed.path) as picture:
        if picture.size != boxed.size:
            raise ValueError("it is %d x %d pixels, its annotation says %d x %d" % (picture.size + boxed.size))
        scaled = picture.convert("RGB").resize((width, height), Image.BILINEAR)
    factors = numpy.array([width / float(boxed.size[0]), height / float(boxed.size[1])] * 2)
    boxes = boxed.boxes * factors
    if numpy.random.RandomState(boxed.seed).randint(2):
        scaled = scaled.transpose(Image.FLIP_LEFT_RIGHT)
        boxes = numpy.stack([width - boxes[:, 2], boxes[:, 1], width - boxes[:, 0], boxes[:, 3]], 1)
    return normalised(scaled), boxes.astype(numpy.float32), boxed.classes, boxed.scale


def read(path, size, random):
    """A random crop of the picture at `path`, flipped by chance and normalised: (size, size, 3) float32."""
    with Image.open(path) as picture:
        width, height = picture.size
        left, top, crop_width, crop_height = crop(width, height, random)
        # let the JPEG decoder itself scale down, by 2, 4 or 8, as long as the crop keeps `size` pixels a side
        picture.draft("RGB", (-(-width * size // crop_width), -(-height * size // crop_height)))
        across, down = picture.size[0] / float(width), picture.size[1] / float(height)
        box = (left * across, top * down, (left + crop_width) * across, (top + crop_height) * down)
        scaled = picture.convert("RGB").resize((size, size), Image.BILINEAR, box=box)
    if random.randint(2):
        scaled = scaled.transpose(Image.FLIP_LEFT_RIGHT)
    return normalised(scaled)


def normalised(picture):
    """(height, width, 3) float32: minus ImageNet's mean, divided by its standard deviation."""
    return (numpy.asarray(picture, numpy.float32) / 255.0 - MEAN) / DEVIATION


def crop(width, height, random):
    """(left, top, width, height) in pixels of a random crop; the aspect ratio's logarithm is uniform."""
    for _ in range(TRIES):
        area = width * height * random.uniform(*AREA)
        ratio = numpy.exp(random.uniform(*numpy.log(RATIO)))
        crop_width, crop_height = int(round((area * ratio) ** 0.5)), int(round((area / ratio) ** 0.5))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            left = random.randint(width - crop_width + 1)
            return left, random.randint(height - crop_height + 1), crop_width, crop_height
    crop_width, crop_height = min(width, int(height * RATIO[1])), min(height, int(width / RATIO[0]))
    return (width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height
