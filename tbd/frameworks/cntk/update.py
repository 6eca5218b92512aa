"""One of a step's updates: its network for each set of shapes, its gradients, the learner that moves its weights."""

import cntk as C

from tbd.frameworks.cntk import optimizer, quiet


def variables_for(arrays):
    """{name: input variable} for arrays whose first axis is the batch."""
    return {
        name: C.input_variable(array.shape[1:], dtype=array.dtype.type, name=name) for name, array in arrays.items()
    }


class Graph:
    """The network of one update for arrays of certain shapes."""

    def __init__(self, network, update, arrays, learner):
        self.inputs = variables_for(arrays)
        rows = len(next(iter(arrays.values())))
        self.loss, moved = network(self.inputs, update, rows)
        self.wanted = [self.loss.output] + [function.output for function in moved]
        model = C.combine([self.loss] + moved)
        criterion = C.to_batch(C.reshape(self.loss, (1,)))  # one row: to CNTK's learners a step is one sample
        with quiet.held_stderr():  # it notes that other updates' weights are not in the learner
            self.trainer = C.Trainer(model, (criterion, None), [learner])

    def fed(self, arrays):
        return {self.inputs[name]: array for name, array in arrays.items()}


class TrainedUpdate:
    def __init__(self, update, network, parameters, variables):
        self.name, self.repeat, self.network = update.name, update.repeat, network
        self.parameters = [p for p in parameters if p.name in update.parameters]
        self.trained = [variables[p.name] for p in self.parameters]
        self.rule = optimizer.create(update.optimizer, self.parameters)
        self.learner = self.rule.learner(self.trained)
        self.graphs = {}  # {shapes: Graph}

    def graph(self, arrays):
        key = tuple(array.shape for array in arrays.values())
        if key not in self.graphs:
            self.graphs[key] = Graph(self.network, self.name, arrays, self.learner)
        return self.graphs[key]

    def train(self, arrays, step):
        """The loss of the arrays, down which the weights have gone at the learning rate of that step."""
        graph = self.graph(arrays)
        self.rule.begin(step)
        _, values = graph.trainer.train_minibatch(graph.fed(arrays), outputs=graph.wanted)
        return float(values[graph.wanted[0]])

    def differentiate(self, arrays):
        """(loss, {parameter's name: gradient})."""
        graph = self.graph(arrays)
        gradients, loss = graph.loss.grad(graph.fed(arrays), wrt=self.trained, outputs=[graph.loss.output])
        if len(self.trained) == 1:
            gradients = {self.trained[0]: gradients}
        return float(loss), {p.name: gradients[v] for p, v in zip(self.parameters, self.trained)}
