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
TOGETHER = ("cpu",)
WITHOUT = {
    ("wgan", "lipschitz", "gradient_penalty"): (
        "CNTK 2.7 has no gradients of gradients, which the gradient penalty needs: use model.lipschitz=weight_clipping"
    ),
}
