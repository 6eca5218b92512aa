"""The Transformer on keras.layers.MultiHeadAttention, normalisation before each sublayer, one embedding for all."""

import keras
import numpy
import tensorflow as tf

from peers.tensorflow import loop

SOURCE = "by hand, keras.layers.MultiHeadAttention"


class Block(keras.layers.Layer):
    """A layer of the encoder, or with `cross` of the decoder."""

    def __init__(self, options, cross):
        super().__init__()
        width, heads, self.cross = options["width"], options["heads"], cross
        self.attentions = [
            keras.layers.MultiHeadAttention(heads, width // heads, dropout=options["dropout"], use_bias=False)
            for _ in range(2 if cross else 1)
        ]
        self.norms = [keras.layers.LayerNormalization(epsilon=1e-6) for _ in range(3 if cross else 2)]
        self.inner = keras.layers.Dense(options["feedforward"], activation="relu")
        self.outer = keras.layers.Dense(width)
        self.dropout = keras.layers.Dropout(options["dropout"])

    def call(self, x, mask, memory=None):
        y = self.norms[0](x)
        if self.cross:
            x = x + self.dropout(self.attentions[0](y, y, use_causal_mask=True, training=True), training=True)
            y = self.norms[1](x)
            sees = self.attentions[1](y, memory, attention_mask=mask, training=True)
        else:
            sees = self.attentions[0](y, y, attention_mask=mask, training=True)
        x = x + self.dropout(sees, training=True)
        y = self.dropout(self.inner(self.norms[-1](x)), training=True)
        return x + self.dropout(self.outer(y), training=True)


class Translator(keras.Model):
    def __init__(self, options):
        super().__init__()
        width, layers = options["width"], options["layers"]
        self.scale = width**0.5
        self.embedding = keras.layers.Embedding(options["vocabulary"], width, "normal")
        self.dropout = keras.layers.Dropout(options["dropout"])
        self.encoder = [Block(options, cross=False) for _ in range(layers)]
        self.decoder = [Block(options, cross=True) for _ in range(layers)]
        self.norms = [keras.layers.LayerNormalization(epsilon=1e-6) for _ in range(2)]
        angles = numpy.arange(1024)[:, None] / 10000 ** (numpy.arange(0, width, 2) / width)
        self.positions = numpy.stack([numpy.sin(angles), numpy.cos(angles)], 2).reshape(1024, width)

    def embed(self, ids):
        embedded = self.embedding(ids)
        positions = tf.constant(self.positions, embedded.dtype)[: tf.shape(ids)[1]]
        return self.dropout(embedded * self.scale + positions, training=True)

    def call(self, source, source_length, target):
        real = tf.sequence_mask(source_length, tf.shape(source)[1])[:, None]
        x, y = self.embed(source), self.embed(target)
        for block in self.encoder:
            x = block(x, real)
        memory = self.norms[0](x)
        for block in self.decoder:
            y = block(y, real, memory)
        y = self.norms[1](y)
        return tf.matmul(y, tf.cast(self.embedding.embeddings, y.dtype), transpose_b=True)


def build(options, batch_size, device, precision, compile):
    loop.set_up(device, precision)
    network = Translator(options)
    length, smoothing, words = options["synthetic_length"], options["label_smoothing"], options["vocabulary"]
    network(*(tf.ones(shape, tf.int32) for shape in ((2, length), (2,), (2, length))))

    def loss(network, inputs):
        logits = tf.cast(network(inputs["source"], inputs["source_length"], inputs["target_input"]), tf.float32)
        labels = tf.one_hot(inputs["target_output"], words, 1 - smoothing + smoothing / words, smoothing / words)
        losses = tf.nn.softmax_cross_entropy_with_logits(labels, logits)
        real = tf.sequence_mask(inputs["target_length"], tf.shape(losses)[1], tf.float32)
        return tf.reduce_sum(losses * real) / tf.reduce_sum(real)

    return loop.build(network, loss, keras.optimizers.Adam(1e-4, 0.9, 0.98, 1e-9), compile)
