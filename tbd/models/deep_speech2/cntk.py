"""Deep Speech 2 in CNTK. See specification.py for the definition. Python 3.6 syntax.

Pictures of the convolutions are (channels, time, bins); from there on utterances are CNTK's sequences, as long as the
batch's arrays. What doesn't depend on the step before is one product over all steps, outside the loops.
"""

import cntk as C
import numpy

from tbd.frameworks.cntk.ctc import ctc_loss
from tbd.frameworks.cntk.layers import convolution, dense, masked_batch_norm, sum_of_all
from tbd.frameworks.cntk.recurrence import delayed, looped
from tbd.models.deep_speech2.specification import batch_norm_of, steps_of


class Network:
    """The loss of a batch, and its moved statistics (tbd/frameworks/cntk/training.py)."""

    def __init__(self, specification, weights):
        self.specification, self.weights = specification, weights
        self.cell = CELLS[specification.options["cell"]]

    def __call__(self, inputs, update, rows):
        s, moved = self.specification, []
        longest = steps_of(inputs["frames"].shape[0])
        steps = C.floor((inputs["frame_length"] + 1) / 2)
        real = real_steps(steps, longest)
        count = sum_of_all(real)

        def normalised(x, beside, values, name):
            """The batch norm of that name, over so many values; `beside`: 1 where x is real."""
            weights = (self.weights["%s.%s" % (name, part)] for part in PARTS)
            y, assigned = masked_batch_norm(x, beside, values, *weights, s.batch_norm_epsilon, s.batch_norm_momentum)
            moved.extend(assigned)
            return y

        x, beside = C.reshape(inputs["frames"], (1,) + inputs["frames"].shape), C.reshape(real, (1, longest, 1))
        for name, _, _, _, stride, bins in s.convolutions:
            x = convolution(x, self.weights[name + ".weight"], stride)
            x = C.clip(normalised(x, beside, bins * count, batch_norm_of(name)), 0, s.clip) * beside
        x = C.to_sequence(C.reshape(C.transpose(x, (1, 2, 0)), (longest, -1)))
        beside = C.to_sequence_like(C.reshape(real, (longest, 1)), x)
        for layer in range(s.options["layers"]):
            if layer:
                x = normalised(x, beside, count, "recurrent.%d.bn" % layer)
            x = bidirectional(self.cell, x, beside, *(self.direction(layer, d) for d in ("forward", "backward")))
        logits = dense(normalised(x, beside, count, "output.bn"), self.weights["output"])
        return ctc_loss(logits, longest, steps, inputs["labels"], inputs["label_length"]) / rows, moved

    def direction(self, layer, name):
        """The input's and the state's weight and the bias of a direction."""
        return [self.weights["recurrent.%d.%s.%s" % (layer, name, part)] for part in ("input", "hidden", "bias")]


PARTS = "weight", "bias", "running_mean", "running_var"


def real_steps(steps, longest):
    """(longest,) of 1 where a step is within its utterance, else 0."""
    return C.stop_gradient(C.less(C.Constant(numpy.arange(longest)), steps))


def bidirectional(cell, x, real, forward, backward):
    """The sum of both directions' states after every step; `real` is 1 at those that are within their utterance.

    The backward direction stays in its zero state until it comes to the utterance's end.
    """
    ahead = recurrent(cell, x, C.sequence.past_value, *forward)
    return ahead + recurrent(lambda *parts: cell(*parts) * real, x, C.sequence.future_value, *backward)


def recurrent(cell, x, delay, by_input, by_hidden, bias):
    """The states of one direction, from W x + b, U h and h of every step."""
    holder, state = delayed(x, by_hidden.shape[1], delay=delay)
    return looped([holder], [cell(dense(x, by_input, bias), dense(state, by_hidden), state)])[0]


def gru(known, of_state, state):
    """The state after one step from W x + b, U h and h."""
    width = state.shape[0]
    (r, z, n), (of_r, of_z, of_n) = (
        [C.slice(x, 0, part * width, (part + 1) * width) for part in range(3)] for x in (known, of_state)
    )
    n = C.tanh(n + C.sigmoid(r + of_r) * of_n)
    return n + C.sigmoid(z + of_z) * (state - n)


def rnn(known, of_state, state):
    return C.tanh(known + of_state)


CELLS = {"gru": gru, "rnn": rnn}
NETWORK = Network
