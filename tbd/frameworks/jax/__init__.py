"""JAX: what is known of it without importing it (tbd/frameworks/__init__.py). The adapter is adapter.py."""

DEVICES = ("cpu",)  # the code for a GPU is here, but its figures are not right yet: device times, device memory
PRECISIONS = ("fp32", "fp64")
WITHOUT = {}
