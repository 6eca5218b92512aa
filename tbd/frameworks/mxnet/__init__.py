"""MXNet: what is known of it without importing it (tbd/frameworks/__init__.py). The adapter is adapter.py."""

DEVICES = ("cpu",)
NOT_ON = {
    "gpu": (
        "the wheels of its last release for GPUs (mxnet-cu112 and mxnet-cu117 1.9.1) hold machine code for compute "
        "capabilities up to 8.6, and no PTX of which a newer GPU's driver could make its own"
    )
}
PRECISIONS = {"cpu": ("fp32", "fp64")}
COMPILE = ("symbol",)
TOGETHER = ("cpu",)
WITHOUT = {
    ("wgan", "lipschitz", "gradient_penalty"): (
        "MXNet 1.9.1 has no second-order gradients of convolutions, activations and layer norm, which the gradient "
        "penalty needs: use model.lipschitz=weight_clipping"
    ),
}
