"""torchvision's FasterRCNN put together as the specification is, its ResNet-101, anchors, sampling and losses included.

It assigns anchors to boxes within the step, where our data source has done so, scores an object by one number instead
of two, and draws what it samples itself. Where torchvision's C++ operators don't load (vision.py), non-maximum
suppression and ROI align are plain PyTorch here: together under a tenth of a step on a CPU.
"""

import torch
from torch import nn
from torch.nn import functional

from peers.pytorch import loop, vision

SOURCE = "torchvision.models.detection.FasterRCNN with its resnet101"
STRIDE = 16


class Head(nn.Module):
    """torchvision's RPNHead, whose width is that of the features, with a width of its own."""

    def __init__(self, channels, width, anchors):
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3, padding=1)
        self.score, self.delta = nn.Conv2d(width, anchors, 1), nn.Conv2d(width, 4 * anchors, 1)

    def forward(self, features):
        x = functional.relu(self.conv(features[0]))
        return [self.score(x)], [self.delta(x)]


class LastStage(nn.Module):
    def __init__(self, layer4):
        super().__init__()
        self.layer4 = layer4

    def forward(self, x):
        return self.layer4(x).mean((2, 3))


class Ready(nn.Module):
    """Instead of GeneralizedRCNNTransform: the pictures have their size already."""

    def forward(self, images, targets):
        from torchvision.models.detection.image_list import ImageList

        return ImageList(images, [target["size"] for target in targets]), targets

    def postprocess(self, detections, image_shapes, original_image_sizes):
        return detections


class Pool(nn.Module):
    """ROI align with a sample a bin, by grid_sample."""

    def __init__(self, pooled):
        super().__init__()
        self.pooled = pooled

    def forward(self, features, proposals, image_shapes):
        found = []
        for of_picture, regions in zip(features["0"], proposals, strict=True):
            height, width = of_picture.shape[1:]
            bins = (torch.arange(self.pooled, device=regions.device) + 0.5) / self.pooled
            x, y = (
                (regions[:, n, None] + bins * (regions[:, n + 2] - regions[:, n])[:, None]) / STRIDE / size * 2 - 1
                for n, size in ((0, width), (1, height))
            )
            # the bins of all regions, one under another, of one picture
            y, x = torch.broadcast_tensors(y[:, :, None], x[:, None, :])
            grid = torch.stack([x, y], -1).to(of_picture.dtype).view(1, -1, self.pooled, 2)
            one = functional.grid_sample(of_picture[None], grid, padding_mode="border", align_corners=False)
            one = one.view(len(of_picture), -1, self.pooled, self.pooled)
            found.append(one.transpose(0, 1).contiguous(memory_format=torch.channels_last))
        return torch.cat(found)


def suppressed(boxes, scores, threshold):
    """Indices of the boxes that non-maximum suppression keeps, best first."""
    from torchvision.ops import box_iou

    order, kept = scores.argsort(descending=True), []
    while len(order):
        kept.append(order[0])
        overlaps = box_iou(boxes[order[:1]], boxes[order[1:]])[0]
        order = order[1:][overlaps <= threshold]
    return torch.stack(kept) if kept else order


def build(options, batch_size, device, precision, compile):
    if (options["width"], options["blocks"]) != (64, "3,4,23,3"):
        raise ValueError("torchvision's resnet101 has the full size alone")
    models = vision.models()
    from torchvision import extension, ops
    from torchvision.models.detection import FasterRCNN
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.models.detection.faster_rcnn import FastRCNNPredictor

    resnet = models.resnet101(norm_layer=ops.FrozenBatchNorm2d)
    for part in (resnet.conv1, resnet.layer1):
        part.requires_grad_(False)
    stem = resnet.conv1, resnet.bn1, resnet.relu, resnet.maxpool
    backbone = nn.Sequential(*stem, resnet.layer1, resnet.layer2, resnet.layer3)
    backbone.out_channels = 1024
    scales, ratios = [STRIDE * int(scale) for scale in options["scales"].split(",")], (0.5, 1.0, 2.0)
    network = FasterRCNN(
        backbone,
        rpn_anchor_generator=AnchorGenerator((tuple(scales),), (ratios,)),
        rpn_head=Head(1024, options["rpn_width"], len(scales) * len(ratios)),
        rpn_pre_nms_top_n_train=options["before_nms"],
        rpn_post_nms_top_n_train=options["proposals"],
        rpn_batch_size_per_image=options["sampled"],
        box_roi_pool=ops.MultiScaleRoIAlign(["0"], options["pooled"], sampling_ratio=1),
        box_head=LastStage(resnet.layer4),
        box_predictor=FastRCNNPredictor(2048, options["classes"] + 1),
        box_batch_size_per_image=options["regions"],
        bbox_reg_weights=(10.0, 10.0, 5.0, 5.0),
    )
    if not extension._has_ops():
        ops.boxes.nms, network.roi_heads.box_roi_pool = suppressed, Pool(options["pooled"])
    network.rpn.min_size = options["smallest"]
    network.transform = Ready()

    def loss(network, inputs):
        images = inputs["images"].permute(0, 3, 1, 2)
        targets = []
        for size, boxes, classes in zip(inputs["sizes"], inputs["boxes"], inputs["classes"], strict=True):
            real = classes > 0  # on the host, as torchvision's targets come
            own = {"boxes": boxes[real].to(images.device), "labels": classes[real].long().to(images.device)}
            targets.append(dict(own, size=tuple(size.tolist())))
        return sum(network(images, targets).values())

    def optimizer(parameters):
        return torch.optim.SGD(parameters, 0.001 * batch_size, momentum=0.9, weight_decay=5e-4)

    on_host = ("sizes", "boxes", "classes", "scales", "anchor_labels", "anchor_targets", "region_order")
    return loop.build(network, loss, optimizer, device, precision, compile, on_host=on_host)
