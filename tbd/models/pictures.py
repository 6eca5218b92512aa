"""What the models that classify pictures have in common."""

import collections

import numpy

from tbd.data import kinds
from tbd.models.specification import Specification


class PictureClassifier(Specification):
    """A model with the options `image_size` (pixels, height = width) and `classes`.

    A batch: images (batch, image_size, image_size, 3) float32, labels (batch,) int32.
    """

    unit = "images"
    takes = (kinds.LABELLED_PICTURES,)

    def synthetic_batch(self, batch_size, random):
        """Images of unit noise plus their class's own colour tilt."""
        size, classes = self.options["image_size"], self.options["classes"]
        labels = random.randint(0, min(classes, 10), batch_size).astype(numpy.int32)
        tilt = numpy.random.RandomState(0).standard_normal((min(classes, 10), 1, 1, 3))
        images = random.standard_normal((batch_size, size, size, 3)) + tilt[labels]
        return {"images": images.astype(numpy.float32), "labels": labels}

    def form(self, kind):
        return kinds.LabelledPictures(size=self.options["image_size"], classes=self.options["classes"])

    def batch_of(self, samples, shape, seeds):
        images, labels = samples
        return {"images": images, "labels": labels}

    def items(self, arrays):
        return collections.OrderedDict(images=len(arrays["labels"]))
