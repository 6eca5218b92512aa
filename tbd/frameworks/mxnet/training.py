"""One network in training on one device.

What tbd/models/<model>/mxnet.py defines as NETWORK:

    NETWORK(specification)              holds no arrays
    network(weights, inputs, update)    (loss, moved): Symbols of the loss, one number, that the update of that name
                                        goes down, and {name of a statistic: its new value}, {} where there is none
    outputs(weights, inputs)            {name: Symbol} of what data are made from, where they are: Training.outputs

`weights` is {canonical name: Symbol} of every Parameter, whose canonical layouts are MXNet's own; `inputs` is {name:
Symbol} of the update's arrays, reals in the run's precision. All are variables that know their shapes
(layers.shape_of). The network is called once for each set of shapes, and a recurrence is unrolled. Layers that several
models use are in layers.py.
"""

import mxnet

from tbd.frameworks.base import Training
from tbd.frameworks.mxnet import memory, trace
from tbd.frameworks.mxnet.graph import Graph
from tbd.frameworks.mxnet.ranks import Exchange
from tbd.frameworks.mxnet.update import TrainedUpdate


class MXNetTraining(Training):
    """`counter`: the memory.Counter of a memory pass. `world_size`: ranks that train together."""

    def __init__(self, network, specification, updates, weights, device, dtype, counter=None, world_size=1):
        self.specification, self.device, self.dtype, self.counter = specification, device, dtype, counter
        self.parameters = specification.parameters
        self.arrays = {p.name: mxnet.nd.array(weights[p.name], device, dtype) for p in self.parameters}
        self.network = network(specification)
        self.updates = [TrainedUpdate(u, self.parameters, self.arrays) for u in updates]
        self.turns = [(update, n) for update in self.updates for n in range(update.repeat)]
        self.exchange = Exchange(self.updates, len(self.turns), world_size) if world_size > 1 else None
        self.graphs = {}  # {(update's name, repetition, shapes): Graph}
        self.steps = 0
        self.unread = []  # losses, on the device

    def inputs(self, arrays):
        """The batch, real numbers in the run's precision: a dict of numpy's arrays for each turn of the step."""
        return [self.typed(self.specification.update_arrays(arrays, u.name, n)) for u, n in self.turns]

    def typed(self, arrays):
        return {n: a.astype(self.dtype, copy=False) if a.dtype.kind == "f" else a for n, a in arrays.items()}

    def graph(self, inputs, turn):
        """The Graph of a turn, which has input arrays of its own, for inputs of these shapes. None: of outputs().

        All graphs share one pool of memory, since one runs at a time.
        """
        update, repetition = turn or (None, 0)
        key = update and update.name, repetition, *(array.shape for array in inputs.values())
        if key not in self.graphs:
            beside = next(reversed(self.graphs.values()), None)
            self.graphs[key] = Graph(self.network, self.arrays, inputs, update, self.device, beside)
        return self.graphs[key]

    def train(self, inputs):
        """One step over the arrays of inputs()."""
        shares = self.exchange and self.exchange.shares([self.specification.loss_weight(a) for a in inputs])
        for number, (turn, arrays) in enumerate(zip(self.turns, inputs, strict=True)):
            graph = self.graph(arrays, turn)
            loss = graph.differentiate(arrays)
            if self.exchange:
                loss = self.exchange.average(turn[0], loss, shares[number])
            graph.move_statistics()
            turn[0].rule.apply(self.steps)
        self.steps += 1
        self.unread.append(loss)

    def step(self, arrays):
        self.train(self.inputs(arrays))

    def wait(self):
        mxnet.nd.waitall()

    def losses(self):
        values = [float(loss.asscalar()) for loss in self.unread]
        self.unread.clear()
        return values

    def outputs(self, arrays):
        inputs = self.typed(arrays)
        return {name: a.asnumpy().astype("float32") for name, a in self.graph(inputs, None).run(inputs).items()}

    def weights(self):
        return {name: array.asnumpy() for name, array in self.arrays.items()}

    def gradients(self, arrays):
        found = {}
        for update in self.updates:
            inputs = self.typed(self.specification.update_arrays(arrays, update.name, 0))
            loss = self.graph(inputs, (update, 0)).differentiate(inputs)
            found[update.name] = float(loss.asscalar()), {n: g.asnumpy() for n, g in update.gradients.items()}
        return found

    def tracing(self, path):
        return trace.tracing(path)

    def record_memory(self, arrays):
        return memory.record(self, arrays)
