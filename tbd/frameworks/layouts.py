"""From a parameter's canonical layout to that of the frameworks with channels last, TensorFlow and JAX, and back."""

import numpy

# the axes of the canonical array in the order there: OIHW -> HWIO, (out, in) -> (in, out)
TO_NATIVE = {"conv": (2, 3, 1, 0), "dense": (1, 0)}


def native(array, kind):
    """A C-ordered array in their layout from a canonical one of the parameter kind."""
    axes = TO_NATIVE.get(kind)
    return numpy.ascontiguousarray(array if axes is None else array.transpose(axes))


def canonical(array, kind):
    """The inverse of native()."""
    axes = TO_NATIVE.get(kind)
    return numpy.ascontiguousarray(array if axes is None else array.transpose(numpy.argsort(axes)))
