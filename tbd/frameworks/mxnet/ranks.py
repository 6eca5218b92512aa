"""Several ranks: MXNet's parameter servers (ps-lite, kvstore dist_sync) sum their gradients.

Beside each rank runs a server, which keeps a part of the sums, and beside rank 0 the scheduler that introduces all to
each other: processes of their own, which end with their rank.
"""

import os
import subprocess
import sys

from tbd.worker import network

# a process that plays the role of its DMLC_ROLE from the import of mxnet on
ROLE = "from tbd.worker.parent import end_with_parent; end_with_parent(); import mxnet"

# Of a server in fp64: glibc fills what it allocates with zeros (255 is the complement of 0). MXNet never sets the flag
# by which its servers turn all numbers into float32 (multi_precision_ in src/kvstore/kvstore_dist_server.h): without
# this it is what lay there in memory, mostly true, and sums had errors of 1e-7.
ZEROED = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.perturb=255"}


def join(request):
    """Start this rank's server and say where the others are; before mxnet is imported."""
    peers = request["peers"]
    port, holder = network.held_port(request["address"]) if peers.rank == 0 else (None, None)
    port = peers.gather(port)[0]
    variables = {
        "DMLC_PS_ROOT_URI": request["rendezvous"]["address"],
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_WORKER": str(peers.world_size),
        "DMLC_NUM_SERVER": str(peers.world_size),
        "DMLC_NODE_HOST": request["address"],
    }
    interface = network.interface_of(request["address"])
    if interface:
        variables["DMLC_INTERFACE"] = interface
    os.environ.update(variables)
    if holder is not None:
        holder.close()  # ZeroMQ does not share a port: from here to the scheduler's start somebody could take it
        start("scheduler", {})
    start("server", ZEROED if request["precision"] == "fp64" else {})
    os.environ["DMLC_ROLE"] = "worker"


def start(role, variables):
    subprocess.Popen(
        [sys.executable, "-c", ROLE],
        env=dict(os.environ, DMLC_ROLE=role, OMP_NUM_THREADS="1", **variables),
        stdin=subprocess.DEVNULL,
    )


class Exchange:
    """The sums over all ranks of the updates' gradients."""

    def __init__(self, updates, turns, ranks):
        import mxnet

        self.mxnet, self.ranks = mxnet, ranks
        self.store = mxnet.kv.create("dist_sync")
        self.keys = {}
        self.store.init(0, mxnet.nd.zeros(turns, dtype="float64"))
        for update in updates:
            for name, gradient in update.gradients.items():
                self.keys[update.name, name] = len(self.keys) + 1
                self.store.init(self.keys[update.name, name], mxnet.nd.zeros_like(gradient))

    def shares(self, weights):
        """For each turn of a step what this rank's gradients count of all ranks'. `weights`: what each of its losses is
        the mean of."""
        own = self.mxnet.nd.array(weights, dtype="float64")
        total = own.copy()
        self.store.pushpull(0, total, out=total)
        return own / total

    def average(self, update, loss, share):
        """Make the update's gradients those of all ranks; gives the loss by its share, 1 where all count alike."""
        for name, gradient in update.gradients.items():
            gradient *= share.astype(gradient.dtype)
            key = self.keys[update.name, name]
            self.store.pushpull(key, gradient, out=gradient, priority=-key)
        return loss * (share * self.ranks).astype(loss.dtype)
