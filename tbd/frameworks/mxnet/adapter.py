"""MXNet's adapter."""

import os

from tbd import models
from tbd.frameworks.base import PRECISIONS, Framework, cpu_name
from tbd.frameworks.mxnet import ranks

# Read by MXNet's library when it is loaded or first used.
SETTINGS = {
    # one operation at a time, on the threads of OpenMP: the same in every run
    "MXNET_CPU_WORKER_NTHREADS": "1",
    # scratch memory is one array, used in turn; by default there are four, of which one is in use at a time
    "MXNET_CPU_TEMP_COPY": "1",
    # else a line on stderr for every graph that is bound
    "MXNET_SUBGRAPH_VERBOSE": "0",
}


class MXNet(Framework):
    name = "mxnet"

    def __init__(self, request):
        super().__init__(request)
        os.environ.update(SETTINGS)
        if request.get("pass") == "trace":
            # by default runs of operations are one event; apart they have their names and take some 3 % longer
            os.environ["MXNET_EXEC_BULK_EXEC_TRAIN"] = "0"
        os.environ["OMP_NUM_THREADS"] = str(request["hardware"]["threads"])
        if request["world_size"] > 1:
            ranks.join(request)
        import mxnet

        self.mxnet = mxnet
        self.dtype = PRECISIONS[request["precision"]].storage
        self.device = mxnet.cpu()
        self.counter = None
        if request.get("pass") == "memory":
            from tbd.frameworks.mxnet import memory

            self.counter = memory.Counter()

    def version(self):
        return self.mxnet.__version__

    def devices(self):
        return [{"kind": "cpu", "name": cpu_name()}]

    def build(self, specification, weights):
        from tbd.frameworks.mxnet.training import MXNetTraining

        network = models.network(specification.name, "mxnet").NETWORK
        updates = specification.updates(self.global_batch_size)
        self.mxnet.random.seed(self.random_seed)  # what dropout draws from
        return MXNetTraining(
            network, specification, updates, weights, self.device, self.dtype, self.counter, self.request["world_size"]
        )

    def out_of_memory(self, error):
        # CPUDeviceStorage::Alloc says "Failed to allocate CPU Memory" (src/storage/cpu_device_storage.h)
        return isinstance(error, MemoryError) or (
            isinstance(error, self.mxnet.MXNetError) and "Failed to allocate CPU Memory" in str(error)
        )

    def matrix_product(self, size):
        nd = self.mxnet.nd
        a, b = (nd.random.uniform(shape=(size, size), dtype=self.dtype) for _ in range(2))
        out = nd.empty((size, size), dtype=self.dtype)

        def product(times):
            for _ in range(times):
                nd.dot(a, b, out=out)
            out.wait_to_read()

        return product

    def memory_copy(self, size):
        source, target = (self.mxnet.nd.ones(size // 4) for _ in range(2))

        def copy(times):
            for _ in range(times):
                source.copyto(target)
            target.wait_to_read()

        return copy


FRAMEWORK = MXNet
