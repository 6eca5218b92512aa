"""The package torchvision."""

import torch


def models():
    """torchvision.models.

    PyPI's torchvision is built for CUDA: beside a CPU build of PyTorch its C++ operators can't load, and its import
    fails where it gives shapes to those that it takes for loaded. Naming these is enough for networks without them.
    """
    try:
        import torchvision
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        models.library = library  # as long as this lives
        import torchvision
    return torchvision.models
