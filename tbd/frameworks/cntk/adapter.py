"""CNTK's adapter. Python 3.6 syntax, as all that imports CNTK."""

import os
import warnings

from tbd import models
from tbd.frameworks.base import PRECISIONS, Framework, cpu_name
from tbd.frameworks.cntk import quiet, ranks


class Cntk(Framework):
    name = "cntk"

    def __init__(self, request):
        super().__init__(request)
        threads = request["hardware"]["threads"]
        os.environ["OMP_NUM_THREADS"] = str(threads)
        several = request["world_size"] > 1
        if several:
            ranks.join(request)
        self.cntk = cntk = imported()
        cntk.logging.set_trace_level(cntk.logging.TraceLevel.Error)
        with quiet.held_stderr():  # it says which it takes
            cntk.device.try_set_default_device(cntk.cpu())
            cntk.device.use_default_device()
        # of CNTK's own loops and of MKL's; it takes as many as there are cores unless it is told
        cntk.cntk_py.set_max_num_cputhreads(threads)
        self.dtype = PRECISIONS[request["precision"]].storage
        self.exchange = ranks.Exchange(cntk) if several else None

    def version(self):
        return self.cntk.__version__

    def devices(self):
        return [{"kind": "cpu", "name": cpu_name()}]

    def build(self, specification, weights):
        from tbd.frameworks.cntk.training import CntkTraining

        network = models.network(specification.name, "cntk").NETWORK
        updates = specification.updates(self.global_batch_size)
        self.cntk.cntk_py.set_fixed_random_seed(self.random_seed)  # what dropout draws from
        return CntkTraining(network, specification, updates, weights, self.dtype, self.exchange)

    def out_of_memory(self, error):
        # CNTK gives every C++ exception as a RuntimeError; std::bad_alloc says its name
        return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "bad_alloc" in str(error))

    def matrix_product(self, size):
        import numpy

        cntk = self.cntk
        random = numpy.random.RandomState(0)
        a, b = (random.random_sample((size, size)).astype(self.dtype) for _ in range(2))
        # a product of constants would be computed once
        rows = cntk.input_variable(size, dtype=a.dtype.type)
        multiply = cntk.times(rows, cntk.Constant(b))
        given = {rows: cntk.asvalue(rows, a)}

        def product(times):
            for _ in range(times):
                multiply.eval(given, as_numpy=False)

        return product

    def memory_copy(self, size):
        import numpy

        ones = numpy.ones(size // 4, numpy.float32)
        source, target = (self.cntk.NDArrayView.from_dense(ones) for _ in range(2))

        def copy(times):
            for _ in range(times):
                target.copy_from(source)

        return copy


def imported():
    """The module cntk, without what it says of Linux distributions and of CUDA."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import cntk
    return cntk


FRAMEWORK = Cntk
