"""The attention-based LSTM translation network in MXNet, unrolled. See specification.py for the definition.

Time is the first axis. What doesn't depend on the step before (the products of the embedded words, the attention's
keys, the vocabulary's logits) is one product over all steps.
"""

from mxnet import sym

from tbd.frameworks.mxnet.layers import cross_entropy, dense, embedding, positions_below, shape_of, type_of, unstacked


class Network:
    """The loss of a batch (tbd/frameworks/mxnet/training.py)."""

    def __init__(self, specification):
        self.layers = specification.options["layers"]
        self.width = specification.options["width"]

    def __call__(self, weights, inputs, update):
        memory, state = self.encode(weights, inputs["source"], inputs["source_length"])
        attentional = self.decode(weights, inputs["target_input"], inputs["source_length"], memory, state)
        words = sym.transpose(inputs["target_output"])
        losses = cross_entropy(dense(attentional, weights["output"]), words)
        _, longest = shape_of(inputs["target_output"])
        real = sym.transpose(positions_below(inputs["target_length"], longest, type_of(losses)))
        return sym.sum(losses * real) / sym.sum(real), {}

    def encode(self, w, source, length):
        """The top layer's outputs (S, batch, width) and the final (h, c) of each layer.

        The layers run over the padding too: it comes last, so nothing before it depends on it, no attention falls on
        it, and the state "that stays as it is past a sentence's length" is the one at the last real word.
        """
        _, longest = shape_of(source)
        x = embedding(sym.transpose(source), w["encoder.embedding"])
        final = []
        for layer in range(self.layers):
            prefix = f"encoder.{layer}."
            state, states = None, []
            for gates in unstacked(dense(x, w[prefix + "input"], w[prefix + "bias"]), longest):
                if state:  # the first is zero
                    gates = gates + dense(state[0], w[prefix + "hidden"])
                state = lstm(gates, state and state[1])
                states.append(state)
            x, cells = (sym.stack(*one) for one in zip(*states, strict=True))
            final.append([sym.SequenceLast(one, length, use_sequence_length=True) for one in (x, cells)])
        return x, final

    def decode(self, w, target, source_length, memory, state):
        """The attentional vectors (T, batch, width), from the embedded target and the encoder's outputs and state."""
        longest_source, batch, width = shape_of(memory)
        _, longest = shape_of(target)
        memory = sym.transpose(memory, (1, 0, 2))
        keys = dense(memory, w["attention.memory"])
        # exp(-1e9) is exactly 0
        mask = (positions_below(source_length, longest_source, type_of(memory)) - 1) * 1e9
        v = sym.reshape(w["attention.v"], (1, width))

        words = embedding(sym.transpose(target), w["decoder.embedding"])
        by_word = sym.slice_axis(w["decoder.0.input"], axis=1, begin=0, end=width)
        by_attentional = sym.slice_axis(w["decoder.0.input"], axis=1, begin=width, end=2 * width)
        products = [sym.concat(by_attentional, w["decoder.0.hidden"], dim=1)]
        for layer in range(1, self.layers):
            products.append(sym.concat(w[f"decoder.{layer}.input"], w[f"decoder.{layer}.hidden"], dim=1))

        attentional, found = sym.zeros_like(state[0][0]), []
        for known in unstacked(dense(words, by_word, w["decoder.0.bias"]), longest):
            x = attentional
            for layer, (h, c) in enumerate(state):
                bias = w[f"decoder.{layer}.bias"] if layer else None
                gates = dense(sym.concat(x, h, dim=1), products[layer], bias)
                state[layer] = lstm(gates if layer else gates + known, c)
                x = state[layer][0]
            query = sym.expand_dims(dense(x, w["attention.query"]), 1)
            score = dense(sym.tanh(sym.broadcast_add(keys, query)), v)
            weight = sym.softmax(sym.reshape(score, (batch, longest_source)) + mask)
            context = sym.reshape(sym.batch_dot(sym.expand_dims(weight, 1), memory), (batch, width))
            attentional = dense(sym.concat(x, context, dim=1), w["attention.output"])
            found.append(attentional)
        return sym.stack(*found)


def lstm(gates, c):
    """(h, c) after one step from the four gates' sums, in the order i, f, g, o. A `c` of None is zero."""
    i, f, g, o = sym.SliceChannel(gates, num_outputs=4, axis=1)
    new = sym.sigmoid(i) * sym.tanh(g)
    if c is not None:
        new = sym.sigmoid(f) * c + new
    return sym.sigmoid(o) * sym.tanh(new), new


NETWORK = Network
