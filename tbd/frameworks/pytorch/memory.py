"""Every storage of one training step: when it was born and died, and what it holds (docs/memory.md)."""

import gc
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tbd.frameworks import attribution
from tbd.frameworks.pytorch.allocator import CpuAllocator, CudaAllocator

METHOD = (
    "TorchDispatchMode over the tensors' storages; feature maps by autograd's saved-tensor hooks, weights, "
    "their gradients, optimizer state and input by name, scratch memory from the allocator's peak "
    "within each operator; the rest is workspace, or other where it was there before the step"
)
FEATURE_MAPS, GRADIENTS, WORKSPACE = "feature_maps", "weight_gradients", "workspace"
COMMUNICATION = "communication"


class Recorder(TorchDispatchMode):
    """While entered, notes the birth and the death of every storage on `device` that an operator returns.

    The order axis counts operators, births, deaths and phases. What an operator allocates and frees within itself, such
    as the scratch memory of a convolution, no operator returns: only the allocator sees it (add_scratch).
    """

    def __init__(self, device):
        super().__init__()
        self.device = device
        self.allocator = None
        self.operators = {}  # {order at its begin: (order after its results' births, name)}
        self.order = 0
        self.buffers = []
        self.alive = {}  # {address: buffer}
        self.layers = attribution.Layers({})  # of addresses
        self.casts = set()  # addresses of weights in the type of products: copies, kept for the backward pass or not
        self.phases = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.order += 1
        number = self.order
        with self.allocator.operator(number):
            result = function(*args, **(kwargs or {}))
        if function.namespace == "c10d":  # torch.distributed's own operators work on what they are given
            for leaf in tree_leaves(args):
                if isinstance(leaf, torch.Tensor):
                    self.mark(leaf, COMMUNICATION)
        copied = function is torch.ops.aten._to_copy.default and self.alive.get(args[0].untyped_storage().data_ptr())
        taken = [a.untyped_storage().data_ptr() for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.device.type == self.device.type:
                self.add(leaf.untyped_storage(), WORKSPACE, str(function), taken)
                if copied and copied["category"] == "weights":
                    self.casts.add(leaf.untyped_storage().data_ptr())
        self.order += 1
        self.operators[number] = (self.order, str(function))
        return result

    def add(self, storage, category, name, sources):
        """Note a storage that is new, made of what lies at the addresses `sources`."""
        if storage.nbytes() == 0 or storage.data_ptr() in self.alive:
            return
        self.order += 1
        buffer = {"bytes": storage.nbytes(), "born": self.order, "died": None, "category": category, "name": name}
        if layer := self.layers.add(storage.data_ptr(), sources):
            buffer["layer"] = layer
        self.buffers.append(buffer)
        self.alive[storage.data_ptr()] = buffer
        weakref.finalize(storage, self.free, storage.data_ptr())

    def add_persistent(self, tensors):
        """Note what was there before the step, [(category, name, tensor)], and give its bytes on the device.

        Where one storage holds several tensors, as cuDNN's flat weights do, each is a buffer, and the rest is other.
        """
        storages = {}
        for category, name, tensor in tensors:
            storage = tensor.untyped_storage()
            if storage.nbytes() and tensor.device.type == self.device.type:
                storages.setdefault(storage.data_ptr(), (storage, []))[1].append((category, name, tensor.nbytes))
        for address, (storage, held) in storages.items():
            left = storage.nbytes() - sum(size for _, _, size in held)
            if left > 0:
                held.append(("other", "", left))
            for category, name, size in held:
                buffer = {"bytes": size, "born": 0, "died": None, "category": category, "name": name}
                self.buffers.append(buffer)
                self.alive[address] = buffer
        weights = {
            a: [name for category, name, _ in held if category == "weights"] for a, (_, held) in storages.items()
        }
        self.layers = attribution.Layers({address: names[0] for address, names in weights.items() if names})
        return sum(storage.nbytes() for storage, _ in storages.values())

    def add_scratch(self, found):
        """Note the scratch memory of operators: [(order at the operator's begin, bytes)]."""
        for number, size in found:
            if size > 0:
                end, name = self.operators[number]
                buffer = {"bytes": size, "born": number, "died": end, "category": WORKSPACE, "name": name + " scratch"}
                self.buffers.append(buffer)

    def free(self, address):
        self.order += 1
        self.alive.pop(address)["died"] = self.order
        self.casts.discard(address)
        self.layers.forget(address)

    def mark(self, tensor, category, name=None):
        """What is still taken for workspace, or for a feature map, is `category`."""
        address = tensor.untyped_storage().data_ptr()
        buffer = self.alive.get(address)
        if buffer is not None and address not in self.casts and buffer["category"] in (WORKSPACE, FEATURE_MAPS):
            buffer["category"] = category
            buffer["name"] = name or buffer["name"]

    def save(self, tensor):
        """Autograd's hook: called with each tensor that the forward pass keeps for the backward pass."""
        if tensor.device.type == self.device.type:
            self.mark(tensor, FEATURE_MAPS)
        return tensor

    def enter_phase(self, name):
        """Begin a phase, which ends the one before."""
        self.end_phase()
        self.phases[name] = [self.order, None]

    def end_phase(self):
        self.order += 1
        for times in self.phases.values():
            times[1] = self.order if times[1] is None else times[1]


def record(training, arrays):
    """One training step's memory as a dict of docs/memory.md."""
    training.step(arrays)  # so that the optimizer's state is there and cuDNN has chosen its algorithms
    training.wait()
    inputs = training.inputs(arrays)
    gc.collect()
    recorder = Recorder(training.device)
    persistent = recorder.add_persistent(persistent_tensors(training, inputs))

    def entered(phase):
        if phase:
            recorder.enter_phase(phase)
        if phase == "update":
            for name, tensor in training.tensors.items():
                if tensor.grad is not None:
                    recorder.mark(tensor.grad, GRADIENTS, name)

    of_device = CudaAllocator if training.device.type == "cuda" else CpuAllocator
    with of_device(training.device, persistent) as allocator:
        recorder.allocator = allocator
        with recorder, torch.autograd.graph.saved_tensors_hooks(recorder.save, lambda tensor: tensor):
            training.train(inputs, entered)
        recorder.end_phase()
    recorder.add_scratch(allocator.scratch)
    if allocator.library_bytes > 0:
        kept = {"bytes": allocator.library_bytes, "born": 0, "died": None, "category": WORKSPACE, "name": "libraries"}
        recorder.buffers.append(kept)
    return {
        "schema": 1,
        "buffers": recorder.buffers,
        "steps": [0, recorder.order],
        "phases": recorder.phases if len(training.turns) == 1 else {},
        "allocator": {
            "name": allocator.name,
            "peak_bytes": allocator.peak_bytes,
            "slack_bytes": allocator.slack_bytes,
        },
        "method": METHOD,
    }


def persistent_tensors(training, inputs):
    """[(category, name, tensor)] of all that is there before a step."""
    roles = {p.name: p.role for p in training.specification.parameters}
    names = {id(tensor): name for name, tensor in training.tensors.items()}
    found = []
    for tensor in (*training.network.parameters(), *training.network.buffers()):
        name = names.get(id(tensor), "")
        found.append(("weights" if roles.get(name) in ("weight", "frozen") else "other", name, tensor))
    for update in training.updates:
        for parameter, state in update.optimizer.state.items():
            for key, value in state.items():
                if torch.is_tensor(value):
                    # arrays of the parameter's shape are the state; the others count steps
                    category = "optimizer_state" if value.shape == parameter.shape else "other"
                    found.append((category, f"{names[id(parameter)]} {key}", value))
    for tensor in training.exchange.buckets if training.exchange else ():
        found.append((GRADIENTS, "bucket", tensor))  # the gradients are views of it
    # turns that take the same arrays share them on a CPU
    found += {t.data_ptr(): ("input", name, t) for tensors in inputs for name, t in tensors.items()}.values()
    return found
