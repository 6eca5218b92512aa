"""One update of a step, compiled."""

import tensorflow as tf

from tbd.frameworks import attribution
from tbd.frameworks.tensorflow import optimizer as optimizers
from tbd.frameworks.tensorflow import ranks
from tbd.frameworks.tensorflow.memory import CAST
from tbd.frameworks.tensorflow.scaling import LossScale

IN_PRODUCTS = ("conv", "dense", "embedding")  # kinds of parameters that mixed precision gives in the products' type


class TrainedUpdate:
    """An Update of the specification with its variables, those that it trains, and its optimizer.

    train(inputs) moves the variables and gives the loss; differentiate(inputs) gives the loss and the gradients, in the
    order of `parameters`. Operations lie in the scopes forward/NAME, backward/NAME and optimizer/NAME.

    `given` is the dictionary that the network takes its weights from; where `products`, the type of products, is not
    that of the variables, it holds casts while the network is traced. `xla`: compiled by XLA, anew for each shape.
    `strategy`: tf.distribute's, of several ranks.
    """

    def __init__(self, update, network, parameters, variables, given, device, products, xla, strategy=None):
        self.name, self.repeat = update.name, update.repeat
        self.network, self.given, self.device, self.all_variables = network, given, device, variables
        by_name = {p.name: p for p in parameters}
        self.parameters = [by_name[name] for name in update.parameters]
        self.variables = [variables[name] for name in update.parameters]
        mixed = [p.name for p in parameters if p.role != "statistic" and p.kind in IN_PRODUCTS]
        self.cast = {n: variables[n] for n in mixed if variables[n].dtype != products}
        self.products = products
        self.optimizer = optimizers.create(update.optimizer, self.parameters, self.variables)
        self.loss_scale = LossScale() if products == tf.float16 else None
        self.gradient_names = {}  # {operation that makes a gradient: the parameter's name}, filled by tracing train
        signature = [network.signature(products, update.name)]
        compiled = {"input_signature": signature, "autograph": False, "jit_compile": True if xla else None}
        self.strategy = strategy
        if strategy:
            dtype = self.variables[0].dtype
            everywhere = {**signature[0], ranks.WEIGHT: tf.TensorSpec([], dtype)}
            together = {"input_signature": [everywhere], "autograph": False}
            self.train = tf.function(lambda inputs: strategy.run(self.applied, args=(inputs,)), **together)
        else:
            self.train = tf.function(self.applied, **compiled)
        self.differentiate = tf.function(self.loss_and_gradients, **compiled)

    def give(self):
        """The casts, within the graph that is being traced, into what the network takes its weights from."""
        with tf.name_scope(CAST):
            self.given.update({n: tf.cast(variable, self.products) for n, variable in self.cast.items()})

    def loss_and_gradients(self, inputs):
        """(the loss, the gradients; with loss scaling, of the scaled loss). Of several ranks all of theirs."""
        inputs = dict(inputs)
        weight = inputs.pop(ranks.WEIGHT, None)
        with tf.device(self.device):
            share = None if weight is None else ranks.share(weight)
            with tf.GradientTape(watch_accessed_variables=False) as tape, tf.name_scope(f"forward/{self.name}"):
                tape.watch(self.variables)
                self.give()
                loss = self.network(inputs, self.name)
                if share is not None:
                    loss = loss * tf.cast(share, loss.dtype)
                target = loss * self.loss_scale.scale if self.loss_scale else loss
            with tf.name_scope(f"backward/{self.name}"):
                gradients = [tf.convert_to_tensor(g) for g in tape.gradient(target, self.variables)]
        self.gradient_names = {g.op.name: p.name for p, g in zip(self.parameters, gradients, strict=True)}
        if share is not None:
            with tf.device(self.device):
                gradients = ranks.summed(gradients)
                loss = loss * self.strategy.num_replicas_in_sync
        return loss, gradients

    def applied(self, inputs):
        loss, gradients = self.loss_and_gradients(inputs)
        # all gradients before any update: else the first update would copy weights that are still being read
        scope = tf.name_scope(f"optimizer/{self.name}")
        with tf.device(self.device), scope, tf.control_dependencies([tf.group(*gradients)]):
            if self.loss_scale:
                finite, gradients = self.loss_scale.unscaled(gradients)
                self.optimizer.apply(gradients, finite)
                self.loss_scale.move(finite)
            else:
                self.optimizer.apply(gradients)
        return loss

    def layers(self):
        """{operation in train(): its layer}. A loop, whose operations are a graph of their own, is one operation."""
        graph = self.train.get_concrete_function().graph
        names = {id(variable.handle): name for name, variable in self.all_variables.items()}
        captured = {inside.name: names[id(outside)] for outside, inside in graph.captures if id(outside) in names}
        found = attribution.Layers(captured)
        for operation in graph.get_operations():
            sources = [t.name for t in operation.inputs if t.op.type != "Const"]
            for result in operation.outputs:
                if result.name not in captured:
                    found.add(result.name, sources)
        layers = {name.rpartition(":")[0]: layer for name, layer in found.layers.items()}
        return {**layers, **{operation: attribution.layer_of(p) for operation, p in self.gradient_names.items()}}

    def exact_gradients(self, inputs):
        """(the loss, the gradients): with loss scaling at the present scale, or the next below that has finite ones."""
        if not self.loss_scale:
            return self.differentiate(inputs)
        present = self.loss_scale.scale.numpy()
        while True:
            loss, gradients = self.differentiate(inputs)
            finite, gradients = self.loss_scale.unscaled(gradients)
            if finite or self.loss_scale.scale <= 1:
                break
            self.loss_scale.scale.assign(self.loss_scale.scale / 2)
        self.loss_scale.scale.assign(present)
        return loss, gradients
