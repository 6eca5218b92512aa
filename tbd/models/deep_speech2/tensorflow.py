"""Deep Speech 2 in TensorFlow. See specification.py for the definition.

From the convolutions on, time is the first axis. What doesn't depend on the step before is one product over all steps,
outside the loops. Past an utterance's end everything is 0.
"""

import tensorflow as tf

from tbd.frameworks.tensorflow.ctc import ctc_loss
from tbd.frameworks.tensorflow.layers import convolution, masked_batch_norm
from tbd.frameworks.tensorflow.recurrence import recurrence
from tbd.models.deep_speech2.specification import BINS, BLANK, batch_norm_of, steps_of


class Network:
    """The loss of a batch (tbd/frameworks/tensorflow/training.py)."""

    def __init__(self, specification, variables):
        self.specification, self.variables = specification, variables
        self.cell = CELLS[specification.options["cell"]]

    def signature(self, dtype, update):
        """The batch's TensorSpecs; batch size and lengths are free, so that all buckets share one graph."""
        lengths = tf.TensorSpec([None], tf.int32)
        return {
            "frames": tf.TensorSpec([None, None, BINS], dtype),
            "labels": tf.TensorSpec([None, None], tf.int32),
            "frame_length": lengths,
            "label_length": lengths,
        }

    def __call__(self, batch, update):
        steps = steps_of(batch["frame_length"])
        x = batch["frames"][..., None]
        for name, _, _, _, stride, _ in self.specification.convolutions:
            x = convolution(x, tf.convert_to_tensor(self.variables[name + ".weight"]), stride)
            real = real_steps(steps, tf.shape(x)[1])
            x = self.normalised(x, real[:, :, None, None], batch_norm_of(name))
            x = tf.clip_by_value(x, 0, self.specification.clip)
        x = tf.transpose(tf.reshape(x, [tf.shape(x)[0], -1, x.shape[2] * x.shape[3]]), [1, 0, 2])
        real = tf.cast(tf.transpose(real)[:, :, None], x.dtype)
        for layer in range(self.specification.options["layers"]):
            if layer:
                x = self.normalised(x, real, f"recurrent.{layer}.bn")
            x = bidirectional(self.cell, x, real, *(self.of_direction(layer, d) for d in ("forward", "backward")))
        x = self.normalised(x, real, "output.bn")
        logits = tf.tensordot(x, tf.convert_to_tensor(self.variables["output"]), 1)
        return tf.reduce_mean(ctc_loss(logits, steps, batch["labels"], batch["label_length"], BLANK))

    def of_direction(self, layer, direction):
        """The input's and the state's weight and the bias, each read once: its gradient is then one tensor."""
        names = (f"recurrent.{layer}.{direction}.{part}" for part in ("input", "hidden", "bias"))
        return [tf.convert_to_tensor(self.variables[name]) for name in names]

    def normalised(self, x, real, name):
        parts = (self.variables[f"{name}.{part}"] for part in ("weight", "bias", "running_mean", "running_var"))
        return masked_batch_norm(
            x, real, *parts, self.specification.batch_norm_epsilon, self.specification.batch_norm_momentum
        )


def real_steps(steps, longest):
    """(batch, longest) booleans: whether a step is within its utterance."""
    return tf.sequence_mask(steps, longest)


def bidirectional(cell, x, real, forward, backward):
    """The sum of both directions' states after every step, (time, batch, width); one loop runs both.

    The backward direction stays in its zero state until it comes to the utterance's end.
    """

    def both(product, inputs, state, constants):
        of_forward, of_backward, real = inputs
        return [
            cell(of_forward, product(0, state[0]), state[0]),
            cell(of_backward, product(1, state[1]), state[1]) * real,
        ]

    gates = [tf.tensordot(x, weight, 1) + tf.cast(bias, x.dtype) for weight, _, bias in (forward, backward)]
    sequences = [gates[0], tf.reverse(gates[1], [0]), tf.reverse(real, [0])]
    zero = tf.zeros([tf.shape(x)[1], forward[1].shape[0]], x.dtype)
    states = recurrence(both, [zero, zero], sequences, [], [[forward[1]], [backward[1]]])
    return states[0] * real + tf.reverse(states[1], [0])


def gru(known, of_state, state):
    """The state after one step from W x + b, U h and h."""
    r, z, n = tf.split(known, 3, axis=1)
    of_r, of_z, of_n = tf.split(of_state, 3, axis=1)
    n = tf.tanh(n + tf.sigmoid(r + of_r) * of_n)
    return n + tf.sigmoid(z + of_z) * (state - n)


def rnn(known, of_state, state):
    return tf.tanh(known + of_state)


CELLS = {"gru": gru, "rnn": rnn}
NETWORK = Network
