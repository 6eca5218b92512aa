"""Connectionist temporal classification (Graves et al. 2006), whose blank is number 0. Python 3.6 syntax.

Equations 6 and 7 of the paper as a recurrence over CNTK's sequences; the gradient is that of its operators.
"""

import cntk as C
import numpy

from tbd.frameworks.cntk.recurrence import along, delayed, looped

NEVER = -1e30  # the logarithm of a probability of 0, finite so that differences of two are


def ctc_loss(logits, longest, steps, labels, label_lengths):
    """-log P(labels) of each row.

    logits: a sequence of `longest` steps, (characters,) before softmax, of which the first `steps` () are real; labels
    (places,), of which the first `label_lengths` () are real. `states` are the labels with blanks around each.
    """
    (characters,), (places,) = logits.shape, labels.shape
    count = 2 * places + 1
    labels = C.reshape(labels, (places, 1))
    states = C.reshape(C.splice(0 * labels, labels, axis=1), (2 * places,))
    states = C.pad(states, [(0, 1)], C.CONSTANT_PAD, 0)
    # a path may leave out the blank between two labels that differ
    skips = C.element_times(C.not_equal(states, shifted(states, 2, 0)), C.greater(states, 0))
    not_skipped = C.sequence.broadcast_as(C.stop_gradient((1 - skips) * NEVER), logits)
    # log-softmax at the states
    likelihoods = C.reshape(C.sequence.unpack(C.log_softmax(logits), 0, no_mask_output=True), (longest, characters))
    hot = C.stop_gradient(C.one_hot(states, characters))
    emitted = C.to_sequence_like(C.times_transpose(likelihoods, hot), logits)
    # before the first step a path is in the first blank: so it begins with that or the first label
    begin = C.Constant(numpy.where(numpy.arange(count) == 0, 0, NEVER))
    holder, before = delayed(logits, count, begin)
    by_one, by_two = shifted(before, 1, NEVER), shifted(before, 2, NEVER) + not_skipped
    (paths,) = looped([holder], [summed(before, by_one, by_two) + emitted])
    final = C.sequence.reduce_sum(paths * along(logits, longest, C.equal, steps - 1))
    # a path ends with the last blank or the last label, where there is one
    behind = C.Constant(numpy.arange(count)) - 2 * label_lengths
    ends = C.stop_gradient(C.element_times(C.less_equal(behind, 0), C.greater_equal(behind, -1)))
    final = C.element_select(ends, final, NEVER)
    highest = C.stop_gradient(C.reduce_max(final, 0))
    return -(highest + C.log(C.reduce_sum(C.exp(final - highest), 0)))


def shifted(x, by, filler):
    """x (n,) moved to higher places, with fillers where nothing is left."""
    return C.slice(C.pad(x, [(by, 0)], C.CONSTANT_PAD, filler), 0, 0, x.shape[0])


def summed(*logarithms):
    """log(sum of exp)."""
    highest = logarithms[0]
    for other in logarithms[1:]:
        highest = C.element_max(highest, other)
    highest = C.stop_gradient(highest)
    return highest + C.log(C.plus(*[C.exp(one - highest) for one in logarithms]))
