"""The attention-based LSTM translation network in TensorFlow. See specification.py for the definition.

Time is the first axis throughout. What doesn't depend on the step before (the products of the embedded words, the
attention's keys, the vocabulary's logits) is one product over all steps, outside the loops.
"""

import tensorflow as tf

from tbd.frameworks.tensorflow.layers import at_least_float32, cross_entropy
from tbd.frameworks.tensorflow.recurrence import recurrence


class Network:
    """The loss of a batch (tbd/frameworks/tensorflow/training.py)."""

    def __init__(self, specification, variables):
        self.layers = specification.options["layers"]
        self.width = specification.options["width"]
        self.variables = variables

    def signature(self, dtype, update):
        """The batch's TensorSpecs; batch size and lengths are free, so that all buckets share one graph."""
        pairs = tf.TensorSpec([None, None], tf.int32)
        lengths = tf.TensorSpec([None], tf.int32)
        return {
            "source": pairs,
            "target_input": pairs,
            "target_output": pairs,
            "source_length": lengths,
            "target_length": lengths,
        }

    def __call__(self, batch, update):
        # each weight is read once: its gradient is then one tensor
        w = {name: tf.convert_to_tensor(variable) for name, variable in self.variables.items()}
        # biases and the attention's v come in at least float32 where products are taken in less
        w = {name: tf.cast(array, w["output"].dtype) for name, array in w.items()}
        memory, state = self.encode(w, batch["source"], batch["source_length"])
        attentional = self.decode(w, batch["target_input"], batch["source_length"], memory, state)
        logits = tf.matmul(tf.reshape(attentional, [-1, self.width]), w["output"])
        words = tf.reshape(tf.transpose(batch["target_output"]), [-1])
        losses = cross_entropy(logits, words)
        real = tf.sequence_mask(batch["target_length"], tf.shape(batch["target_output"])[1])
        real = tf.cast(tf.reshape(tf.transpose(real), [-1]), losses.dtype)
        return tf.reduce_sum(losses * real) / tf.reduce_sum(real)

    def encode(self, w, source, length):
        """The top layer's outputs (S, batch, width) and the final [h, c] of each layer, flat.

        The layers run over the padding too: it comes last, so nothing before it depends on it, no attention falls on
        it, and the state "that stays as it is past a sentence's length" is the one at the last real word.
        """
        x = tf.gather(w["encoder.embedding"], tf.transpose(source))
        zero = tf.zeros([tf.shape(source)[0], self.width], x.dtype)
        last = tf.stack([length - 1, tf.range(tf.shape(source)[0])], axis=1)
        final = []
        for layer in range(self.layers):
            prefix = f"encoder.{layer}."
            gates = tf.tensordot(x, w[prefix + "input"], 1) + w[prefix + "bias"]
            h, c = recurrence(encoder_cell, [zero, zero], [gates], [], [[w[prefix + "hidden"]]])
            final += [tf.gather_nd(h, last), tf.gather_nd(c, last)]
            x = h
        return x, final

    def decode(self, w, target, source_length, memory, state):
        """The attentional vectors (T, batch, width), from the embedded target and the encoder's outputs and state."""
        memory = tf.transpose(memory, [1, 0, 2])
        keys = tf.tensordot(memory, w["attention.memory"], 1)
        real = tf.sequence_mask(source_length, tf.shape(memory)[1])
        # exp(-1e9) is exactly 0
        mask = at_least_float32(tf.zeros([], keys.dtype))
        mask = tf.where(real, mask, tf.constant(-1e9, mask.dtype))

        words = tf.gather(w["decoder.embedding"], tf.transpose(target))
        by_word, by_attentional = tf.split(w["decoder.0.input"], 2)
        gates = tf.tensordot(words, by_word, 1) + w["decoder.0.bias"]
        products = [[by_attentional, w["decoder.0.hidden"]]]
        for layer in range(1, self.layers):
            products.append([w[f"decoder.{layer}.input"], w[f"decoder.{layer}.hidden"]])
        biases = [w[f"decoder.{layer}.bias"] for layer in range(1, self.layers)]

        def cell(product, inputs, state, constants):
            memory, keys, v, *biases = constants
            x, *state = state
            after = []
            for layer in range(self.layers):
                h, c = state[2 * layer : 2 * layer + 2]
                gates = product(layer, x, h) + (biases[layer - 1] if layer else inputs[0])
                x, c = lstm(gates, c)
                after += [x, c]
            query = product(self.layers, x)
            score = at_least_float32(tf.linalg.matvec(tf.tanh(keys + query[:, None]), v)) + mask
            weight = tf.cast(tf.nn.softmax(score), memory.dtype)
            context = tf.squeeze(tf.matmul(weight[:, None], memory), 1)
            return [product(self.layers + 1, x, context), *after]

        products += [[w["attention.query"]], tf.split(w["attention.output"], 2)]
        constants = [memory, keys, w["attention.v"], *biases]
        return recurrence(cell, [tf.zeros_like(state[0]), *state], [gates], constants, products)[0]


def encoder_cell(product, inputs, state, constants):
    h, c = state
    return list(lstm(inputs[0] + product(0, h), c))


def lstm(gates, c):
    """(h, c) after one step from the four gates' sums, in the order i, f, g, o."""
    i, f, g, o = tf.split(gates, 4, axis=1)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c), c


NETWORK = Network
