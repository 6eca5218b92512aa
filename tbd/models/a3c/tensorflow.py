"""A3C's actor-critic in TensorFlow, channels last. See specification.py for the definition."""

import tensorflow as tf

from tbd.data.kinds import HISTORY
from tbd.frameworks.tensorflow.layers import at_least_float32, convolution


class Network:
    """The loss of a batch, and what actors need of the frames that they see (tbd/frameworks/tensorflow/training.py)."""

    def __init__(self, specification, variables):
        self.specification, self.variables = specification, variables
        self.strides = {name: stride for name, _, _, _, stride, _ in specification.convolutions}
        size = specification.options["image_size"]
        self.frame = [size, size, HISTORY]
        self.output_signature = {"frames": tf.TensorSpec([None, *self.frame], tf.uint8)}

    def signature(self, dtype, update):
        """The batch's TensorSpecs; the batch size is free."""
        steps = self.specification.options["t_max"]
        return {
            "frames": tf.TensorSpec([None, steps, *self.frame], tf.uint8),
            "actions": tf.TensorSpec([None, steps], tf.int32),
            "returns": tf.TensorSpec([None, steps], dtype),
        }

    def __call__(self, inputs, update):
        logits, values = self.heads(tf.reshape(inputs["frames"], [-1, *self.frame]))
        actions, returns = (tf.reshape(inputs[name], [-1]) for name in ("actions", "returns"))
        error = at_least_float32(returns) - values
        log_policy = tf.nn.log_softmax(logits)
        chosen = tf.gather(log_policy, actions, batch_dims=1)
        entropy = -tf.reduce_sum(tf.exp(log_policy) * log_policy, 1)
        s = self.specification
        loss = s.value_coefficient * tf.square(error) - chosen * constant(error) - s.entropy_coefficient * entropy
        return tf.reduce_sum(loss) / tf.cast(tf.shape(inputs["actions"])[0], loss.dtype)

    def outputs(self, inputs):
        """policy: logits (n, actions), value: (n,), of frames (n, size, size, 4)."""
        logits, values = self.heads(inputs["frames"])
        return {"policy": logits, "value": values}

    def heads(self, frames):
        """(logits, values) in at least float32, of frames as bytes."""
        x = tf.cast(frames, self.variables["conv1.weight"].dtype) * self.specification.frame_scale
        for name, stride in self.strides.items():
            x = convolution(x, self.variables[name + ".weight"], stride, padded=False)
            x = tf.nn.relu(tf.nn.bias_add(x, self.bias(name, x)))
        x = tf.nn.relu(self.dense(tf.reshape(x, [-1, self.variables["hidden.weight"].shape[0]]), "hidden"))
        return at_least_float32(self.dense(x, "policy")), at_least_float32(self.dense(x, "value")[:, 0])

    def dense(self, x, name):
        x = tf.matmul(x, self.variables[name + ".weight"])
        return tf.nn.bias_add(x, self.bias(name, x))

    def bias(self, name, x):
        return tf.cast(self.variables[name + ".bias"], x.dtype)


def constant(x):
    """What the gradient does not go through."""
    return tf.stop_gradient(x)


NETWORK = Network
