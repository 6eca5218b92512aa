"""keras.applications' ResNet-50: v1, with the stride on the 1x1 convolution and biases, 3.86 GMACs for our 4.09."""

import keras

from peers.tensorflow import loop

SOURCE = "keras.applications.ResNet50 (v1: 6 % fewer operations)"


def build(options, batch_size, device, precision, compile):
    if (options["width"], options["blocks"]) != (64, "3,4,6,3"):
        raise ValueError("keras.applications.ResNet50 has the full size alone")
    loop.set_up(device, precision)
    size = options["image_size"]
    network = keras.applications.ResNet50(
        weights=None, input_shape=(size, size, 3), classes=options["classes"], classifier_activation=None
    )
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss(network, inputs):
        return cross_entropy(inputs["labels"], network(inputs["images"], training=True))

    optimizer = keras.optimizers.SGD(0.1 * batch_size / 256, momentum=0.9)
    return loop.build(network, loss, optimizer, compile)
