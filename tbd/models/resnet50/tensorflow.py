"""ResNet-50 v1.5 in TensorFlow, channels last, with fused batch norm. See specification.py for the definition."""

import tensorflow as tf

from tbd.frameworks.tensorflow.layers import batch_norm, convolution, cross_entropy, max_pool
from tbd.models.resnet50.specification import batch_norm_of


class Network:
    """The loss of a batch (tbd/frameworks/tensorflow/training.py)."""

    def __init__(self, specification, variables):
        self.specification = specification
        self.variables = variables
        self.strides = {name: stride for name, _, _, _, stride, _ in specification.convolutions}

    def signature(self, dtype, update):
        """The batch's TensorSpecs; the batch size is free."""
        size = self.specification.options["image_size"]
        return {"images": tf.TensorSpec([None, size, size, 3], dtype), "labels": tf.TensorSpec([None], tf.int32)}

    def __call__(self, batch, update):
        x = tf.nn.relu(self.normalised(batch["images"], "conv1"))
        x = max_pool(x, kernel=3, stride=2)
        for stage, count in enumerate(self.specification.blocks):
            for block in range(count):
                x = self.bottleneck(x, f"layer{stage + 1}.{block}.")
        features = tf.reduce_mean(x, [1, 2])
        logits = tf.matmul(features, self.variables["fc.weight"])
        logits += tf.cast(self.variables["fc.bias"], logits.dtype)
        return tf.reduce_mean(cross_entropy(logits, batch["labels"]))

    def bottleneck(self, x, prefix):
        y = tf.nn.relu(self.normalised(x, prefix + "conv1"))
        y = tf.nn.relu(self.normalised(y, prefix + "conv2"))
        y = self.normalised(y, prefix + "conv3")
        shortcut = prefix + "downsample.0"
        if shortcut in self.strides:
            x = self.normalised(x, shortcut)
        return tf.nn.relu(y + x)

    def normalised(self, x, name):
        """The convolution of that name and the batch norm that follows it."""
        norm = batch_norm_of(name)
        return batch_norm(
            convolution(x, self.variables[name + ".weight"], self.strides[name]),
            self.variables[norm + ".weight"],
            self.variables[norm + ".bias"],
            self.variables[norm + ".running_mean"],
            self.variables[norm + ".running_var"],
            self.specification.batch_norm_epsilon,
            self.specification.batch_norm_momentum,
        )


NETWORK = Network
