"""Inception v3 in TensorFlow, channels last, with fused batch norm. See specification.py for the definition."""

import tensorflow as tf

from tbd.frameworks.tensorflow.layers import average_pool, batch_norm, convolution, cross_entropy, dropout, max_pool
from tbd.models.inception_v3.specification import AVERAGE, MAX, Convolution


class Network:
    """The loss of a batch (tbd/frameworks/tensorflow/training.py)."""

    generator = None  # what dropout draws from, given by the adapter

    def __init__(self, specification, variables):
        self.specification = specification
        self.variables = variables

    def signature(self, dtype, update):
        """The batch's TensorSpecs; the batch size is free."""
        size = self.specification.options["image_size"]
        return {"images": tf.TensorSpec([None, size, size, 3], dtype), "labels": tf.TensorSpec([None], tf.int32)}

    def __call__(self, batch, update):
        specification = self.specification
        x = self.modules(specification.trunk, self.through(specification.stem, batch["images"]))
        pool, convolutions = specification.auxiliary
        auxiliary = self.through(convolutions, average_pool(x, pool, 3, padded=False))
        x = self.modules(specification.top, x)
        x = dropout(tf.reduce_mean(x, [1, 2]), specification.options["dropout"], self.generator)
        auxiliary = tf.reduce_mean(auxiliary, [1, 2])
        loss = self.loss(x, "fc", batch["labels"])
        return loss + specification.auxiliary_weight * self.loss(auxiliary, "AuxLogits.fc", batch["labels"])

    def loss(self, features, head, labels):
        logits = tf.matmul(features, self.variables[head + ".weight"])
        logits += tf.cast(self.variables[head + ".bias"], logits.dtype)
        return tf.reduce_mean(cross_entropy(logits, labels, self.specification.label_smoothing))

    def modules(self, modules, x):
        for module in modules:
            x = tf.concat([self.through(branch, x) for branch in module.branches], 3)
        return x

    def through(self, layers, x):
        for layer in layers:
            if layer == MAX:
                x = max_pool(x, 3, 2, padded=False)
            elif layer == AVERAGE:
                x = average_pool(x, 3, 1)
            elif isinstance(layer, Convolution):
                x = self.unit(layer, x)
            else:
                x = tf.concat([self.unit(beside, x) for beside in layer], 3)
        return x

    def unit(self, layer, x):
        """A convolution, its batch norm and ReLU."""
        variables, name = self.variables, layer.name
        normalised = batch_norm(
            convolution(x, variables[name + ".conv.weight"], layer.stride, padded=layer.padding != (0, 0)),
            variables[name + ".bn.weight"],
            variables[name + ".bn.bias"],
            variables[name + ".bn.running_mean"],
            variables[name + ".bn.running_var"],
            self.specification.batch_norm_epsilon,
            self.specification.batch_norm_momentum,
        )
        return tf.nn.relu(normalised)


NETWORK = Network
