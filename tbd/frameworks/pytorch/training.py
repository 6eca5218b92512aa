"""One network in training on one device.

What tbd/models/<model>/pytorch.py defines as NETWORK, an nn.Module:

    NETWORK(specification)        the parameters and buffers, of any values: the adapter sets them all
    host_inputs                   names of the arrays that forward() wants in the host's memory
    canonical()                   {canonical name: its tensor}, for every Parameter of the specification. What the
                                  network keeps beside them is a constant zero
    forward(inputs, update)       the loss, a scalar, that the update of that name goes down. `inputs` are the update's
                                  arrays as tensors, reals in the run's precision
    outputs(inputs)               {name: tensor} of what data are made from, where they are: Training.outputs

Which tensors need a gradient is the adapter's business: in an update its own, and no others. In mixed precision the
network runs under torch.autocast, and may leave all types to it; what needs autocast's type itself, as a function with
a gradient of its own does, asks product_type().
"""

import contextlib
import time

import numpy
import torch

from tbd.frameworks import base
from tbd.frameworks.base import RUN_AHEAD, Training, Unsupported
from tbd.frameworks.pytorch import memory, trace
from tbd.frameworks.pytorch import optimizer as optimizers
from tbd.models.specification import learning_rate_at


def product_type(tensor):
    """The type in which a product of the tensor is taken: autocast's where it is on, else the tensor's own."""
    device = tensor.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else tensor.dtype


