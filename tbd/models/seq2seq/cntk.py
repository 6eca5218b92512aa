"""The attention-based LSTM translation network in CNTK. See specification.py for the definition. Python 3.6 syntax.

Sentences are CNTK's sequences, as long as the batch's arrays. The padding comes last, so nothing before it depends on
it, no attention falls on it, and the state "that stays as it is past a sentence's length" is the one at the last real
word. What doesn't depend on the step before (the products of the embedded words, the attention's keys, the vocabulary's
logits) is one product over all steps, outside the loops.
"""

import cntk as C

from tbd.frameworks.cntk.layers import cross_entropy, dense, sum_of_all
from tbd.frameworks.cntk.recurrence import along, delayed, looped

NOWHERE = -1e30  # a score that softmax makes 0


class Network:
    """The loss of a batch (tbd/frameworks/cntk/training.py)."""

    def __init__(self, specification, weights):
        self.weights = weights
        self.layers, self.width = (specification.options[name] for name in ("layers", "width"))

    def __call__(self, inputs, update, rows):
        source = C.to_sequence(C.gather(self.weights["encoder.embedding"], inputs["source"]))
        target = C.to_sequence(C.gather(self.weights["decoder.embedding"], inputs["target_input"]))
        lengths, (words,) = inputs["source_length"], inputs["source"].shape
        memory, state = self.encode(source, along(source, words, C.equal, lengths - 1))
        attentional = self.decode(target, memory, along(source, words, C.less, lengths), state)
        labels = C.to_sequence_like(C.reshape(inputs["target_output"], (-1, 1)), target)
        labels = C.stop_gradient(C.reshape(labels, ()))  # else CNTK looks for one, by the target's words
        losses = cross_entropy(dense(attentional, self.weights["output"]), labels)
        real = along(target, inputs["target_input"].shape[0], C.less, inputs["target_length"])
        return sum_of_all(losses * real) / sum_of_all(inputs["target_length"]), []

    def encode(self, x, last):
        """The top layer's outputs and the final (h, c) of each layer, which are those where `last` is 1."""
        final = []
        for layer in range(self.layers):
            prefix = "encoder.%d." % layer
            gates = dense(x, self.weights[prefix + "input"], self.weights[prefix + "bias"])
            (h, before_h), (c, before_c) = (delayed(x, self.width) for _ in range(2))
            h_now, c_now = lstm(gates + dense(before_h, self.weights[prefix + "hidden"]), before_c)
            x, c = looped([h, c], [h_now, c_now])
            final.append((C.sequence.reduce_sum(x * last), C.sequence.reduce_sum(c * last)))
        return x, final

    def decode(self, target, memory, real, state):
        """The attentional vectors, from the embedded target and the encoder's outputs, `real` ones, and state."""
        w, width = self.weights, self.width
        # beside each target word all source words: (positions, width), and (positions, 1)
        keys, values, real = (
            C.sequence.broadcast_as(C.sequence.unpack(one, 0, no_mask_output=True), target)
            for one in (dense(memory, w["attention.memory"]), memory, real)
        )
        by_word, of_attentional = (C.slice(w["decoder.0.input"], 1, n * width, (n + 1) * width) for n in range(2))
        of_h, of_context = (C.slice(w["attention.output"], 1, n * width, (n + 1) * width) for n in range(2))
        gates = dense(target, by_word, w["decoder.0.bias"])

        fed, before = delayed(target, width)
        holders, after = [fed], []
        x = None
        for layer in range(self.layers):
            prefix = "decoder.%d." % layer
            (h, before_h), (c, before_c) = (delayed(target, width, initial) for initial in state[layer])
            if layer:
                gates = dense(x, w[prefix + "input"], w[prefix + "bias"])
            else:
                gates = gates + dense(before, of_attentional)
            x, now = lstm(gates + dense(before_h, w[prefix + "hidden"]), before_c)
            holders += [h, c]
            after += [x, now]
        query = C.reshape(dense(x, w["attention.query"]), (1, width))
        score = C.reduce_sum(C.tanh(keys + query) * w["attention.v"], 1)
        weight = C.softmax(C.element_select(real, score, NOWHERE), axis=0)
        context = C.reshape(C.reduce_sum(weight * values, 0), (width,))
        attentional = dense(x, of_h) + dense(context, of_context)
        return looped(holders, [attentional] + after)[0]


def lstm(gates, c):
    """(h, c) after one step from the four gates' sums, in the order i, f, g, o."""
    width = c.shape[0]
    i, f, g, o = (C.slice(gates, 0, n * width, (n + 1) * width) for n in range(4))
    c = C.sigmoid(f) * c + C.sigmoid(i) * C.tanh(g)
    return C.sigmoid(o) * C.tanh(c), c


NETWORK = Network
