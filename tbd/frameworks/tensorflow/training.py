"""One network in training on one device.

What tbd/models/<model>/tensorflow.py defines as NETWORK:

    NETWORK(specification, variables)   `variables` is {canonical name: tf.Variable} of every Parameter, in TensorFlow's
                                        own layouts (tbd/frameworks/layouts.py): convolutions HWIO, dense ones (in, out)
    outputs(inputs), output_signature   {name: tensor} of what data are made from, where they are (Training.outputs),
                                        and the TensorSpecs of `inputs`
    signature(dtype, update)            {array's name: tf.TensorSpec} of what the update of that name takes; a size that
                                        changes from batch to batch is None, so that one graph serves them all
    network(inputs, update)             the loss, a scalar, that the update of that name goes down. `inputs` are the
                                        update's arrays as tensors, reals in the run's precision. It is traced into a
                                        graph, and makes no variables
"""

import collections

import tensorflow as tf

from tbd.frameworks import layouts
from tbd.frameworks.base import RUN_AHEAD, Training
from tbd.frameworks.tensorflow import memory, trace
from tbd.frameworks.tensorflow.update import TrainedUpdate


class TensorFlowTraining(Training):
    def __init__(self, network, specification, updates, weights, device, dtype):
        self.specification, self.device, self.dtype = specification, device, dtype
        self.parameters = specification.parameters
        with tf.device(device):
            self.variables = {
                p.name: tf.Variable(layouts.native(weights[p.name], p.kind), trainable=False, dtype=dtype)
                for p in self.parameters
            }
            network = network(specification, self.variables)
            self.updates = [
                TrainedUpdate(update, network, self.parameters, self.variables, device, dtype) for update in updates
            ]
        if hasattr(network, "outputs"):
            signature = [network.output_signature]
            self.produced = tf.function(network.outputs, input_signature=signature, autograph=False)
        self.turns = [(update, n) for update in self.updates for n in range(update.repeat)]
        self.steps = 0
        self.unread = []  # losses, on the device
        self.in_flight = collections.deque()

    def inputs(self, arrays):
        """The batch as tensors on the device, a dict for each turn of the step; real numbers in the run's precision."""
        return [self.tensors_of(self.specification.update_arrays(arrays, u.name, n)) for u, n in self.turns]

    def tensors_of(self, arrays):
        with tf.device(self.device):
            return {
                name: tf.constant(array, self.dtype if array.dtype.kind == "f" else None)
                for name, array in arrays.items()
            }

    def train(self, inputs):
        """One step over the tensors of inputs()."""
        for update in self.updates:
            update.optimizer.begin(self.steps)
        for (update, _), tensors in zip(self.turns, inputs, strict=True):
            loss = update.train(tensors)
        self.steps += 1
        self.unread.append(loss)

    def step(self, arrays):
        self.train(self.inputs(arrays))
        if self.device.startswith("GPU"):
            self.in_flight.append(self.unread[-1])
            if len(self.in_flight) > RUN_AHEAD:
                self.in_flight.popleft().numpy()

    def wait(self):
        # on a CPU a function returns when its last operation is done, so this has nothing to wait for
        tf.test.experimental.sync_devices()
        self.in_flight.clear()

    def losses(self):
        values = [float(loss) for loss in self.unread]
        self.unread.clear()
        return values

    def outputs(self, arrays):
        with tf.device(self.device):
            found = self.produced(self.tensors_of(arrays))
        return {name: tf.cast(tensor, tf.float32).numpy() for name, tensor in found.items()}

    def weights(self):
        return {p.name: layouts.canonical(self.variables[p.name].numpy(), p.kind) for p in self.parameters}

    def gradients(self, arrays):
        found = {}
        for update in self.updates:
            inputs = self.tensors_of(self.specification.update_arrays(arrays, update.name, 0))
            loss, gradients = update.differentiate(inputs)
            named = zip(update.parameters, gradients, strict=True)
            found[update.name] = (float(loss), {p.name: layouts.canonical(g.numpy(), p.kind) for p, g in named})
        return found

    def tracing(self, path):
        return trace.tracing(path)

    def gradient_names(self):
        """{operation that makes a gradient in train(): the parameter's name}."""
        return {operation: name for update in self.updates for operation, name in update.gradient_names.items()}

    def persistent(self):
        """The buffers (docs/memory.md) that stay between steps."""
        found = []
        for p in self.parameters:
            kind = "other" if p.role == "statistic" else "weights"
            found.append(memory.buffer(nbytes(self.variables[p.name]), 0, None, kind, p.name))
        for update in self.updates:
            for variables in update.optimizer.state.values():
                for p, variable in zip(update.parameters, variables, strict=True):
                    found.append(memory.buffer(nbytes(variable), 0, None, "optimizer_state", p.name))
        return found

    def record_memory(self, arrays):
        return memory.record(self, arrays)


def nbytes(variable):
    return variable.shape.num_elements() * variable.dtype.size
