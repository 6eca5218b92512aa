"""One network in training on the CPU. Python 3.6 syntax.

What tbd/models/<model>/cntk.py defines as NETWORK:

    NETWORK(specification, weights)     `weights` is {canonical name: C.Parameter, or C.Constant where no update trains
                                        it} of every Parameter, in the canonical layouts, which are CNTK's own too
    network(inputs, update, rows)       (loss, moved): the loss, one number without a batch axis, that the update of
                                        that name goes down, and the C.assign()s that move statistics, [] where there is
                                        none. Batch norm moves its own
    outputs(inputs)                     {name: Function} of what data are made from (Training.outputs)

`inputs` is {name: input variable} of the update's arrays in the run's precision, whole numbers too: CNTK knows no
others. The arrays' first axis is CNTK's batch axis, and of `rows`; the rest are static. Losses that are means over the
batch are reduced over C.Axis.all_axes(): CNTK's own criteria are sums over samples, which its learners then divide.
The network is called once for each set of shapes. Layers that several models use are in layers.py.
"""

import cntk as C
import numpy

from tbd.frameworks.base import Training
from tbd.frameworks.cntk import memory, trace
from tbd.frameworks.cntk.update import TrainedUpdate, variables_for


class CntkTraining(Training):
    """`exchange`: the ranks.Exchange of several ranks."""

    def __init__(self, network, specification, updates, weights, dtype, exchange=None):
        self.made_of, self.exchange = (network, specification, updates), exchange
        self.specification, self.dtype = specification, numpy.dtype(dtype).type
        self.parameters = specification.parameters
        self.variables = {p.name: self.variable(p, weights[p.name]) for p in self.parameters}
        with C.default_options(dtype=self.dtype):
            self.network = network(specification, self.variables)
            self.updates = [TrainedUpdate(u, self.network, self.parameters, self.variables, exchange) for u in updates]
        self.turns = [(update, n) for update in self.updates for n in range(update.repeat)]
        self.produced = {}  # {shapes: (inputs, {name: Function})}
        self.steps = 0
        self.unread = []

    def variable(self, parameter, array):
        array = array.astype(self.dtype)
        if parameter.role == "weight":
            return C.Parameter(init=array, dtype=self.dtype, name=parameter.name)
        return C.Constant(array, dtype=self.dtype, name=parameter.name)

    def inputs(self, arrays):
        """The batch, a dict of arrays in the run's precision for each turn of the step."""
        return [self.typed(self.specification.update_arrays(arrays, u.name, n)) for u, n in self.turns]

    def typed(self, arrays):
        return {name: numpy.ascontiguousarray(array, self.dtype) for name, array in arrays.items()}

    def train(self, inputs):
        """One step over the arrays of inputs()."""
        shares = [None] * len(inputs)
        if self.exchange:
            shares = self.exchange.shares([self.specification.loss_weight(arrays) for arrays in inputs])
        for (update, _), arrays, share in zip(self.turns, inputs, shares):
            with C.default_options(dtype=self.dtype):
                loss = update.train(arrays, self.steps, share)
        self.steps += 1
        self.unread.append(loss)

    def step(self, arrays):
        self.train(self.inputs(arrays))

    def wait(self):
        """A step is done when step() returns."""

    def losses(self):
        values, self.unread = self.unread, []
        return values

    def outputs(self, arrays):
        arrays = self.typed(arrays)
        key = tuple(array.shape for array in arrays.values())
        if key not in self.produced:
            inputs = variables_for(arrays)
            with C.default_options(dtype=self.dtype):
                found = self.network.outputs(inputs)
            self.produced[key] = inputs, found, C.combine(list(found.values()))
        inputs, found, together = self.produced[key]
        values = together.eval({inputs[name]: array for name, array in arrays.items()})
        return {name: values[function.output].astype(numpy.float32) for name, function in found.items()}

    def weights(self):
        return {name: numpy.array(variable.value) for name, variable in self.variables.items()}

    def gradients(self, arrays):
        found = {}
        for update in self.updates:
            taken = self.typed(self.specification.update_arrays(arrays, update.name, 0))
            with C.default_options(dtype=self.dtype):
                found[update.name] = update.differentiate(taken)
        return found

    def tracing(self, path):
        return trace.tracing(path)

    def make_graphs(self, inputs):
        """The networks for the arrays of inputs(), without a step."""
        with C.default_options(dtype=self.dtype):
            for (update, _), arrays in zip(self.turns, inputs):
                update.graph(arrays)

    def copy(self):
        """Another training of the same network, with these weights and an optimizer's state of its own."""
        return CntkTraining(*self.made_of, self.weights(), self.dtype, self.exchange)

    def record_memory(self, arrays):
        return memory.record(self, arrays)