class TrainedUpdate:
    """An Update of the specification with its tensors, those that it trains, and its torch optimizer.

    `scaled`: whether fp16's loss scaling is needed. It waits for the device nowhere but in RMSprop, which has no fused
    kernel to leave an update out by itself.
    """

    def __init__(self, update, parameters, tensors, device, scaled):
        self.name, self.repeat = update.name, update.repeat
        self.specified = update.optimizer
        by_name = {p.name: p for p in parameters}
        self.parameters = [by_name[name] for name in update.parameters]
        self.tensors = [tensors[p.name] for p in self.parameters]
        self.optimizer = optimizers.create(update.optimizer, self.parameters, tensors)
        self.optimizer.register_step_post_hook(self.applied)
        self.scaler = torch.amp.GradScaler(
            device.type,
            init_scale=base.LOSS_SCALE,
            growth_factor=base.LOSS_SCALE_GROWTH,
            backoff_factor=base.LOSS_SCALE_BACKOFF,
            growth_interval=base.LOSS_SCALE_INTERVAL,
            enabled=scaled,
        )
        self.forward = None  # the network as several ranks run it for this update
        self.left_out = 0  # updates that the scaler left out, less those that were applied: a tensor where it decides

    def apply(self, step):
        """Move the tensors by their gradients, with the learning rate of the step of that number."""
        if self.specified.clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            optimizers.clip(self.tensors, self.specified.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate_at(self.specified, step)
        self.left_out += 1
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def applied(self, optimizer, *_):
        """The optimizer's hook after a step: a fused one was handed `found_inf`, 1 where it then moved nothing."""
        self.left_out = self.left_out - 1 + getattr(optimizer, "found_inf", 0)
        if self.specified.clip_weights is not None:
            optimizers.clip_weights(self.tensors, self.specified.clip_weights)


class PyTorchTraining(Training):
    """`products`: the type of products; where it is not `dtype`, autocast is on. `compiler`: an Inductor, or None.
    `exchange`: a ranks.Exchange with the other ranks, None where there are none.
    """

    def __init__(
        self, network, specification, updates, weights, device, dtype, products=None, compiler=None, exchange=None
    ):
        self.specification, self.device, self.dtype = specification, device, dtype
        mixed = products not in (None, dtype)
        self.autocast = torch.autocast(device.type, products) if mixed else contextlib.nullcontext()
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
        scaled = products == torch.float16
        self.updates = [TrainedUpdate(u, specification.parameters, self.tensors, device, scaled) for u in updates]
        self.turns = [(update, n) for update in self.updates for n in range(update.repeat)]
        self.active = None  # the update whose tensors need a gradient
        self.steps = 0
        self.unread = []  # detached losses, on the device
        self.entered = lambda phase: None  # what a step tells its phases
        self.compiled = compiler is not None
        self.forward = compiler(self.network) if compiler else self.network
        self.exchange = exchange
        if exchange:
            for update in self.updates:
                self.activate(update)  # of each update it is to exchange the gradients of its own tensors alone
                update.forward = exchange.wrap(self.network, update.tensors)
        self.begun = None  # when the device was idle and the first of the events was recorded; None after a wait()
        self.begun_at = None  # the same, of the steps before the last wait()
        self.events = []  # on a GPU one more than steps since then

    def step(self, arrays):
        factors = self.exchange.shares(self.weights_of(arrays)) if self.exchange else None
        if self.device.type != "cuda":
            self.train(self.inputs(arrays), factors=factors)
            return
        if self.begun is None:
            self.events = [self.mark()]
            self.begun = time.monotonic()
        self.train(self.inputs(arrays), factors=factors)
        self.events.append(self.mark())
        if len(self.events) > RUN_AHEAD + 1:
            self.events[-RUN_AHEAD - 1].synchronize()

    def mark(self):
        """An event recorded on the device now."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def step_ends(self):
        if self.device.type != "cuda":
            return None
        if self.begun_at is None:
            return []
        # between neighbours, since CUDA gives the time between two events as a float32 of milliseconds
        pairs = zip(self.events, self.events[1:], strict=False)
        return list(self.begun_at + numpy.cumsum([a.elapsed_time(b) / 1e3 for a, b in pairs]))

    def weights_of(self, arrays):
        """What the loss of each turn of the step is a mean over."""
        specification = self.specification
        return [specification.loss_weight(specification.update_arrays(arrays, u.name, n)) for u, n in self.turns]

    def train(self, inputs, entered=None, factors=None):
        """One step over the tensors of inputs(). `entered(phase)` is called as each phase begins, and with "" after
        the last. `factors`: of several ranks, what Exchange.shares gives; without it their rows count alike."""
        entered = entered or self.entered
        for number, ((update, _), tensors) in enumerate(zip(self.turns, inputs, strict=True)):
            self.activate(update)
            entered("forward")
            with self.autocast:
                loss = (update.forward or self.forward)(tensors, update.name)
            if factors is not None:
                loss = loss * factors()[number].to(loss.dtype)
            entered("backward")
            update.scaler.scale(loss).backward()
            if self.exchange:
                self.exchange.end_of_backward()
            entered("update")
            update.apply(self.steps)
        entered("")
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
            tensors[name] = tensor if name in self.network.host_inputs else self.on_device(tensor)
        return tensors

    def on_device(self, tensor):
        if self.device.type == "cuda":
            tensor = tensor.pin_memory()  # from memory that is not pinned the copy would wait for the device
        return tensor.to(self.device, non_blocking=True)

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            self.begun_at, self.begun = self.begun, None

    def exchanged(self):
        return self.exchange.seconds() if self.exchange else None

    def skipped(self):
        total = sum(float(update.left_out) for update in self.updates)
        for update in self.updates:
            update.left_out = 0
        return int(total)

    def losses(self):
        if not self.unread:
            return []
        values = torch.stack(self.unread).tolist()
        self.unread.clear()
        return values

    def outputs(self, arrays):
        with torch.no_grad(), self.autocast:
            found = self.network.outputs(self.tensors_of(arrays))
        return {name: array_of(tensor.float()) for name, tensor in found.items()}

    def weights(self):
        return {name: array_of(tensor) for name, tensor in self.tensors.items()}

    def gradients(self, arrays):
        found = {}
        for update in self.updates:
            self.activate(update)
            inputs = self.tensors_of(self.specification.update_arrays(arrays, update.name, 0))
            scale = update.scaler.get_scale()
            while True:
                with self.autocast:
                    loss = self.forward(inputs, update.name)
                gradients = torch.autograd.grad(loss * scale, update.tensors)
                if scale <= 1 or all(g.isfinite().all() for g in gradients):
                    break
                scale *= base.LOSS_SCALE_BACKOFF
            named = zip(update.parameters, (g / scale for g in gradients), strict=True)
            found[update.name] = loss.item(), {p.name: array_of(gradient) for p, gradient in named}
        return found

    def tracing(self, path):
        return trace.tracing(path, self)

    def record_memory(self, arrays):
        if self.compiled:
            raise Unsupported(
                "compile=inductor: what compiled code allocates is seen by no operator: use compile=eager"
            )
        return memory.record(self, arrays)


def array_of(tensor):
    """A copy of a tensor as a C-ordered numpy array."""
    return numpy.array(tensor.detach().cpu().numpy(), order="C")
