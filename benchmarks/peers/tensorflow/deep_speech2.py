"""Deep Speech 2 on Keras: Conv2D, Bidirectional GRU layers that sum their directions, tf.nn.ctc_loss.

The batch norms of its convolutions count the padding in, which takes less time than leaving it out.
"""

import keras
import tensorflow as tf

from peers.tensorflow import loop

SOURCE = "by hand, keras.layers.Bidirectional and GRU"
BINS, CHARACTERS = 161, 29


class DeepSpeech(keras.Model):
    def __init__(self, options):
        super().__init__()
        width, channels = options["width"], options["channels"]
        self.convolutions = [
            keras.layers.Conv2D(channels, kernel, stride, padding="valid", use_bias=False)
            for kernel, stride in (((11, 41), (2, 2)), ((11, 21), (1, 2)))
        ]
        self.edges = [keras.layers.ZeroPadding2D((5, columns)) for columns in (20, 10)]
        self.convolution_norms = [norm() for _ in self.convolutions]
        cell = {"gru": keras.layers.GRU, "rnn": keras.layers.SimpleRNN}[options["cell"]]
        self.recurrent = [
            keras.layers.Bidirectional(cell(width, return_sequences=True), merge_mode="sum")
            for _ in range(options["layers"])
        ]
        self.norms = [norm() for _ in self.recurrent]
        self.logits = keras.layers.Dense(CHARACTERS, use_bias=False)

    def call(self, frames, steps):
        """Logits (batch, steps, characters)."""
        x = frames[..., None]
        for edge, convolution, normalised in zip(self.edges, self.convolutions, self.convolution_norms, strict=True):
            x = keras.ops.clip(normalised(convolution(edge(x)), training=True), 0, 20)
            real = tf.sequence_mask(steps, tf.shape(x)[1])
            x = x * tf.cast(real, x.dtype)[:, :, None, None]
        x = tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], x.shape[2] * x.shape[3]])
        for layer, recurrent in enumerate(self.recurrent):
            if layer:
                x = self.norms[layer - 1](x, training=True, mask=real)
            x = recurrent(x, mask=real, training=True)
        return self.logits(self.norms[-1](x, training=True, mask=real))


def norm():
    return keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)


def build(options, batch_size, device, precision, compile):
    loop.set_up(device, precision)
    network = DeepSpeech(options)
    network(tf.zeros([2, options["synthetic_length"], BINS]), tf.ones([2], tf.int32))

    def loss(network, inputs):
        steps = (inputs["frame_length"] + 1) // 2
        logits = tf.transpose(tf.cast(network(inputs["frames"], steps), tf.float32), [1, 0, 2])
        return tf.reduce_mean(tf.nn.ctc_loss(inputs["labels"], logits, inputs["label_length"], steps, blank_index=0))

    optimizer = keras.optimizers.SGD(3e-4, momentum=0.9, global_clipnorm=100.0)
    return loop.build(network, loss, optimizer, compile)
