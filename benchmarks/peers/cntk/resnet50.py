"""ResNet-50 with the stride on the 3x3, as ours, of CNTK's layers library. Python 3.6 syntax."""

import cntk as C
from cntk.layers import BatchNormalization, Convolution2D, Dense, GlobalAveragePooling, MaxPooling

from peers.cntk import loop

SOURCE = "by hand on cntk.layers"


def build(options, batch_size, device, precision, compile):
    size, classes, width = options["image_size"], options["classes"], options["width"]
    images, labels = C.input_variable((size, size, 3)), C.input_variable(())
    x = C.relu(normalised(C.transpose(images, (2, 0, 1)), 7, width, 2))
    x = MaxPooling((3, 3), strides=(2, 2), pad=True)(x)
    for stage, blocks in enumerate(options["blocks"].split(",")):
        for block in range(int(blocks)):
            x = bottleneck(x, width * 2**stage, 2 if stage and not block else 1)
    model = Dense(classes)(GlobalAveragePooling()(x))
    loss = C.cross_entropy_with_softmax(model, C.one_hot(labels, classes))
    inputs = {"images": images, "labels": labels}
    return loop.build(model, inputs, loss, 0.1 * batch_size / 256, 1e-4, batch_size, device, precision)


def normalised(x, kernel, channels, stride):
    x = Convolution2D((kernel, kernel), channels, strides=stride, pad=True, bias=False, init=C.he_normal())(x)
    return BatchNormalization(map_rank=1)(x)


def bottleneck(x, middle, stride):
    out = 4 * middle
    y = C.relu(normalised(x, 1, middle, 1))
    y = C.relu(normalised(y, 3, middle, stride))
    y = normalised(y, 1, out, 1)
    if x.shape[0] != out:
        x = normalised(x, 1, out, stride)
    return C.relu(y + x)
