"""Connectionist temporal classification (Graves et al. 2006), whose blank is number 0."""

import numpy
from mxnet import sym

from tbd.frameworks.mxnet.layers import positions_below, shape_of, type_of, unstacked

NEVER = -1e30  # the logarithm of a probability of 0, finite so that differences of two are


def ctc_loss(logits, steps, labels, label_lengths):
    """-log P(labels) of each row, (batch,).

    logits (time, batch, characters) before softmax, of which the first `steps` (batch,) are real; labels (batch,
    places), of which the first `label_lengths` are real.
    """
    if numpy.dtype(type_of(logits)) == numpy.float32:
        lengths = {"use_data_lengths": True, "use_label_lengths": True}
        return sym.CTCLoss(logits, labels, steps, label_lengths, blank_label="first", **lengths)
    return unrolled(logits, steps, labels, label_lengths)


def unrolled(logits, steps, labels, label_lengths):
    """The same by equations 6 and 7 of the paper on logarithms: MXNet's operator has no other type than float32.

    `paths` are the states of its labels with blanks around each, 2 places + 1 of them.
    """
    longest, batch, characters = shape_of(logits)
    _, places = shape_of(labels)
    dtype = type_of(logits)
    extended = sym.reshape(sym.stack(sym.zeros_like(labels), labels, axis=2), (batch, 2 * places))
    extended = sym.concat(extended, sym.zeros((batch, 1), dtype="int32"), dim=1)
    # a path may leave out the blank between two labels that differ
    before = shifted(extended, 2, 0, batch, "int32")
    skips = sym.cast(sym.broadcast_not_equal(extended, before) * (extended > 0), dtype)
    not_skipped = (1 - skips) * NEVER
    # log-softmax at the labels, (time, batch, paths)
    chosen = sym.one_hot(extended, depth=characters, dtype=dtype)
    by_row = sym.transpose(sym.log_softmax(logits), (1, 2, 0))
    likelihoods = unstacked(sym.transpose(sym.batch_dot(chosen, by_row), (2, 0, 1)), longest)
    real = unstacked(sym.transpose(positions_below(steps, longest, dtype)), longest)
    # a path begins with the first blank or the first label
    begins = sym.reshape(sym.arange(2 * places + 1, dtype=dtype) < 2, (1, -1))
    paths = sym.broadcast_add(likelihoods[0], (1 - begins) * NEVER)
    for likelihood, here in zip(likelihoods[1:], real[1:], strict=True):
        one, two = shifted(paths, 1, NEVER, batch, dtype), shifted(paths, 2, NEVER, batch, dtype) + not_skipped
        moved = summed(paths, one, two) + likelihood
        here = sym.broadcast_to(sym.reshape(here, (batch, 1)), (batch, 2 * places + 1))
        paths = sym.where(here, moved, paths)
    # a path ends with the last blank or the last label, where there is one
    blank, label = (sym.pick(paths, 2 * label_lengths - n) for n in (0, 1))
    return -summed(blank, label + sym.cast(label_lengths == 0, dtype) * NEVER)


def shifted(x, by, filler, batch, dtype):
    """x (batch, n) moved to the right, with fillers where nothing is left."""
    kept = sym.slice_axis(x, axis=1, begin=0, end=-by)
    return sym.concat(sym.full((batch, by), filler, dtype=dtype), kept, dim=1)


def summed(*logarithms):
    """log(sum of exp)."""
    highest = logarithms[0]
    for other in logarithms[1:]:
        highest = sym.maximum(highest, other)
    highest = sym.BlockGrad(highest)
    return highest + sym.log(sum(sym.exp(one - highest) for one in logarithms))
