"""TensorFlow's adapter."""

import contextlib
import os
import sys
import tempfile

from tbd import models
from tbd.frameworks import cuda
from tbd.frameworks.base import PRECISIONS, Framework, Unsupported, cpu_name


class TensorFlow(Framework):
    name = "tensorflow"

    def __init__(self, request):
        super().__init__(request)
        hardware = request["hardware"]
        if request.get("pass") == "memory":
            # the plain CPU allocator writes no allocation events, the best-fit one does; read once, at the import
            os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
        self.tf = tf = imported()
        tf.config.threading.set_intra_op_parallelism_threads(hardware["threads"])
        # one operation at a time, each on all the threads: the order of allocations, and so the peak, is repeatable
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self.device = self.device_of(hardware["device"])
        self.strategy = None
        if request["world_size"] > 1:
            if request.get("compile") == "xla":
                raise Unsupported("compile=xla is for one device here: take compile=graph")
            from tbd.frameworks.tensorflow import ranks

            self.strategy = ranks.join(request, self.device)
        storage, products, _ = PRECISIONS[request["precision"]]
        self.dtype = tf.dtypes.as_dtype(storage)
        self.products = tf.float32 if products == "tfloat32" else tf.dtypes.as_dtype(products)
        if request.get("pass") == "memory" and self.device == "CPU:0":
            from tbd.frameworks.tensorflow import memory

            memory.reserve(self.device)
        # fp32 means IEEE arithmetic; on recent GPUs TensorFlow would round the factors of products to TF32
        tf.config.experimental.enable_tensor_float_32_execution(products == "tfloat32")

    def device_of(self, kind):
        """TensorFlow's name of a request's hardware.device; raises Unsupported where there is none."""
        config = self.tf.config
        if kind == "cpu":
            config.set_visible_devices([], "GPU")
            return "CPU:0"
        if kind != "gpu":
            raise Unsupported(f"hardware.device={kind}: TensorFlow here runs on cpu or gpu")
        gpus = config.list_physical_devices("GPU")
        if not gpus:
            raise Unsupported(
                f"TensorFlow {self.version()} sees no GPU: take hardware=cpu, or install tensorflow[and-cuda] and "
                "a driver (TF_CPP_MIN_LOG_LEVEL=0 shows what it misses)"
            )
        config.set_visible_devices(gpus[:1], "GPU")
        config.experimental.set_memory_growth(gpus[0], True)
        return "GPU:0"

    def version(self):
        return self.tf.version.VERSION

    def devices(self):
        if self.device.startswith("GPU"):
            gpu = self.tf.config.list_physical_devices("GPU")[0]
            name = self.tf.config.experimental.get_device_details(gpu)["device_name"]
            return [{"kind": "gpu", "name": name, "uuid": cuda.device_uuid(0)}]
        return [{"kind": "cpu", "name": cpu_name()}]

    def build(self, specification, weights):
        from tbd.frameworks.tensorflow.training import TensorFlowTraining

        network = models.network(specification.name, "tensorflow").NETWORK
        updates = specification.updates(self.global_batch_size)
        xla = self.request.get("compile") == "xla"
        seed = self.random_seed
        return TensorFlowTraining(
            network, specification, updates, weights, self.device, self.dtype, self.products, xla, seed, self.strategy
        )

    def peer_lost(self, error):
        from tbd.frameworks.tensorflow import ranks

        return ranks.lost(error)

    def out_of_memory(self, error):
        return isinstance(error, (MemoryError, self.tf.errors.ResourceExhaustedError))

    def wait_for(self, tensor):
        """Return when what was enqueued, the tensor last, is done."""
        if self.strategy is None:
            self.tf.test.experimental.sync_devices()
        else:  # which TensorFlow can't do where it knows of other ranks
            tensor[:1].numpy()

    def matrix_product(self, size):
        tf = self.tf
        with tf.device(self.device):
            a, b = (tf.random.uniform([size, size], dtype=self.products) for _ in range(2))

        def product(times):
            for _ in range(times):
                last = tf.matmul(a, b)
            self.wait_for(last)

        return product

    def memory_copy(self, size):
        tf = self.tf
        with tf.device(self.device):
            source, target = (tf.Variable(tf.ones([size // 4])) for _ in range(2))

        def copy(times):
            for _ in range(times):
                target[:].assign(source)  # in place: as a whole it would only take the other's memory
            self.wait_for(target)

        return copy


def imported():
    """The module tensorflow. What its libraries print at the import is dropped unless the import fails."""
    # fatal messages only: TensorFlow logs as errors what it then does another way, and real errors come as exceptions
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with held_stderr():
        import tensorflow
    return tensorflow


@contextlib.contextmanager
def held_stderr():
    """Keeps what is written to file descriptor 2 and prints it only where an exception leaves the block.

    TensorFlow's C++ libraries announce oneDNN and the CPU's instructions before they read their own log level.
    """
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(original, held.read())
            raise
        finally:
            os.dup2(original, 2)
            os.close(original)


FRAMEWORK = TensorFlow
