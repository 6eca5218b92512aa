"""One update of a step, compiled."""

import tensorflow as tf

from tbd.frameworks.tensorflow import optimizer as optimizers


class TrainedUpdate:
    """An Update of the specification with its variables, those that it trains, and its optimizer.

    train(inputs) moves the variables and gives the loss; differentiate(inputs) gives the loss and the gradients, in the
    order of `parameters`. Operations lie in the scopes forward/NAME, backward/NAME and optimizer/NAME.
    """

    def __init__(self, update, network, parameters, variables, device, dtype):
        self.name, self.repeat = update.name, update.repeat
        self.network, self.device = network, device
        by_name = {p.name: p for p in parameters}
        self.parameters = [by_name[name] for name in update.parameters]
        self.variables = [variables[name] for name in update.parameters]
        self.optimizer = optimizers.create(update.optimizer, self.parameters, self.variables)
        self.gradient_names = {}  # {operation that makes a gradient: the parameter's name}, filled by tracing train
        signature = [network.signature(dtype, update.name)]
        self.train = tf.function(self.applied, input_signature=signature, autograph=False)
        self.differentiate = tf.function(self.loss_and_gradients, input_signature=signature, autograph=False)

    def loss_and_gradients(self, inputs):
        with tf.device(self.device):
            with tf.GradientTape(watch_accessed_variables=False) as tape, tf.name_scope(f"forward/{self.name}"):
                tape.watch(self.variables)
                loss = self.network(inputs, self.name)
            with tf.name_scope(f"backward/{self.name}"):
                gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, self.variables)]
        self.gradient_names = {g.op.name: p.name for p, g in zip(self.parameters, gradients, strict=True)}
        return loss, gradients

    def applied(self, inputs):
        loss, gradients = self.loss_and_gradients(inputs)
        # all gradients before any update: else the first update would copy weights that are still being read
        scope = tf.name_scope(f"optimizer/{self.name}")
        with tf.device(self.device), scope, tf.control_dependencies([tf.group(*gradients)]):
            self.optimizer.apply(gradients)
        return loss
