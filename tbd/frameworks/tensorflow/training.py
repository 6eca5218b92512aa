"""One network in training on one device."""

import collections

import tensorflow as tf

from tbd.frameworks.base import Training
from tbd.frameworks.tensorflow import layouts, memory, trace
from tbd.frameworks.tensorflow import optimizer as optimizers

RUN_AHEAD = 4  # steps enqueued on a GPU before the loop waits: enough to keep it busy, few enough to bound the memory


class TensorFlowTraining(Training):
    def __init__(self, network, specification, optimizer, weights, device, dtype):
        self.device, self.dtype = device, dtype
        self.parameters = specification.parameters
        self.trainable = [p for p in self.parameters if p.trainable]
        with tf.device(device):
            self.variables = {
                p.name: tf.Variable(layouts.native(weights[p.name], p.kind), trainable=p.trainable, dtype=dtype)
                for p in self.parameters
            }
            trained = [self.variables[p.name] for p in self.trainable]
            self.optimizer = optimizers.create(optimizer, self.trainable, trained)
            self.network = network(specification, self.variables)
        self.gradient_names = {}  # {operation that makes a gradient: the parameter's name}, filled by tracing the step
        signature = [self.network.signature(dtype)]
        self.train = tf.function(self.one_step, input_signature=signature, autograph=False)
        self.differentiate = tf.function(self.loss_and_gradients, input_signature=signature, autograph=False)
        self.unread = []  # losses, on the device
        self.in_flight = collections.deque()

    def loss_and_gradients(self, batch):
        """The loss and its gradients by the trainable variables, dense. Operations lie in `forward` and `backward`."""
        with tf.device(self.device):
            with tf.GradientTape() as tape, tf.name_scope("forward"):
                loss = self.network(batch)
            with tf.name_scope("backward"):
                variables = [self.variables[p.name] for p in self.trainable]
                gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]
        self.gradient_names = {g.op.name: p.name for p, g in zip(self.trainable, gradients, strict=True)}
        return loss, gradients

    def one_step(self, batch):
        loss, gradients = self.loss_and_gradients(batch)
        # all gradients before any update: else the first update would copy weights that are still being read
        with tf.device(self.device), tf.name_scope("optimizer"), tf.control_dependencies([tf.group(*gradients)]):
            self.optimizer.apply(gradients)
        return loss

    def inputs(self, arrays):
        """The batch as tensors on the device, real numbers in the run's precision."""
        with tf.device(self.device):
            return {
                name: tf.constant(array, self.dtype if array.dtype.kind == "f" else None)
                for name, array in arrays.items()
            }

    def step(self, arrays):
        loss = self.train(self.inputs(arrays))
        self.unread.append(loss)
        if self.device.startswith("GPU"):
            self.in_flight.append(loss)
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

    def weights(self):
        return {p.name: layouts.canonical(self.variables[p.name].numpy(), p.kind) for p in self.parameters}

    def gradients(self, arrays):
        loss, gradients = self.differentiate(self.inputs(arrays))
        named = zip(self.trainable, gradients, strict=True)
        return float(loss), {p.name: layouts.canonical(gradient.numpy(), p.kind) for p, gradient in named}

    def tracing(self, path):
        return trace.tracing(path)

    def persistent(self):
        """The buffers (docs/memory.md) that stay between steps."""
        found = []
        for p in self.parameters:
            kind = "weights" if p.trainable else "other"
            found.append(memory.buffer(nbytes(self.variables[p.name]), 0, None, kind, p.name))
        for variables in self.optimizer.state.values():
            for p, variable in zip(self.trainable, variables, strict=True):
                found.append(memory.buffer(nbytes(variable), 0, None, "optimizer_state", p.name))
        return found

    def record_memory(self, arrays):
        return memory.record(self, arrays)


def nbytes(variable):
    return variable.shape.num_elements() * variable.dtype.size
