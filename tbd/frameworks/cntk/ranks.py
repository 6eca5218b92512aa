"""Several ranks: CNTK's data-parallel learners sum their gradients, over OpenMPI. Python 3.6 syntax.

OpenMPI's processes are started by mpirun and find each other by variables that it gives them; ours are started by the
launcher. So mpirun starts stand-ins (stand_in.py), whose variables the ranks take over. All of one machine: mpirun has
no way to another one that every cluster has.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import numpy

from tbd.frameworks.base import Unsupported
from tbd.frameworks.cntk import quiet

WITHIN_S = 60.0  # for the stand-ins of a busy machine
STAND_IN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in.py")
SETTINGS = {
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,vader",  # shared memory
    # the kernel's copies between processes are forbidden in many containers
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    # who waits lets others compute; by default it does where there are more ranks than cores
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
kept = []  # what this rank holds open while it lives


def join(request):
    """Take over the variables of this rank's stand-in; before MPI begins. Raises Unsupported in every rank alike."""
    peers = request["peers"]
    hosts = sorted(set(peers.gather(socket.gethostname())))
    if len(hosts) > 1:
        raise Unsupported("CNTK's ranks are joined on one machine only, and these are on %s" % ", ".join(hosts))
    if peers.rank:
        folder, variables, failed = peers.gather(None)[0]
    else:
        folder = tempfile.mkdtemp(prefix="tbd-mpi-")
        variables, failed = started(folder, peers.world_size)
        peers.gather((folder, variables, failed))
    if not failed and peers.rank:
        kept.append(os.open(os.path.join(folder, "alive"), os.O_WRONLY))
    peers.agree(True)
    if not peers.rank:
        shutil.rmtree(folder)
    if failed:
        raise Unsupported(failed)
    os.environ.update(variables[peers.rank])
    os.environ.update(SETTINGS)


def started(folder, count):
    """([the variables of each stand-in], None) of mpirun's, or (None, why there are none)."""
    os.mkfifo(os.path.join(folder, "alive"))
    kept.append(os.open(os.path.join(folder, "alive"), os.O_RDWR))  # does not wait for a reader
    command = ["mpirun", "-np", str(count), "--oversubscribe", "--bind-to", "none", "--allow-run-as-root"]
    # within an allocation it would ask Slurm for the processes
    own = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                command + [sys.executable, STAND_IN, folder],
                env=own, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
            )  # fmt: skip
        except OSError:
            return None, "CNTK's ranks are joined by OpenMPI's mpirun, which is not here: apt-get install openmpi-bin"
        paths = [os.path.join(folder, "%d.json" % rank) for rank in range(count)]
        deadline = time.monotonic() + WITHIN_S
        while not all(map(os.path.exists, paths)):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                said.seek(0)
                lines = [line for line in said.read().decode("utf-8", "replace").splitlines() if line.strip(" -")]
                return None, "mpirun didn't start CNTK's ranks: %s" % (" ".join(lines[:3]) or "no word from it")
            time.sleep(0.02)
    return [read(path) for path in paths], None


def read(path):
    with open(path) as file:
        return json.load(file)


class Exchange:
    """The ranks' communicator."""

    def __init__(self, cntk):
        self.cntk = cntk
        with quiet.held_stderr():  # it tells of each step of finding the others
            self.communicator = cntk.cntk_py.mpicommunicator()
        self.workers = self.communicator.workers()

    def distributed(self, learner):
        """The learner, for the sum of all ranks' gradients."""
        return self.cntk.train.distributed.data_parallel_distributed_learner(learner)

    def shares(self, weights):
        """For each turn of a step what this rank's gradients count of all ranks', times the number of ranks.

        `weights`: what each of its losses is the mean of.
        """
        own = numpy.array(weights, numpy.float64)
        total = self.cntk.NDArrayView.from_dense(own)
        self.communicator.aggregate_in_place([total], self.workers)
        return len(self.workers) * own / total.asarray()
