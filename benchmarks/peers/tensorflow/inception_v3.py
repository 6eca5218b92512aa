"""keras.applications' Inception v3: without the auxiliary head, and with batch norms that have no scale."""

import keras
import tensorflow as tf

from peers.tensorflow import loop

SOURCE = "keras.applications.InceptionV3 (no auxiliary head)"


def build(options, batch_size, device, precision, compile):
    if (options["width"], options["blocks"]) != (1.0, "3,4,2"):
        raise ValueError("keras.applications.InceptionV3 has the full size alone")
    loop.set_up(device, precision)
    size, classes = options["image_size"], options["classes"]
    body = keras.applications.InceptionV3(weights=None, include_top=False, input_shape=(size, size, 3), pooling="avg")
    x = keras.layers.Dropout(options["dropout"])(body.output)
    network = keras.Model(body.input, keras.layers.Dense(classes, dtype="float32")(x))
    cross_entropy = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)

    def loss(network, inputs):
        return cross_entropy(tf.one_hot(inputs["labels"], classes), network(inputs["images"], training=True))

    optimizer = keras.optimizers.RMSprop(0.045, rho=0.9, epsilon=1.0, global_clipnorm=2.0)
    return loop.build(network, loss, optimizer, compile)
