"""Faster R-CNN with ResNet-101, trained end to end: region proposals and the detector that classifies them.

Sources: Ren et al., arXiv 1506.01497 (the method); He et al., arXiv 1512.03385, table 1 and appendix A (ResNet-101,
its last stage upon the regions); their code, py-faster-rcnn, for the constants; MXNet's example/rcnn for ResNet-101:
128 regions of 14 x 14, stride 2 in the last stage. Named where it is used: what is of another source.

Boxes are (x1, y1, x2, y2) in pixels with continuous edges (anchors.py); index 0 of classes is the background.

    backbone  conv1 7x7 / 2 (64), max-pool 3x3 / 2, stages 1 to 3 of bottlenecks: stride 16. The blocks are resnet50's
              here (stride on the 3x3). Batch norm is frozen: y = (x - running_mean) / sqrt(running_var + 1e-5) * weight
              + bias, with constants. conv1 and stage 1 are frozen too.
    rpn       t = relu(conv 3x3 (512) + bias); score = conv 1x1 + bias; delta = conv 1x1 + bias. Of the 9 anchors a of a
              place, channels 2a, 2a + 1 of score are background and object, channels 4a to 4a + 3 of delta dx, dy, dw,
              dh. The anchors are numbered row by row, place by place, anchor by anchor.
    proposals of each picture, constants in training: no gradient goes through their scores or places.
              margin = score of object - score of background: the order of softmax's probability
              centre = anchor's centre + (dx, dy) size; size = anchor's size exp(min((dw, dh), log(1000 / 16))), where
                the bound is Detectron's; cut to the real picture
              left out: places whose corner (16 column, 16 row) is beyond the real picture; sides below `smallest` times
                the picture's scale
              the `before_nms` of largest margin, the first of equal ones first; of these, in this order, each that
                overlaps no kept one by more than 0.7; the first `proposals` of them. Margins, places and overlaps are
                float32 at least
    regions   the candidates are the proposals and then the real boxes. Each takes the box that it overlaps most, the
                first of equal ones: with 0.5 or more it is an object of the box's class, else background (BG_THRESH_LO
                is 0 in py-faster-rcnn's end-to-end settings and in MXNet's). In the order `region_order`: the first
                objects, up to a quarter of `regions`, and the first backgrounds, up to `regions` in all
    pooling   each region's `pooled` x `pooled` features: those at the bins' centres, interpolated linearly in both
                directions (ROI align with one sample a bin: He et al., arXiv 1703.06870, section 3, find it nearly as
                good as four). Bin i of n has its centre at feature (y1 + (i + 0.5) (y2 - y1) / n) / 16 - 0.5, moved
                onto the first or last feature where it is before or behind it
    head      stage 4 (stride 2) upon them, mean over height and width, dense to classes + 1 scores and to a delta for
                each class, in units of DEVIATIONS
    loss, of each picture, its mean over the batch:
              mean cross-entropy of the sampled anchors
              + sum of smooth L1 (sigma 3) of the positive anchors' deltas / number of sampled anchors
              + mean cross-entropy of the sampled regions
              + sum of smooth L1 (sigma 1) of the objects' deltas of their class / number of sampled regions
              smooth L1(x) = (sigma x)^2 / 2 where |x| < 1 / sigma^2, else |x| - 1 / (2 sigma^2); in float32 at least

A batch: images (batch, H, W, 3); sizes (batch, 2) int32, height and width of the real picture, which lies at the top
left, zeros around it; scales (batch,), the network's pixels a pixel of the picture; boxes (batch, `boxes`, 4) and
classes (batch, `boxes`) int32, class 0 where there is no box; anchor_labels (batch, anchors) int32 and anchor_targets
(batch, anchors, 4), both of anchors.py, with the sampled anchors in them; region_order (batch, proposals + boxes)
int32, a permutation.
"""

import collections
import math
import re

import numpy

from tbd.data import kinds
from tbd.data.options import Option
from tbd.models.faster_rcnn import anchors
from tbd.models.specification import Specification, parameter, sgd

EXPANSION = 4  # a bottleneck's output has 4 times its width (arXiv 1512.03385, table 1)
PLACE = len(anchors.RATIOS)  # anchors of a place for each scale
RESIDUAL_GAIN = 0.2  # see parameters

# One convolution: its arrays' prefix, channels, kernel and stride; `reduction`, the stride of its output in pixels; and
# whether it is frozen.
Layer = collections.namedtuple("Layer", "name channels out kernel stride reduction frozen")


