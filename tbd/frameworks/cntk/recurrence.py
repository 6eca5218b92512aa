"""What recurrent layers over CNTK's sequences are made of. Python 3.6 syntax.

A sequence is as long as the batch's arrays: of sequences of their own lengths CNTK wants one that has the arrays'
length, which not every batch has. So layers run over the padding too.
"""

import cntk as C
import numpy


def delayed(sequence, width, initial=None, delay=C.sequence.past_value):
    """(a placeholder of a recurrent vector along the sequence, its value one step before; from zeros unless told).

    With C.sequence.future_value for delay, one step after.
    """
    holder = C.placeholder((width,), dynamic_axes=sequence.dynamic_axes)
    if initial is None:
        initial = C.Constant(0, shape=(width,))
    return holder, delay(holder, initial_state=initial)


def looped(holders, functions):
    """The Functions, whose placeholders are themselves, in order."""
    together = C.combine(functions)
    together.replace_placeholders(dict(zip(holders, together.outputs)))
    return together.outputs


def along(sequence, count, comparison, lengths):
    """A sequence like the other, of so many steps, of 1 where comparison(step, length) holds, else of 0."""
    positions = C.Constant(numpy.arange(count).reshape(count, 1))
    return C.stop_gradient(C.to_sequence_like(comparison(positions, C.reshape(lengths, (1, 1))), sequence))
