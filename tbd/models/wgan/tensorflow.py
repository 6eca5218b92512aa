"""WGAN in TensorFlow, channels last. See specification.py for the definition."""

import tensorflow as tf

from tbd.frameworks.tensorflow.layers import at_least_float32, batch_norm, convolution
from tbd.models.wgan.specification import START


class Network:
    """The loss of an update (tbd/frameworks/tensorflow/training.py)."""

    def __init__(self, specification, variables):
        self.specification = specification
        self.variables = variables

    def signature(self, dtype, update):
        """The update's TensorSpecs; the batch size is free."""
        options = self.specification.options
        size = options["image_size"]
        found = {"noise": tf.TensorSpec([None, options["noise"]], dtype)}
        if update == "critic":
            found["images"] = tf.TensorSpec([None, size, size, 3], tf.uint8)
            if self.specification.penalised:
                found["mixture"] = tf.TensorSpec([None], dtype)
        return found

    def __call__(self, inputs, update):
        fake = self.generated(inputs["noise"])
        if update == "generator":
            return -tf.reduce_mean(self.scores(fake))
        real = tf.cast(inputs["images"], fake.dtype) / 127.5 - 1
        # layer norm knows no other picture of its batch: both kinds can be in one
        fake_scores, real_scores = tf.split(self.scores(tf.concat([fake, real], 0)), 2)
        loss = tf.reduce_mean(fake_scores) - tf.reduce_mean(real_scores)
        if not self.specification.penalised:
            return loss
        mix = real + inputs["mixture"][:, None, None, None] * (fake - real)
        # not by a tape within the adapter's: its operations would have the names of the backward pass
        (gradients,) = tf.gradients(self.scores(mix), mix)
        excess = slopes(at_least_float32(gradients)) - 1
        return loss + self.specification.penalty * tf.reduce_mean(tf.square(excess))

    def generated(self, noise):
        channels = self.specification.channels
        x = tf.reshape(self.dense(noise, "generator.input"), [-1, channels[-1], START, START])
        x = tf.transpose(x, [0, 2, 3, 1])
        for n in range(len(self.specification.generator_blocks)):
            name = f"generator.blocks.{n}."
            y = up(tf.nn.relu(self.batch_norm(x, name + "norm1")))
            y = tf.nn.relu(self.batch_norm(self.convolution(y, name + "conv1"), name + "norm2"))
            x = self.convolution(y, name + "conv2") + up(self.convolution(x, name + "shortcut"))
        x = tf.nn.relu(self.batch_norm(x, "generator.norm"))
        return tf.tanh(self.convolution(x, "generator.output"))

    def scores(self, pictures):
        """The critic's score of each picture, in at least float32."""
        x = self.convolution(pictures, "critic.input")
        for n in range(len(self.specification.critic_blocks)):
            name = f"critic.blocks.{n}."
            y = tf.nn.relu(self.layer_norm(x, name + "norm1"))
            y = tf.nn.relu(self.layer_norm(self.convolution(y, name + "conv1"), name + "norm2"))
            x = down(self.convolution(y, name + "conv2")) + self.convolution(down(x), name + "shortcut")
        x = tf.reshape(tf.transpose(x, [0, 3, 1, 2]), [-1, self.specification.channels[-1] * START**2])
        return at_least_float32(self.dense(x, "critic.output")[:, 0])

    def dense(self, x, name):
        return self.biased(tf.matmul(x, self.variables[name + ".weight"]), name)

    def convolution(self, x, name):
        return self.biased(convolution(x, self.variables[name + ".weight"], 1), name)

    def biased(self, x, name):
        bias = self.variables.get(name + ".bias")
        return x if bias is None else tf.nn.bias_add(x, tf.cast(bias, x.dtype))

    def batch_norm(self, x, name):
        weight, bias = self.variables[name + ".weight"], self.variables[name + ".bias"]
        return batch_norm(x, weight, bias, None, None, self.specification.batch_norm_epsilon, None)

    def layer_norm(self, x, name):
        weight, bias = self.variables[name + ".weight"], self.variables[name + ".bias"]
        return layer_norm(x, weight, bias, self.specification.layer_norm_epsilon)


def layer_norm(x, weight, bias, epsilon):
    """Layer norm over all axes but the first, with a weight and a bias a channel.

    Not by tf.nn.moments: it stops the variance's gradient by the mean, which is 0, but whose own gradient is not.
    """
    wide = at_least_float32(x)
    centred = wide - tf.reduce_mean(wide, [1, 2, 3], keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), [1, 2, 3], keepdims=True)
    return tf.cast(centred * (tf.math.rsqrt(variance + epsilon) * weight) + bias, x.dtype)


def slopes(gradients):
    """The norm of each picture's gradient."""
    return tf.sqrt(tf.reduce_sum(tf.square(gradients), list(range(1, gradients.shape.rank))))


@tf.custom_gradient
def up(x):
    """Each pixel 2x2 times. XLA has no gradient of the operator: it is the sum of each 2x2 pixels."""
    y = tf.raw_ops.ResizeNearestNeighbor(images=x, size=[2 * x.shape[1], 2 * x.shape[2]])
    return y, lambda gradient: 4 * down(gradient)


def down(x):
    """The mean of each 2x2 pixels."""
    return tf.nn.avg_pool2d(x, 2, 2, "VALID")


NETWORK = Network
