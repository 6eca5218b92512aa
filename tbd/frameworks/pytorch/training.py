"""One network in training on one device."""

import collections

import numpy
import torch

from tbd.frameworks.base import Training
from tbd.frameworks.pytorch import memory, trace
from tbd.frameworks.pytorch import optimizer as optimizers

RUN_AHEAD = 4  # steps enqueued on a GPU before the loop waits: enough to keep it busy, few enough to bound the memory


class PyTorchTraining(Training):
    def __init__(self, network, specification, optimizer, weights, device, dtype):
        self.device, self.dtype = device, dtype
        with torch.device("meta"):  # no memory and no initialiser: every array is set below
            self.network = network(specification)
        self.network.to_empty(device=device).to(dtype=dtype, memory_format=torch.channels_last)
        with torch.no_grad():
            for tensor in (*self.network.parameters(), *self.network.buffers()):
                tensor.zero_()  # what the specification doesn't know is a constant zero
            self.tensors = self.network.canonical()
            for name, tensor in self.tensors.items():
                tensor.copy_(torch.as_tensor(weights[name]))
        self.trainable = [self.tensors[p.name] for p in specification.parameters if p.trainable]
        self.clip_norm = optimizer.clip_norm
        self.optimizer = optimizers.create(optimizer, specification.parameters, self.tensors)
        self.unread = []  # detached losses, on the device
        self.events = collections.deque()  # one a step in flight

    def step(self, arrays):
        self.train(self.inputs(arrays))
        if self.device.type == "cuda":
            self.events.append(torch.cuda.Event())
            self.events[-1].record()
            if len(self.events) > RUN_AHEAD:
                self.events.popleft().synchronize()

    def train(self, inputs, entered=lambda phase: None):
        """One optimizer step over device tensors. `entered(phase)` is called as each phase begins."""
        entered("forward")
        loss = self.network(inputs)
        entered("backward")
        loss.backward()
        entered("update")
        if self.clip_norm is not None:
            optimizers.clip(self.trainable, self.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.unread.append(loss.detach())

    def inputs(self, arrays):
        """The batch as tensors: reals in the run's precision, all on the device but the network's host inputs."""
        tensors = {}
        for name, array in arrays.items():
            tensor = torch.from_numpy(array)
            if tensor.is_floating_point():
                tensor = tensor.to(self.dtype)
            tensors[name] = tensor if name in self.network.host_inputs else tensor.to(self.device, non_blocking=True)
        return tensors

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            self.events.clear()

    def losses(self):
        if not self.unread:
            return []
        values = torch.stack(self.unread).tolist()
        self.unread.clear()
        return values

    def weights(self):
        return {name: array_of(tensor) for name, tensor in self.tensors.items()}

    def gradients(self, arrays):
        loss = self.network(self.inputs(arrays))
        found = torch.autograd.grad(loss, self.trainable)
        names = {id(tensor): name for name, tensor in self.tensors.items()}
        named = {names[id(t)]: array_of(gradient) for t, gradient in zip(self.trainable, found, strict=True)}
        return loss.item(), named

    def tracing(self, path):
        return trace.tracing(path, self.device)

    def record_memory(self, arrays):
        return memory.record(self, arrays)


def array_of(tensor):
    """A copy of a tensor as a C-ordered numpy array."""
    return numpy.array(tensor.detach().cpu().numpy(), order="C")
