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
WITHOUT = {
    ("a3c", None, None): "a3c is not written in MXNet yet",
    ("deep_speech2", None, None): "deep_speech2 is not written in MXNet yet",
    ("faster_rcnn", None, None): "faster_rcnn is not written in MXNet yet",
    ("inception_v3", None, None): "inception_v3 is not written in MXNet yet",
    ("seq2seq", None, None): "seq2seq is not written in MXNet yet",
    ("transformer", None, None): "transformer is not written in MXNet yet",
    ("wgan", None, None): "wgan is not written in MXNet yet",
}
