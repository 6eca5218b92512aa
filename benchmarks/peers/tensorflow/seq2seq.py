"""The NMT tutorial's translation on Keras: LSTM layers as encoder, an RNN over a cell with attention as decoder."""

import keras
import tensorflow as tf

from peers.tensorflow import loop

SOURCE = "by hand, keras.layers.LSTM and RNN"


class AttentionCell(keras.layers.Layer):
    """LSTM cells with input feeding and Bahdanau's attention to `seen`: memory, keys, what is added to scores.

    Keras 3's RNN gives a cell no constants: what it sees is set before each call.
    """

    def __init__(self, width, layers):
        super().__init__()
        self.cells = [keras.layers.LSTMCell(width, unit_forget_bias=False) for _ in range(layers)]
        self.query, self.v, self.attention = (
            keras.layers.Dense(size, use_bias=False, dtype=self.dtype_policy) for size in (width, 1, width)
        )
        self.state_size = [width] * (2 * layers + 1)
        self.output_size = self.width = width

    def build(self, input_shape):
        for number, cell in enumerate(self.cells):
            cell.build((input_shape[0], self.width * (1 if number else 2)))
        self.query.build((input_shape[0], self.width))
        self.v.build((input_shape[0], None, self.width))
        self.attention.build((input_shape[0], 2 * self.width))
        self.built = True

    def call(self, inputs, states, training=False):
        memory, keys, mask = self.seen
        x = tf.concat([inputs, states[0]], 1)
        found = []
        for number, cell in enumerate(self.cells):
            x, state = cell(x, states[1 + 2 * number : 3 + 2 * number])
            found.extend(state)
        score = self.v(tf.tanh(keys + self.query(x)[:, None]))[:, :, 0] + mask
        context = tf.einsum("bs,bsf->bf", tf.nn.softmax(score), memory)
        attentional = self.attention(tf.concat([x, context], 1))
        return attentional, [attentional, *found]


class Translator(keras.Model):
    def __init__(self, options):
        super().__init__()
        width, layers = options["width"], options["layers"]
        self.source_embedding = keras.layers.Embedding(options["source_vocabulary"], width)
        self.target_embedding = keras.layers.Embedding(options["target_vocabulary"], width)
        self.encoder = [keras.layers.LSTM(width, return_sequences=True, return_state=True) for _ in range(layers)]
        self.memory = keras.layers.Dense(width, use_bias=False)
        self.decoder = keras.layers.RNN(AttentionCell(width, layers), return_sequences=True)
        self.logits = keras.layers.Dense(options["target_vocabulary"], use_bias=False)

    def call(self, source, source_length, target):
        x, states = self.source_embedding(source), []
        real = tf.sequence_mask(source_length, tf.shape(source)[1])
        for layer in self.encoder:
            x, *state = layer(x, mask=real)
            states.extend(state)
        mask = tf.where(real, 0.0, -1e9)
        mask = tf.cast(mask, x.dtype)
        initial = [tf.zeros_like(states[0]), *states]
        embedded = self.target_embedding(target)
        self.decoder.cell.seen = x, self.memory(x), mask
        return self.logits(self.decoder(embedded, initial_state=initial))


def build(options, batch_size, device, precision, compile):
    loop.set_up(device, precision)
    network = Translator(options)
    length = options["synthetic_length"]
    network(*(tf.zeros(shape, tf.int32) for shape in ((2, length), (2,), (2, length + 1))))

    def loss(network, inputs):
        logits = network(inputs["source"], inputs["source_length"], inputs["target_input"])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(inputs["target_output"], tf.cast(logits, tf.float32))
        real = tf.sequence_mask(inputs["target_length"], tf.shape(losses)[1], tf.float32)
        return tf.reduce_sum(losses * real) / tf.reduce_sum(real)

    return loop.build(network, loss, keras.optimizers.Adam(3e-4, global_clipnorm=1.0), compile)
