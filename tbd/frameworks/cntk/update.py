"""One of a step's updates: its network for each set of shapes, its gradients, the learners that move its weights."""

import cntk as C
import numpy

from tbd.frameworks.cntk import optimizer, quiet


def variables_for(arrays):
    """{name: input variable} for arrays whose first axis is the batch."""
    return {
        name: C.input_variable(array.shape[1:], dtype=array.dtype.type, name=name) for name, array in arrays.items()
    }


class Graph:
    """The network of one update for arrays of certain shapes; `share`: what its gradients are times, or None."""

    def __init__(self, network, update, arrays, learners, share):
        self.inputs = variables_for(arrays)
        rows = len(next(iter(arrays.values())))
        self.loss, moved = network(self.inputs, update, rows)
        self.wanted = [self.loss.output] + [function.output for function in moved]
        model = C.combine([self.loss] + moved)
        told = self.loss if share is None else self.loss * share
        criterion = C.to_batch(C.reshape(told, (1,)))  # one row: to CNTK's learners a step is one sample
        with quiet.held_stderr():  # it notes that other updates' weights are not in the learners
            self.trainer = C.Trainer(model, (criterion, None), learners)

    def fed(self, arrays):
        return {self.inputs[name]: array for name, array in arrays.items()}


class TrainedUpdate:
    """`exchange`: the ranks.Exchange of several ranks."""

    def __init__(self, update, network, parameters, variables, exchange=None):
        self.name, self.repeat, self.network = update.name, update.repeat, network
        self.parameters = [p for p in parameters if p.name in update.parameters]
        self.trained = [variables[p.name] for p in self.parameters]
        self.rule = optimizer.create(update.optimizer, self.parameters)
        self.learners = self.rule.learners(self.trained)
        self.share = None
        if exchange:
            self.share = C.Constant(1, dtype=self.trained[0].dtype)
            self.count = 1 if self.rule.divides else len(exchange.workers)
            self.own = self.learners  # which those of all ranks don't keep
            self.learners = [exchange.distributed(learner) for learner in self.own]
        self.graphs = {}  # {shapes: Graph}

    def graph(self, arrays):
        key = tuple(array.shape for array in arrays.values())
        if key not in self.graphs:
            self.graphs[key] = Graph(self.network, self.name, arrays, self.learners, self.share)
        return self.graphs[key]

    def train(self, arrays, step, share=None):
        """The loss of the arrays, down which the weights have gone at the learning rate of that step.

        `share`: what the arrays' gradients count of all ranks', times the number of ranks.
        """
        graph = self.graph(arrays)
        if share is not None:
            self.share.value = numpy.asarray(share / self.count, self.share.dtype)
        self.rule.begin(step)
        _, values = graph.trainer.train_minibatch(graph.fed(arrays), outputs=graph.wanted)
        return float(values[graph.wanted[0]]) * (1 if share is None else share)

    def differentiate(self, arrays):
        """(loss, {parameter's name: gradient})."""
        graph = self.graph(arrays)
        gradients, loss = graph.loss.grad(graph.fed(arrays), wrt=self.trained, outputs=[graph.loss.output])
        if len(self.trained) == 1:
            gradients = {self.trained[0]: gradients}
        return float(loss), {p.name: gradients[v] for p, v in zip(self.parameters, self.trained)}
