"""JAX's adapter."""

import os

from tbd import models
from tbd.frameworks import cuda
from tbd.frameworks.base import PRECISIONS, Framework, Unsupported, cpu_name

PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}


class Jax(Framework):
    name = "jax"

    def __init__(self, request):
        super().__init__(request)
        hardware = request["hardware"]
        # the size of XLA's thread pools on the CPU, read once, when the device is first used
        os.environ["PJRT_NPROC"] = str(hardware["threads"])
        import jax

        self.jax = jax
        self.dtype, products, _ = PRECISIONS[request["precision"]]
        tf32 = products == "tfloat32"
        self.products = jax.numpy.dtype("float32" if tf32 else products)
        jax.config.update("jax_enable_x64", self.dtype == "float64")
        # fp32 means IEEE arithmetic; on recent GPUs XLA would round the factors of products to TF32
        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if tf32 else "highest")
        # on the CPU a step runs in the thread that asks for it, as in the other frameworks: no thread more than asked
        jax.config.update("jax_cpu_enable_async_dispatch", False)
        if request["world_size"] > 1:
            from tbd.frameworks.jax import ranks

            self.jax.config.update("jax_platforms", PLATFORMS.get(hardware["device"], ""))
            ranks.join(request)
        self.device = self.device_of(hardware["device"])

    def device_of(self, kind):
        """The jax.Device of a request's hardware.device; raises Unsupported where there is none."""
        if kind not in PLATFORMS:
            raise Unsupported(f"hardware.device={kind}: JAX here runs on cpu or gpu")
        self.jax.config.update("jax_platforms", PLATFORMS[kind])
        try:
            return self.jax.local_devices()[0]
        except RuntimeError as error:
            raise Unsupported(
                f"JAX {self.version()} sees no {kind.upper()}: take hardware=cpu, or install jax[cuda13] and a driver "
                f"({error})"
            ) from error

    def version(self):
        return self.jax.__version__

    def devices(self):
        if self.device.platform == "cpu":
            return [{"kind": "cpu", "name": cpu_name()}]
        uuid = cuda.device_uuid(self.device.local_hardware_id)
        return [{"kind": "gpu", "name": self.device.device_kind, "uuid": uuid}]

    def build(self, specification, weights):
        from tbd.frameworks.jax.training import JaxTraining

        network = models.network(specification.name, "jax").NETWORK
        updates = specification.updates(self.global_batch_size)
        seed, together = self.request["seed"], None
        if self.request["world_size"] > 1:
            from tbd.frameworks.jax.ranks import Together

            together = Together()
        return JaxTraining(
            network, specification, updates, weights, self.device, self.dtype, seed, self.products, together
        )

    def peer_lost(self, error):
        from tbd.frameworks.jax import ranks

        return ranks.lost(error)

    def out_of_memory(self, error):
        return isinstance(error, MemoryError) or (
            isinstance(error, self.jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
        )

    def matrix_product(self, size):
        numpy = self.jax.numpy
        keys = self.jax.random.split(self.jax.random.key(0))
        a, b = (self.jax.random.uniform(key, (size, size), self.products) for key in keys)
        multiply = self.jax.jit(numpy.matmul)

        def product(times):
            for _ in range(times):
                last = multiply(a, b)
            last.block_until_ready()

        return product

    def memory_copy(self, size):
        source, target = (self.jax.numpy.ones(size // 4, "float32") for _ in range(2))
        # into the memory of the donated target: new pages would cost more than the copy
        copied = self.jax.jit(lambda source, target: self.jax.numpy.copy(source), donate_argnums=1, keep_unused=True)

        def copy(times):
            nonlocal target
            for _ in range(times):
                target = copied(source, target)
            target.block_until_ready()

        return copy


FRAMEWORK = Jax
