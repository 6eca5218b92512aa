"""PyTorch: what is known of it without importing it (tbd/frameworks/__init__.py). The adapter is adapter.py."""

DEVICES = ("cpu", "gpu")
PRECISIONS = {"cpu": ("fp32", "fp64", "bf16", "fp16"), "gpu": ("fp32", "tf32", "bf16", "fp16", "fp64")}
COMPILE = ("eager", "inductor")
TOGETHER = ("cpu", "gpu")
WITHOUT = {}
UNCOMPILED = {
    "inductor": {
        ("wgan", "lipschitz", "gradient_penalty"): (
            "compile=inductor: torch.compile has no gradients of second order, which the gradient penalty needs: use "
            "compile=eager"
        ),
    }
}
