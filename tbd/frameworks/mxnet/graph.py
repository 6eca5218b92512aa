"""A network's symbol bound to arrays, for inputs of one set of shapes."""

import mxnet


class Graph:
    """The loss, its gradients and the moved statistics of an update (TrainedUpdate); or of None the network's outputs.

    `arrays` is {name: array} of every parameter, `inputs` an example of what it takes, `beside` a Graph whose memory it
    may use, the two never running at once.
    """

    def __init__(self, network, arrays, inputs, update, device, beside):
        self.inputs = {name: mxnet.nd.array(a, device, dtype=a.dtype) for name, a in inputs.items()}
        given = {name: variable("parameter." + name, array) for name, array in arrays.items()}
        taken = {name: variable("input." + name, array) for name, array in self.inputs.items()}
        if update is None:
            self.trained, moved = {}, network.outputs(given, taken)
            loss = []
        else:
            self.trained = update.gradients
            loss, moved = network(given, taken, update.name)
            loss = [mxnet.sym.make_loss(loss)]
        self.moved = {name: arrays.get(name) for name in moved}
        self.symbol = mxnet.sym.Group(loss + [mxnet.sym.BlockGrad(symbol) for symbol in moved.values()])
        known = {"parameter." + name: array for name, array in arrays.items()}
        known.update(("input." + name, array) for name, array in self.inputs.items())
        names = self.symbol.list_arguments()
        gradients = {"parameter." + name: array for name, array in self.trained.items()}
        dtype = next(iter(arrays.values())).dtype
        # what operators move by themselves, as BatchNorm does, beside the network's own statistics: not looked at
        self.scratch = [mxnet.nd.zeros(shape, device, dtype) for shape in self.symbol.infer_shape()[2]]
        self.executor = self.symbol.bind(
            device,
            {name: known[name] for name in names},
            gradients,
            {name: "write" if name in gradients else "null" for name in names},
            self.scratch,
            shared_exec=beside and beside.executor,
        )

    def differentiate(self, arrays):
        """The loss of the inputs; its gradients are written."""
        self.forward(arrays, True)
        loss = self.executor.outputs[0].copy()  # before another graph uses the memory
        self.executor.backward()
        return loss

    def run(self, arrays):
        """{name: array} of the network's outputs."""
        self.forward(arrays, False)
        return dict(zip(self.moved, self.executor.outputs, strict=True))

    def forward(self, arrays, training):
        for name, array in self.inputs.items():
            array[:] = arrays[name]
        self.executor.forward(is_train=training)

    def move_statistics(self):
        for array, new in zip(self.moved.values(), self.executor.outputs[1:], strict=True):
            new.copyto(array)


def variable(name, array):
    return mxnet.sym.Variable(name, shape=array.shape, dtype=array.dtype)
