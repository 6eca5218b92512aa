"""PyTorch's adapter."""

import torch

from tbd import models
from tbd.frameworks.base import PRECISIONS, Framework, Unsupported, cpu_name
from tbd.frameworks.pytorch import inductor, ranks
from tbd.frameworks.pytorch.training import PyTorchTraining


class PyTorch(Framework):
    name = "pytorch"

    def __init__(self, request):
        super().__init__(request)
        hardware = request["hardware"]
        storage, products, _ = PRECISIONS[request["precision"]]
        self.dtype = getattr(torch, storage)
        self.products = torch.float32 if products == "tfloat32" else getattr(torch, products)
        torch.set_num_threads(hardware["threads"])
        if torch.get_num_interop_threads() != 1:  # can be set only once in a process
            torch.set_num_interop_threads(1)
        self.device = device_of(hardware["device"])
        if self.device.type == "cuda":
            # fp32 means IEEE arithmetic; by default cuDNN's convolutions and LSTMs round their inputs to TF32
            arithmetic = "tf32" if products == "tfloat32" else "ieee"
            torch.backends.cudnn.conv.fp32_precision = arithmetic
            torch.backends.cudnn.rnn.fp32_precision = arithmetic
            torch.backends.cuda.matmul.fp32_precision = arithmetic
            torch.backends.cudnn.benchmark = True  # pick each convolution's fastest algorithm in its first step
        if request["world_size"] > 1:
            if request.get("compile") == "inductor":
                raise Unsupported("compile=inductor is for one device here: take compile=eager")
            ranks.join(request, self.device)
        self.compiler = inductor.Inductor(self.device) if request.get("compile") == "inductor" else None

    def version(self):
        return torch.__version__

    def devices(self):
        if self.device.type == "cuda":
            properties = torch.cuda.get_device_properties(self.device)
            return [{"kind": "gpu", "name": properties.name, "uuid": f"GPU-{properties.uuid}"}]
        return [{"kind": "cpu", "name": cpu_name()}]

    def build(self, specification, weights):
        network = models.network(specification.name, "pytorch").NETWORK
        updates = specification.updates(self.global_batch_size)
        torch.manual_seed(self.random_seed)  # what dropout draws from
        exchange = ranks.Exchange(self.device) if self.request["world_size"] > 1 else None
        return PyTorchTraining(
            network, specification, updates, weights, self.device, self.dtype, self.products, self.compiler, exchange
        )

    def peer_lost(self, error):
        return ranks.lost(error)

    def out_of_memory(self, error):
        # torch.OutOfMemoryError comes from the CUDA allocator; the CPU's says "DefaultCPUAllocator: can't allocate
        # memory: you tried to allocate N bytes" (c10/core/impl/alloc_cpu.cpp) in a plain RuntimeError
        return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
            isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
        )

    def matrix_product(self, size):
        a, b = (torch.rand(size, size, dtype=self.products, device=self.device) for _ in range(2))
        out = torch.empty_like(a)

        def product(times):
            for _ in range(times):
                torch.mm(a, b, out=out)
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)

        return product

    def memory_copy(self, size):
        # ones: memory that only was zero need not be there at all
        source, target = (torch.ones(size // 4, device=self.device) for _ in range(2))

        def copy(times):
            for _ in range(times):
                target.copy_(source)
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)

        return copy


def device_of(kind):
    """The torch.device of a request's hardware.device; raises Unsupported where there is none."""
    if kind == "cpu":
        return torch.device("cpu")
    if kind != "gpu":
        raise Unsupported(f"hardware.device={kind}: PyTorch here runs on cpu or gpu")
    if not torch.cuda.is_available():
        raise Unsupported(
            f"PyTorch {torch.__version__} sees no CUDA device: take hardware=cpu, or install a CUDA build and driver"
        )
    return torch.device("cuda:0")


FRAMEWORK = PyTorch
