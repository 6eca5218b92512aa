"""A3C's actor-critic on Keras layers, one loss over all steps of the batch."""

import keras
import tensorflow as tf

from peers.tensorflow import loop

SOURCE = "by hand, keras.layers"


def build(options, batch_size, device, precision, compile):
    loop.set_up(device, precision)
    size, width = options["image_size"], options["width"]
    frames = keras.Input((size, size, 4))
    x = keras.layers.Conv2D(width, 8, 4, activation="relu")(frames)
    x = keras.layers.Flatten()(keras.layers.Conv2D(2 * width, 4, 2, activation="relu")(x))
    x = keras.layers.Dense(16 * width, activation="relu")(x)
    network = keras.Model(frames, [keras.layers.Dense(options["actions"])(x), keras.layers.Dense(1)(x)])

    def loss(network, inputs):
        frames = tf.reshape(inputs["frames"], [-1, size, size, 4])
        logits, values = network(tf.cast(frames, network.compute_dtype) / 255, training=True)
        error = tf.reshape(inputs["returns"], [-1]) - tf.cast(values[:, 0], tf.float32)
        likelihoods = tf.nn.log_softmax(tf.cast(logits, tf.float32))
        chosen = tf.gather(likelihoods, tf.reshape(inputs["actions"], [-1]), batch_dims=1)
        entropy = -tf.reduce_sum(tf.exp(likelihoods) * likelihoods, 1)
        each = 0.5 * tf.square(error) - chosen * tf.stop_gradient(error) - 0.01 * entropy
        return tf.reduce_sum(each) / tf.cast(tf.shape(inputs["actions"])[0], tf.float32)

    optimizer = keras.optimizers.RMSprop(2.5e-4, rho=0.99, epsilon=0.1, global_clipnorm=40.0)
    return loop.build(network, loss, optimizer, compile)
