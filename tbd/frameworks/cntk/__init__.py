"""CNTK: what is known of it without importing it (tbd/frameworks/__init__.py). The adapter is adapter.py."""

DEVICES = ("cpu",)
NOT_ON = {
    "gpu": (
        "the wheel of its last release for GPUs (cntk-gpu 2.7, CUDA 10.0) holds machine code for compute capabilities "
        "up to 7.5, and was not tried on any"
    )
}
PRECISIONS = {"cpu": ("fp32", "fp64")}
COMPILE = ("network",)
WITHOUT = {
    ("transformer", None, None): "transformer is not written in CNTK yet",
    ("wgan", None, None): (
        "CNTK has no gradient of a gradient, which the penalty of model.lipschitz=gradient_penalty takes; "
        "weight_clipping is not written in CNTK yet"
    ),
}
