"""Several ranks: one program over the devices of all processes, each with its rows (jax.distributed, shard_map)."""

import jax
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tbd.worker import network

AXIS = "ranks"


def join(request):
    """Make this process one of jax.distributed; before any device is used. CPUs exchange by gloo, GPUs by NCCL."""
    peers, holder = request["peers"], None
    if peers.rank == 0:  # gRPC binds with SO_REUSEPORT, so the port can be held for it
        port, holder = network.held_port(request["address"])
        peers.gather(port)
    else:
        port = peers.gather(None)[0]
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        f"{request['rendezvous']['address']}:{port}",
        num_processes=peers.world_size,
        process_id=peers.rank,
        local_device_ids=[0],
        cluster_detection_method="deactivate",
    )
    if holder is not None:
        holder.close()


def lost(error):
    """Whether an exception of XLA is about the other ranks: gloo's errors name it, the coordination service itself."""
    return any(word in str(error) for word in ("Gloo", "gloo", "NCCL", "coordination", "heartbeat"))


class Together:
    """How arrays lie on the ranks' devices, and what is computed on all of them."""

    def __init__(self):
        self.mesh = Mesh(numpy.array(jax.devices()), (AXIS,))

    def replicated(self, array):
        """This rank's device array as one that every rank has."""
        return self._made(array, PartitionSpec(), array.shape)

    def rows(self, array):
        """This rank's device array as its part of one whose rows are all ranks'. Every rank has as many."""
        return self._made(array, PartitionSpec(AXIS), (array.shape[0] * self.mesh.size, *array.shape[1:]))

    def _made(self, array, spec, shape):
        return jax.make_array_from_single_device_arrays(shape, NamedSharding(self.mesh, spec), [array])

    def mapped(self, applied):
        """TrainedUpdate.applied, run by each rank on its own rows."""
        every = PartitionSpec()
        names = ("trained", "statistics", "rest", "state", "loss_scale", "inputs", "turn", "scalars")
        specs = {name: PartitionSpec(AXIS) if name == "inputs" else every for name in names}
        # what batch norm's statistics are is each rank's own, though it is said to be the same everywhere
        spread = jax.shard_map(
            lambda given: applied(**given), mesh=self.mesh, in_specs=(specs,), out_specs=every, check_vma=False
        )

        def applied_everywhere(trained, statistics, rest, state, loss_scale, inputs, turn, scalars):
            given = (trained, statistics, rest, state, loss_scale, inputs, turn, scalars)
            return spread(dict(zip(names, given, strict=True)))

        applied_everywhere.__name__ = applied.__name__  # by which profiles and memory find the program
        return applied_everywhere


def share(weight):
    """Within the program: the factor, 1 where all ranks' rows count alike, by which this rank's loss is to be
    multiplied. `weight`: what the loss is a mean of, an array of one number."""
    return weight[0] * jax.lax.axis_size(AXIS) / jax.lax.psum(weight[0], AXIS)


def mean(gradients):
    """Within the program: the ranks' mean."""
    return jax.lax.pmean(gradients, AXIS)


def own_key(key):
    """Within the program: the key that this rank draws from."""
    return jax.random.fold_in(key, jax.lax.axis_index(AXIS))
