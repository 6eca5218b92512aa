"""A training step as one writes it by hand in TensorFlow."""

import tensorflow as tf


def step_of(training):
    """The step, a function of a batch's arrays, over the compiled update of a TensorFlowTraining."""
    (update,) = training.updates

    def step(arrays):
        update.train({name: tf.constant(array) for name, array in arrays.items()})

    return step
