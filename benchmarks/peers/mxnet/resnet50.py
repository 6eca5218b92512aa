"""The Gluon model zoo's ResNet-50 v2, whose products are as many as ours: the stride is on the 3x3 there too.

Its norm and ReLU come before each convolution (arXiv 1603.05027). Its v1 has the stride on the 1x1, 6 % fewer products.
"""

from mxnet import gluon, nd

from peers.mxnet import loop

SOURCE = "mxnet.gluon.model_zoo.vision.resnet50_v2"


def build(options, batch_size, device, precision, compile):
    if (options["width"], options["blocks"]) != (64, "3,4,6,3"):
        raise ValueError("the model zoo's resnet50_v2 has the full size alone")
    network = gluon.model_zoo.vision.resnet50_v2(classes=options["classes"])
    cross_entropy = gluon.loss.SoftmaxCrossEntropyLoss()

    def loss(network, inputs):
        return cross_entropy(network(nd.transpose(inputs["images"], (0, 3, 1, 2))), inputs["labels"])

    settings = {"learning_rate": 0.1 * batch_size / 256, "momentum": 0.9, "wd": 1e-4}
    return loop.build(network, loss, "sgd", settings, device, precision)