class FasterRCNN(Specification):
    name = "faster_rcnn"
    unit = "images"
    source = "arXiv 1506.01497; arXiv 1512.03385 appendix A; py-faster-rcnn; MXNet example/rcnn"
    SIZES = {
        "full": {
            "shorter": 600,
            "longer": 1000,
            "classes": 20,
            "boxes": 64,
            "width": 64,
            "blocks": "3,4,23,3",
            "rpn_width": 512,
            "scales": "8,16,32",
            "sampled": 256,
            "smallest": 16.0,
            "before_nms": 12000,
            "proposals": 2000,
            "regions": 128,
            "pooled": 14,
        },
        "small": {
            "shorter": 60,
            "longer": 100,
            "classes": 3,
            "boxes": 4,
            "width": 8,
            "blocks": "1,1,1,1",
            "rpn_width": 16,
            "scales": "1,2,3",
            "sampled": 32,
            "smallest": 4.0,
            "before_nms": 60,
            "proposals": 20,
            "regions": 8,
            "pooled": 6,
        },
    }
    OPTIONS = dict(
        {name: Option(int, 1) for name in SIZES["full"] if name not in ("blocks", "scales", "smallest")},
        blocks=Option(str),
        scales=Option(str),
        smallest=Option(float, 0.0),
    )
    takes = (kinds.BOXED_PICTURES,)
    wide = ("scales", "boxes", "anchor_targets")

    batch_norm_epsilon = 1e-5
    nms_threshold = 0.7
    object_overlap = 0.5
    object_share = 0.25
    deviations = (0.1, 0.1, 0.2, 0.2)  # of the head's dx, dy, dw, dh: py-faster-rcnn's BBOX_NORMALIZE_STDS
    largest_growth = math.log(1000.0 / 16)
    rpn_sigma = 3.0
    head_sigma = 1.0
    bin_offset = 0.5  # feature k lies at k + 0.5 of the features' own edges

    @property
    def blocks(self):
        """Bottlenecks in each of the four stages."""
        return [int(count) for count in self.options["blocks"].split(",")]

    @property
    def scales(self):
        """The anchors' scales."""
        return [int(scale) for scale in self.options["scales"].split(",")]

    @property
    def anchors_of_a_place(self):
        return PLACE * len(self.scales)

    def check(self, batch_size):
        for option, rest, form in (
            (
                "blocks",
                "(,[1-9][0-9]*){3}",
                "four whole numbers of at least 1 with commas between them, such as 3,4,6,3",
            ),
            ("scales", "(,[1-9][0-9]*)*", "whole numbers of at least 1 with commas between them, such as 8,16,32"),
        ):
            if not re.match("[1-9][0-9]*" + rest + r"\Z", self.options[option]):
                raise ValueError("model.%s=%s must be %s" % (option, self.options[option], form))
        if self.options["longer"] < self.options["shorter"]:
            message = "model.longer=%d must not be below model.shorter=%d"
            raise ValueError(message % (self.options["longer"], self.options["shorter"]))
        candidates = self.options["proposals"] + self.options["boxes"]
        if self.options["regions"] > candidates:
            message = "model.regions=%d are more than model.proposals and model.boxes together, %d"
            raise ValueError(message % (self.options["regions"], candidates))

    @property
    def backbone(self):
        """The Layers down to stride 16."""
        stem = Layer("conv1", 3, self.options["width"], 7, 2, 2, frozen=True)
        return [stem] + [layer for stage in (1, 2, 3) for layer in self.stage(stage)]

    def stage(self, stage):
        """The Layers of a stage of bottlenecks, 1 to 4. Stage 4 is the head's."""
        middle, frozen, layers = self.options["width"] * 2 ** (stage - 1), stage == 1, []
        channels = self.options["width"] if stage == 1 else self.features(stage - 1)
        after = 2 ** (stage + 1)  # the stage's output has this stride
        for block in range(self.blocks[stage - 1]):
            stride = 2 if block == 0 and stage > 1 else 1
            prefix = "layer%d.%d." % (stage, block)
            layers.append(Layer(prefix + "conv1", channels, middle, 1, 1, after // stride, frozen))
            layers.append(Layer(prefix + "conv2", middle, middle, 3, stride, after, frozen))
            layers.append(Layer(prefix + "conv3", middle, middle * EXPANSION, 1, 1, after, frozen))
            if block == 0:
                layers.append(Layer(prefix + "downsample.0", channels, middle * EXPANSION, 1, stride, after, frozen))
            channels = middle * EXPANSION
        return layers

    def features(self, stage):
        """Channels that a stage gives."""
        return self.options["width"] * 2 ** (stage - 1) * EXPANSION

    @property
    def parameters(self):
        found = []
        for layer in self.backbone + self.stage(4):
            # He et al., arXiv 1502.01852, equation 10 (fan-in): variance 2 / (kernel area x in channels). Frozen batch
            # norm rescales nothing: a gain of 0.2 upon each block's residual, in place of what training would have
            # left there, keeps the sums of 33 blocks within a few times their beginning
            deviation = math.sqrt(2.0 / (layer.kernel * layer.kernel * layer.channels))
            shape = (layer.out, layer.channels, layer.kernel, layer.kernel)
            role = "frozen" if layer.frozen else "weight"
            found.append(parameter(layer.name + ".weight", shape, "conv", ("normal", deviation), role=role))
            norm = batch_norm_of(layer.name)
            gain = RESIDUAL_GAIN if norm.endswith("bn3") else 1.0
            for array, value, role in (
                ("weight", gain, "frozen"),
                ("bias", 0.0, "frozen"),
                ("running_mean", 0.0, "statistic"),
                ("running_var", 1.0, "statistic"),
            ):
                found.append(parameter(norm + "." + array, (layer.out,), "vector", ("constant", value), role=role))
        places, width, classes = self.anchors_of_a_place, self.options["rpn_width"], self.options["classes"] + 1
        # 0.01 and 0.001 as in py-faster-rcnn's train.prototxt; biases have no weight decay there
        for name, shape, deviation in (
            ("rpn.conv", (width, self.features(3), 3, 3), 0.01),
            ("rpn.score", (2 * places, width, 1, 1), 0.01),
            ("rpn.delta", (4 * places, width, 1, 1), 0.01),
            ("head.score", (classes, self.features(4)), 0.01),
            ("head.delta", (4 * classes, self.features(4)), 0.001),
        ):
            kind = "conv" if len(shape) == 4 else "dense"
            found.append(parameter(name + ".weight", shape, kind, ("normal", deviation)))
            found.append(parameter(name + ".bias", shape[:1], "vector", ("constant", 0.0), decay=False))
        return found

    def optimizer(self, batch_size):
        # py-faster-rcnn's solver and MXNet's example: 0.001 a picture, momentum 0.9, weight decay 0.0005; several
        # pictures scale it linearly (arXiv 1706.02677)
        return sgd(learning_rate=0.001 * batch_size, momentum=0.9, weight_decay=5e-4)

    def synthetic_batch(self, batch_size, random):
        """Noise with one to three rectangles of their class's own colour: pictures of 4:3, all of one shape."""
        shorter, classes = self.options["shorter"], self.options["classes"]
        height, width = shorter, min(shorter * 4 // 3, self.options["longer"])
        colours = numpy.random.RandomState(0).standard_normal((classes + 1, 3))
        samples = []
        for _ in range(batch_size):
            picture = random.standard_normal((height, width, 3)).astype(numpy.float32)
            count = random.randint(1, 1 + min(3, self.options["boxes"]))
            chosen = random.randint(1, 1 + min(classes, 10), count).astype(numpy.int32)
            sides = (random.uniform(0.25, 0.6, (count, 2)) * (width, height)).astype(int)
            corners = (random.uniform(size=(count, 2)) * ((width, height) - sides)).astype(int)
            for label, (x, y), (across, down) in zip(chosen, corners, sides):
                picture[y : y + down, x : x + across] += colours[label]
            boxes = numpy.concatenate([corners, corners + sides], 1).astype(numpy.float32)
            samples.append((picture, boxes, chosen, 1.0))
        seeds = [[int(n)] for n in random.randint(0, 2**31 - 1, batch_size)]
        return self.batch_of(list(zip(*samples)), self.shape_of(height, width), seeds)

    def form(self, kind):
        o = self.options
        return kinds.BoxedPictures(shorter=o["shorter"], longer=o["longer"], classes=o["classes"], boxes=o["boxes"])

    def shapes_of(self, samples, longest):
        """The (height, width) that each picture is padded to; `samples` are the columns (heights, widths)."""
        return [self.shape_of(height, width) for height, width in zip(*samples)]

    def shape_of(self, height, width):
        """The shorter side padded to a whole stride, the longer one to one of five lengths: nine shapes in all.

        Most of VOC's pictures are 500 x 375 or 500 x 333 or a few pixels beside it: 4:3 and 3:2 have a length of their
        own, a little above them.
        """
        shorter, longer = self.options["shorter"], self.options["longer"]
        lengths = sorted(whole(min(shorter * ratio, longer)) for ratio in (1, 7 / 6.0, 1.35, 1.51, longer))
        longer = next(length for length in lengths if length >= max(height, width))
        return (longer, whole(shorter)) if height > width else (whole(shorter), longer)

    def batch_of(self, samples, shape, seeds):
        """The arrays of the module's docstring; samples are (picture, boxes, classes, scale) columns."""
        height, width = shape
        o, rows = self.options, len(seeds)
        grid = anchors.anchor_grid(height // anchors.STRIDE, width // anchors.STRIDE, self.scales)
        batch = {
            "images": numpy.zeros((rows, height, width, 3), numpy.float32),
            "sizes": numpy.array([picture.shape[:2] for picture in samples[0]], numpy.int32),
            "scales": numpy.array(samples[3], numpy.float32),
            "boxes": numpy.zeros((rows, o["boxes"], 4), numpy.float32),
            "classes": numpy.zeros((rows, o["boxes"]), numpy.int32),
            "anchor_labels": numpy.empty((rows, len(grid)), numpy.int32),
            "anchor_targets": numpy.empty((rows, len(grid), 4), numpy.float32),
            "region_order": numpy.empty((rows, o["proposals"] + o["boxes"]), numpy.int32),
        }
        for row, (picture, boxes, classes, _) in enumerate(zip(*samples)):
            random = numpy.random.RandomState(seeds[row])
            real_height, real_width = picture.shape[:2]
            batch["images"][row, :real_height, :real_width] = picture
            batch["boxes"][row, : len(boxes)] = boxes
            batch["classes"][row, : len(boxes)] = classes
            batch["anchor_labels"][row], batch["anchor_targets"][row] = anchors.anchor_targets(
                grid, boxes.astype(numpy.float64), real_height, real_width, o["sampled"], random
            )
            batch["region_order"][row] = random.permutation(batch["region_order"].shape[1])
        return batch

    def items(self, arrays):
        boxes = int((arrays["classes"] > 0).sum())
        return collections.OrderedDict([("images", len(arrays["classes"])), ("boxes", boxes)])

    def macs(self, arrays):
        return sum(self.macs_of(height, width)[0] for height, width in arrays["sizes"].tolist())

    def flops(self, arrays):
        return sum(2 * self.macs_of(height, width)[1] for height, width in arrays["sizes"].tolist())

    def work(self, arrays):
        rows, height, width, _ = arrays["images"].shape
        return 2 * rows * self.macs_of(height, width)[1]

    def macs_of(self, height, width):
        """Multiply-accumulates of a picture of that size: (forward, the whole step), `regions` regions always.

        A step's products are three a layer: forward, gradient by the weights, gradient by the input. The frozen layers
        have the first alone; stage 2's first two convolutions, whose input comes from frozen layers, have no third.
        Anchors, proposals, sampling and pooling are left out: no products of matrices.
        """
        o, places = self.options, area(height, width, anchors.STRIDE)
        regions = o["regions"]
        outputs = 5 * (o["classes"] + 1)  # of the head
        works = [  # (multiply-accumulates of a product, products of a step)
            (places * 9 * self.features(3) * o["rpn_width"], 3),
            (places * o["rpn_width"] * 6 * self.anchors_of_a_place, 3),
            (regions * self.features(4) * outputs, 3),
        ]
        for layer in self.backbone:
            products = 1 if layer.frozen else 2 if layer.name in ("layer2.0.conv1", "layer2.0.downsample.0") else 3
            works.append((area(height, width, layer.reduction) * weights_of(layer), products))
        for layer in self.stage(4):
            bins = area(o["pooled"], o["pooled"], layer.reduction // anchors.STRIDE)
            works.append((regions * bins * weights_of(layer), 3))
        return sum(work for work, _ in works), sum(work * products for work, products in works)


def area(height, width, reduction):
    """Places of a layer's output over height x width, where each halving rounds up."""
    return -(-height // reduction) * -(-width // reduction)


def weights_of(layer):
    return layer.kernel * layer.kernel * layer.channels * layer.out


def batch_norm_of(convolution):
    """The name of the batch norm that follows a convolution: conv1 -> bn1, downsample.0 -> downsample.1."""
    if convolution.endswith("downsample.0"):
        return convolution[:-1] + "1"
    return convolution.replace("conv", "bn")


def whole(length):
    """The length, in pixels, rounded up to a whole stride."""
    return -(-int(math.ceil(length)) // anchors.STRIDE) * anchors.STRIDE


SPECIFICATION = FasterRCNN
