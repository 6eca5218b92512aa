"""One update of a step: the weights that it trains, their gradients and its optimizer."""

import mxnet

from tbd.frameworks.mxnet import optimizer as optimizers


class TrainedUpdate:
    """An Update of the specification. `gradients` is {name: array}, which every graph of the update writes to."""

    def __init__(self, update, parameters, arrays):
        self.name, self.repeat = update.name, update.repeat
        self.gradients = {name: mxnet.nd.zeros_like(arrays[name]) for name in update.parameters}
        trained = [p for p in parameters if p.name in self.gradients]
        self.rule = optimizers.create(update.optimizer, trained, arrays, self.gradients)
