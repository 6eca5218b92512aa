"""One network in training on one device.

What tbd/models/<model>/tensorflow.py defines as NETWORK:

    NETWORK(specification, variables)   `variables` is {canonical name: tf.Variable} of every Parameter, in TensorFlow's
                                        own layouts (tbd/frameworks/layouts.py): convolutions HWIO, dense (in, out). In
                                        mixed precision those of the kinds conv, dense and embedding are tensors of the
                                        products' type instead, new ones in every call
    generator                           of a network that uses layers.dropout: the adapter sets it to a
                                        tf.random.Generator, seeded by the run's seed, before any call
    outputs(inputs), output_signature   {name: tensor} of what data are made from, where they are (Training.outputs),
                                        and the TensorSpecs of `inputs`
    signature(dtype, update)            {array's name: tf.TensorSpec} of what the update of that name takes; a size that
                                        changes from batch to batch is None, so that one graph serves them all
    network(inputs, update)             the loss, a scalar, that the update of that name goes down. `inputs` are the
                                        update's arrays as tensors, reals in the products' type, but those that the
                                        specification calls `wide` in the variables' own. It is traced into a
                                        graph, and makes no variables
"""

import time

import tensorflow as tf

from tbd.frameworks import layouts
from tbd.frameworks.base import Training, Unsupported
from tbd.frameworks.tensorflow import memory, trace
from tbd.frameworks.tensorflow.ranks import WEIGHT
from tbd.frameworks.tensorflow.update import TrainedUpdate


class TensorFlowTraining(Training):
    """`products`: the type of products, that of real inputs too. `xla`: compiled by XLA. `strategy`:
    tf.distribute's, of several ranks.
    """

    def __init__(
        self, network, specification, updates, weights, device, dtype, products=None, xla=False, seed=0, strategy=None
    ):
        self.specification, self.device, self.xla = specification, device, xla
        self.dtype, self.products = dtype, products or dtype
        self.parameters, self.strategy = specification.parameters, strategy
        with tf.device(device):
            self.variables = {
                p.name: tf.Variable(layouts.native(weights[p.name], p.kind), trainable=False, dtype=dtype)
                for p in self.parameters
            }
            given = dict(self.variables)
            network = network(specification, given)
            if hasattr(network, "generator"):
                network.generator = tf.random.Generator.from_seed(seed)
            self.updates = [
                TrainedUpdate(u, network, self.parameters, self.variables, given, device, self.products, xla, strategy)
                for u in updates
            ]
        if hasattr(network, "outputs"):

            def produced(inputs):
                self.updates[0].give()
                return network.outputs(inputs)

            signature = [network.output_signature]
            self.produced = tf.function(produced, input_signature=signature, autograph=False)
        self.turns = [(update, n) for update in self.updates for n in range(update.repeat)]
        self.steps = 0
        self.unread = []  # losses, on the device
        self.in_flight = None  # the last step's loss, on a GPU until the step is seen to be done
        self.ends, self.ended = [], []  # when steps were done, since the last wait() and before it

    def inputs(self, arrays):
        """The batch as tensors on the device, a dict for each turn of the step; real numbers in the products' type."""
        found = []
        for update, repetition in self.turns:
            own = self.specification.update_arrays(arrays, update.name, repetition)
            tensors = self.tensors_of(own)
            if self.strategy:
                tensors[WEIGHT] = tf.constant(self.specification.loss_weight(own), self.dtype)
            found.append(tensors)
        return found

    def tensors_of(self, arrays):
        """Arrays as tensors on the device, where reals are made their type: numpy takes longer for that."""
        with tf.device(self.device):
            tensors = {name: tf.constant(array) for name, array in arrays.items()}
            return {n: tf.cast(t, self.type_of(n)) if t.dtype.is_floating else t for n, t in tensors.items()}

    def type_of(self, name):
        """The type of a batch's real array."""
        return self.dtype if name in self.specification.wide else self.products

    def train(self, inputs):
        """One step over the tensors of inputs()."""
        for update in self.updates:
            update.optimizer.begin(self.steps)
        for (update, _), tensors in zip(self.turns, inputs, strict=True):
            loss = update.train(tensors)
        self.steps += 1
        self.unread.append(loss)

    def step(self, arrays):
        inputs = self.inputs(arrays)
        self.finish()
        self.train(inputs)
        if self.device.startswith("GPU"):
            self.in_flight = self.unread[-1]

    def finish(self):
        """Wait for the step in flight, if there is one, and note when it was done.

        One step at most is in flight: TensorFlow's copy to the host waits for all that its stream was given by then,
        so that with more of them none could be told from the others.
        """
        if self.in_flight is not None:
            self.in_flight.numpy()
            self.ends.append(time.monotonic())
            self.in_flight = None

    def wait(self):
        self.finish()
        # on a CPU a function returns when its last operation is done, so this has nothing to wait for; where TensorFlow
        # knows of other ranks it can't do it, and has read the last step's loss
        if self.strategy is None:
            tf.test.experimental.sync_devices()
        self.ends, self.ended = [], self.ends

    def step_ends(self):
        return self.ended if self.device.startswith("GPU") else None

    def skipped(self):
        return sum(update.loss_scale.read_left_out() for update in self.updates if update.loss_scale)

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
            loss, gradients = update.exact_gradients(inputs)
            named = zip(update.parameters, gradients, strict=True)
            found[update.name] = (float(loss), {p.name: layouts.canonical(g.numpy(), p.kind) for p, g in named})
        return found

    def tracing(self, path):
        return trace.tracing(path, self)

    def gradient_names(self):
        """{operation that makes a gradient in train(): the parameter's name}."""
        return {operation: name for update in self.updates for operation, name in update.gradient_names.items()}

    def layers(self):
        """{operation in train(): its layer}, of all updates."""
        return {operation: layer for update in self.updates for operation, layer in update.layers().items()}

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
        if self.xla:
            raise Unsupported("compile=xla: TensorFlow tells nothing of memory within compiled code: use compile=graph")
        return memory.record(self, arrays)


def nbytes(variable):
    return variable.shape.num_elements() * variable.dtype.size
