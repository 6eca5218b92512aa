"""One network in training on one device.

What tbd/models/<model>/pytorch.py defines as NETWORK, an nn.Module:

    NETWORK(specification)        the parameters and buffers, of any values: the adapter sets them all
    host_inputs                   names of the arrays that forward() wants in the host's memory
    canonical()                   {canonical name: its tensor}, for every Parameter of the specification. What the
                                  network keeps beside them is a constant zero
    forward(inputs, update)       the loss, a scalar, that the update of that name goes down. `inputs` are the update's
                                  arrays as tensors, reals in the run's precision

Which tensors need a gradient is the adapter's business: in an update its own, and no others.
"""

import collections

import numpy
import torch

from tbd.frameworks.base import RUN_AHEAD, Training
from tbd.frameworks.pytorch import memory, trace
from tbd.frameworks.pytorch import optimizer as optimizers
from tbd.models.specification import learning_rate_at


class TrainedUpdate:
    """An Update of the specification with its tensors, those that it trains, and its torch optimizer."""

    def __init__(self, update, parameters, tensors):
        self.name, self.repeat = update.name, update.repeat
        self.specified = update.optimizer
        by_name = {p.name: p for p in parameters}
        self.parameters = [by_name[name] for name in update.parameters]
        self.tensors = [tensors[p.name] for p in self.parameters]
        self.optimizer = optimizers.create(update.optimizer, self.parameters, tensors)

    def apply(self, step):
        """Move the tensors by their gradients, with the learning rate of the step of that number."""
        if self.specified.clip_norm is not None:
            optimizers.clip(self.tensors, self.specified.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate_at(self.specified, step)
        self.optimizer.step()
        if self.specified.clip_weights is not None:
            optimizers.clip_weights(self.tensors, self.specified.clip_weights)
        self.optimizer.zero_grad(set_to_none=True)


class PyTorchTraining(Training):
    def __init__(self, network, specification, updates, weights, device, dtype):
        self.specification, self.device, self.dtype = specification, device, dtype
        with torch.device("meta"):  # no memory and no initialiser: every array is set below
            self.network = network(specification)
        self.network.to_empty(device=device).to(dtype=dtype, memory_format=torch.channels_last)
        with torch.no_grad():
            for tensor in (*self.network.parameters(), *self.network.buffers()):
                tensor.requires_grad_(False)
                tensor.zero_()  # what the specification doesn't know is a constant zero
            self.tensors = self.network.canonical()
            for name, tensor in self.tensors.items():
                tensor.copy_(torch.as_tensor(weights[name]))
        self.updates = [TrainedUpdate(update, specification.parameters, self.tensors) for update in updates]
        self.turns = [(update, n) for update in self.updates for n in range(update.repeat)]
        self.active = None  # the update whose tensors need a gradient
        self.steps = 0
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
        """One step over the tensors of inputs(). `entered(phase)` is called as each phase begins."""
        for (update, _), tensors in zip(self.turns, inputs, strict=True):
            self.activate(update)
            entered("forward")
            loss = self.network(tensors, update.name)
            entered("backward")
            loss.backward()
            entered("update")
            update.apply(self.steps)
        self.steps += 1
        self.unread.append(loss.detach())

    def activate(self, update):
        """Let the tensors of `update` have gradients, and no others: the rest would be worked out for nothing."""
        if update is self.active:
            return
        for tensor in self.active.tensors if self.active else ():
            tensor.requires_grad_(False)
        for tensor in update.tensors:
            tensor.requires_grad_(True)
        self.active = update

    def inputs(self, arrays):
        """The batch as tensors, a dict for each turn of the step."""
        return [self.tensors_of(self.specification.update_arrays(arrays, u.name, n)) for u, n in self.turns]

    def tensors_of(self, arrays):
        """Arrays as tensors: reals in the run's precision, all on the device but the network's host inputs."""
        tensors = {}
        for name, array in arrays.items():
            tensor = torch.from_numpy(numpy.ascontiguousarray(array))
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
        found = {}
        for update in self.updates:
            self.activate(update)
            loss = self.network(self.tensors_of(self.specification.update_arrays(arrays, update.name, 0)), update.name)
            gradients = torch.autograd.grad(loss, update.tensors)
            named = zip(update.parameters, gradients, strict=True)
            found[update.name] = loss.item(), {p.name: array_of(gradient) for p, gradient in named}
        return found

    def tracing(self, path):
        return trace.tracing(path, self.device)

    def record_memory(self, arrays):
        return memory.record(self, arrays)


def array_of(tensor):
    """A copy of a tensor as a C-ordered numpy array."""
    return numpy.array(tensor.detach().cpu().numpy(), order="C")
