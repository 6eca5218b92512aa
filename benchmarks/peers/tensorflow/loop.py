"""The training loop of TensorFlow's peers: a Keras model in a tf.function, as Keras's guide to custom loops has it."""

import os

import keras
import tensorflow as tf

POLICIES = {"fp32": "float32", "tf32": "float32", "bf16": "mixed_bfloat16"}


def set_up(device, precision):
    """Threads and arithmetic; before any layer is made."""
    threads = int(os.environ["OMP_NUM_THREADS"])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    gpus = tf.config.list_physical_devices("GPU")
    if device == "cpu":
        tf.config.set_visible_devices([], "GPU")
    elif not gpus:
        raise RuntimeError("TensorFlow sees no GPU")
    for gpu in gpus if device == "gpu" else ():
        tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
    if precision not in POLICIES:
        raise ValueError(f"precision={precision}: peers train in {', '.join(POLICIES)}")
    keras.mixed_precision.set_global_policy(POLICIES[precision])


def build(network, loss, optimizer, compile):
    """(step, sync). loss(network, inputs) is of a batch of tensors."""
    optimizer.build(network.trainable_variables)

    @tf.function(jit_compile=compile == "xla", reduce_retracing=compile != "xla")
    def train(inputs):
        with tf.GradientTape() as tape:
            value = loss(network, inputs)
        variables = network.trainable_variables
        optimizer.apply(tape.gradient(value, variables), variables)
        return value

    last = []

    def step(arrays):
        last[:] = [train({name: tf.constant(array) for name, array in arrays.items()})]

    def sync():
        last[0].numpy()

    return step, sync
