"""TensorFlow: what is known of it without importing it (tbd/frameworks/__init__.py). The adapter is adapter.py."""

DEVICES = ("cpu",)
PRECISIONS = {"cpu": ("fp32", "fp64")}
COMPILE = ("graph",)
WITHOUT = {}
