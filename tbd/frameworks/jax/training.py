"""One network in training on one device.

What tbd/models/<model>/jax.py defines as NETWORK:

    NETWORK(specification)              holds no arrays
    draws                               True where the network uses layers.dropout; may be missing, as False
    network(weights, inputs, update)    (loss, moved): the loss, a scalar, that the update of that name goes down, and
                                        {name of a statistic: its new value}, {} where there is none
    outputs(weights, inputs)            {name: array} of what data are made from, where they are: Training.outputs

`weights` is {canonical name: array} of every Parameter in JAX's own layouts (tbd/frameworks/layouts.py: convolutions
HWIO, dense ones (in, out); the rest as canonical), `inputs` are the update's arrays. Reals of the inputs, and weights
of the kinds conv, dense and embedding, have the type of the run's products, but those inputs that the specification
calls `wide` that of the weights. A network that draws finds `inputs["key"]` too, a jax.random key that is another one
in every turn of every step.

It is a pure function that jax.jit traces once for each set of shapes; recurrences are lax.scan. Layers that several
models use are in layers.py.
"""

import jax
import numpy

from tbd.frameworks import layouts
from tbd.frameworks.base import Training
from tbd.frameworks.completion import Completions
from tbd.frameworks.jax import memory, trace
from tbd.frameworks.jax.owned import owned
from tbd.frameworks.jax.update import WEIGHT, TrainedUpdate


class JaxTraining(Training):
    """`dtype`: the type of weights; `products`: that of products, and of real inputs. `together`: of several ranks, a
    ranks.Together; arrays are then those of all ranks, of which this one has its part.
    """

    alike = True

    def __init__(self, network, specification, updates, weights, device, dtype, seed, products=None, together=None):
        self.specification, self.device = specification, device
        self.dtype, self.products = dtype, products or dtype
        self.parameters, self.together = specification.parameters, together
        self.weights_now = {
            p.name: owned(layouts.native(weights[p.name], p.kind).astype(dtype), device) for p in self.parameters
        }
        network = network(specification)
        self.updates = [
            TrainedUpdate(update, network, self.parameters, self.weights_now, seed, self.products, together)
            for update in updates
        ]
        if together:
            self.weights_now = {name: together.replicated(array) for name, array in self.weights_now.items()}
        if hasattr(network, "outputs"):
            given = self.updates[0].given
            self.produced = jax.jit(lambda weights, inputs: network.outputs(given(weights), inputs))
        self.turns = [(update, n) for update in self.updates for n in range(update.repeat)]
        self.steps = 0
        self.unread = []  # losses, on the device
        # on the CPU a step is done when step() returns, as in the other frameworks
        self.completions = None if device.platform == "cpu" else Completions(jax.block_until_ready)
        self.ended = []

    def inputs(self, arrays):
        """The batch on the device, a dict for each turn of the step; real numbers in the products' type."""
        found = []
        for update, repetition in self.turns:
            own = self.specification.update_arrays(arrays, update.name, repetition)
            tensors = self.tensors_of(own)
            if self.together:
                weight = self.on_device(numpy.array([self.specification.loss_weight(own)], numpy.float64), self.dtype)
                tensors = {name: self.together.rows(array) for name, array in {**tensors, WEIGHT: weight}.items()}
            found.append(tensors)
        return found

    def tensors_of(self, arrays):
        wide = self.specification.wide
        return {name: self.on_device(a, self.dtype if name in wide else self.products) for name, a in arrays.items()}

    def on_device(self, array, dtype):
        """The array on the device, where reals are made `dtype`: numpy takes longer for that than a GPU for a step."""
        array = jax.device_put(array, self.device)
        return array.astype(dtype) if array.dtype.kind == "f" else array

    def train(self, inputs):
        """One step over the arrays of inputs()."""
        for (update, repetition), tensors in zip(self.turns, inputs, strict=True):
            loss = update.train(self.weights_now, tensors, self.steps, repetition)
        self.steps += 1
        self.unread.append(loss)

    def step(self, arrays):
        self.train(self.inputs(arrays))
        if self.completions:
            self.completions.add(self.unread[-1])
        else:
            self.unread[-1].block_until_ready()

    def wait(self):
        jax.block_until_ready(self.weights_now)
        if self.completions:
            self.ended = self.completions.take()

    def step_ends(self):
        return self.ended if self.completions else None

    def skipped(self):
        return sum(update.read_left_out() for update in self.updates)

    def losses(self):
        values = [float(loss.addressable_data(0)) for loss in self.unread]
        self.unread.clear()
        return values

    def outputs(self, arrays):
        weights = {name: array.addressable_data(0) for name, array in self.weights_now.items()}
        found = self.produced(weights, self.tensors_of(arrays))
        return {name: numpy.asarray(array, numpy.float32) for name, array in found.items()}

    def weights(self):
        return {p.name: canonical(self.weights_now[p.name], p.kind) for p in self.parameters}

    def gradients(self, arrays):
        found = {}
        for update in self.updates:
            inputs = self.tensors_of(self.specification.update_arrays(arrays, update.name, 0))
            loss, gradients = update.differentiate(self.weights_now, inputs)
            found[update.name] = (
                float(loss),
                {p.name: canonical(gradients[p.name], p.kind) for p in update.parameters},
            )
        return found

    def tracing(self, path):
        return trace.tracing(path)

    def persistent(self, inputs):
        """The buffers (docs/memory.md) that are there before a step over the arrays of inputs()."""
        found = []
        for p in self.parameters:
            kind = "other" if p.role == "statistic" else "weights"
            found.append(memory.buffer(self.weights_now[p.name].nbytes, 0, None, kind, p.name))
        for update in self.updates:
            for arrays in update.state.values():
                found += [memory.buffer(a.nbytes, 0, None, "optimizer_state", name) for name, a in arrays.items()]
        return found + [
            memory.buffer(a.addressable_data(0).nbytes, 0, None, "input", name)
            for one in inputs
            for name, a in one.items()
        ]

    def record_memory(self, arrays):
        return memory.record(self, arrays)


def canonical(array, kind):
    """A copy of a device's array in its canonical layout."""
    return layouts.canonical(numpy.array(array.addressable_data(0)), kind)
