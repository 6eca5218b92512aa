"""What the tests must know of seq2seq."""

import numpy

from tests.parity.fault import Fault

# (17191 + 7709 + 7709) x 512 of vocabulary and the rest by hand: encoder 2 x 2048 x (512 + 512 + 1), decoder
# 2048 x (1024 + 512 + 1) + 2048 x (512 + 512 + 1), attention 2 x 512 x 512 + 512 + 512 x 1024
PARAMETERS = 27_190_272
MEMORY_OPTIONS = {"width": 64}
LEARNING_STEPS = 300  # of Adam at 3e-4: each moves a weight by 3e-4 at most


def full(arrays):
    """Every sentence as long as its row."""
    rows = len(arrays["source"])
    lengths = {
        name: numpy.full(rows, arrays[other].shape[1], numpy.int32)
        for name, other in (("source_length", "source"), ("target_length", "target_input"))
    }
    return dict(arrays, **lengths)


def spread(specification, found):
    """The weights are uniform within 0.1 at any width: for a narrow network, spread as at its full width of 512.

    A narrow network's sums are else so small that every tanh is linear, the gradients of the attention nearly vanish,
    and rounding alone decides where Adam moves.
    """
    factor = numpy.float32((512.0 / specification.options["width"]) ** 0.5)
    return {name: array * factor for name, array in found.items()}


class MorePadding(Fault):
    """Every row 3 positions longer than its longest sentence: nothing changes."""

    def batch(self, arrays):
        ids = ("source", "target_input", "target_output")
        return dict(arrays, **{name: numpy.pad(arrays[name], ((0, 0), (0, 3)), "edge") for name in ids})


class GateOrder(Fault):
    """The gates taken in the order i, g, f, o."""

    def weights_in(self, weights):
        return {name: swapped(array) if is_lstm(name) else array for name, array in weights.items()}

    weights_out = weights_in


class SourceNotReversed(Fault):
    def batch(self, arrays):
        arrays = dict(arrays, source=arrays["source"].copy())
        for row, length in enumerate(arrays["source_length"]):
            arrays["source"][row, :length] = arrays["source"][row, :length][::-1].copy()
        return arrays


class NoSourceMask(Fault):
    """The encoder runs on over the padding and the attention falls on it."""

    def batch(self, arrays):
        longest = arrays["source"].shape[1]
        return dict(arrays, source_length=numpy.full_like(arrays["source_length"], longest))


def is_lstm(name):
    """Whether a canonical name is one of an LSTM's arrays: encoder.0.input and the like."""
    return name.split(".")[1:2] in (["0"], ["1"])


def swapped(array):
    """An LSTM's array with its second and third gate exchanged."""
    i, f, g, o = numpy.split(array, 4)
    return numpy.concatenate([i, g, f, o])


FAULTS = {"gate_order": GateOrder, "source_not_reversed": SourceNotReversed, "no_source_mask": NoSourceMask}
SAME = {"more_padding": MorePadding}
