"""Connectionist temporal classification (Graves et al. 2006), whose blank is number 0. Python 3.6 syntax."""

import cntk as C
import numpy

from tbd.frameworks.cntk.recurrence import along

INSIDE, BEGIN = 1, 2  # how C.labels_to_graph is told that a step's label began before, or begins there


def ctc_loss(logits, longest, steps, labels, label_lengths):
    """The sum over the rows of -log P(labels).

    logits: a sequence of `longest` steps, (characters,) before softmax, of which the first `steps` () are real; labels
    (places,), of which the first `label_lengths` () are real.

    C.forward_backward takes sequences of their own lengths, and beside each step a label: here the first steps begin
    one each, and the last goes on to the end. Which steps they stand beside changes nothing.
    """
    (characters,), (places,) = logits.shape, labels.shape
    here = C.Constant(numpy.arange(longest))
    begins, is_last = C.less(here, label_lengths), C.equal(here, label_lengths - 1)
    padded = C.pad(labels, [(0, longest - places)], C.CONSTANT_PAD, 0)
    last = C.reduce_sum(padded * is_last, 0)
    marks = C.element_select(begins, BEGIN, INSIDE) * C.greater(label_lengths, 0)
    hot = C.one_hot(C.element_select(begins, padded, last), characters) * C.reshape(marks, (longest, 1))
    hot = C.to_sequence_like(C.stop_gradient(hot), logits)
    both = C.sequence.gather(C.splice(logits, hot), along(logits, longest, C.less, steps))
    logits, hot = (C.slice(both, 0, n * characters, (n + 1) * characters) for n in range(2))
    return C.forward_backward(C.labels_to_graph(C.stop_gradient(hot)), logits, 0)
