"""Several ranks: MultiWorkerMirroredStrategy joins them and sums their gradients."""

import json
import os

import tensorflow as tf

from tbd.worker import network

WEIGHT = "loss weight"  # among the inputs of several ranks: what the loss is a mean of


def join(request, device):
    """The tf.distribute strategy of all ranks; before anything is computed. A ring over gRPC on CPUs, NCCL on GPUs."""
    peers, address = request["peers"], request["address"]
    port, holder = network.held_port(address)
    places = peers.gather(f"{address}:{port}")
    task = {"type": "worker", "index": peers.rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": places}, "task": task})
    implementation = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=implementation.NCCL if device.startswith("GPU") else implementation.RING
    )
    holder.close()  # TensorFlow has gRPC not share a port: from here to the server's start somebody could take it
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)


def lost(error):
    """Whether an exception is of the exchange: collectives that are broken off, or a worker that can't be reached."""
    return isinstance(error, tf.errors.UnavailableError) or "ollective" in str(error)


def summed(tensors):
    """Within the strategy's run, on a device: the sums over all ranks."""
    here = tf.nest.map_structure(tf.identity, tensors)  # what has no device can't be sent
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here)


def share(weight):
    """Within the strategy's run: how much this rank's loss counts of all ranks'."""
    return weight / summed(weight)
