"""twofold.py's network in TensorFlow."""

import tensorflow as tf

from tbd.frameworks.tensorflow.layers import at_least_float32
from tests.frameworks.twofold import SIZE


class Network:
    def __init__(self, specification, variables):
        self.variables = variables

    def signature(self, dtype, update):
        return {name: tf.TensorSpec([None, SIZE], dtype) for name in ({"first": "xy", "second": "z"}[update])}

    def __call__(self, inputs, update):
        v, inputs = self.variables, {name: at_least_float32(array) for name, array in inputs.items()}
        if update == "second":
            return tf.reduce_mean(tf.square(v["first"] * v["second"] * inputs["z"]))
        v["seen"].assign_add(tf.reduce_mean(inputs["x"], 0))
        return tf.reduce_mean(tf.square(v["scale"] * (v["first"] * inputs["x"] + v["second"]) - inputs["y"]))


NETWORK = Network
