"""Which layer an operation is of: one rule for every framework's memory and traces. Python 3.6 syntax.

A layer is a canonical parameter's name without its last part: layer1.0.conv1 of layer1.0.conv1.weight. An operation
that reads parameters and something else is of their layer, and where they are of several, of what the layers' names
have in common. One that reads parameters alone (a cast, a transposition) hands them on. Any other is of the layer of
its first source that has one: a ReLU is of the convolution before it.
"""

import os


def layer_of(parameter):
    """The layer of a parameter by its canonical name; one without a dot is its own layer."""
    return parameter.rpartition(".")[0] or parameter


def common(layers):
    """What the layers' names have in common, in whole parts: "encoder" of encoder.0 and encoder.1; "" for nothing."""
    return ".".join(os.path.commonprefix([layer.split(".") for layer in layers]))  # of any lists, not of paths alone


class Layers:
    """Layers of things by name, told in an order in which each comes after its sources.

    `parameters` is {thing: names of the parameters that it is, or is a copy of}; `layers` {thing: layer}.
    """

    def __init__(self, parameters):
        self.parameters = {thing: (name,) for thing, name in parameters.items()}
        self.layers = {thing: layer_of(name) for thing, name in parameters.items()}

    def add(self, thing, sources):
        """Note a thing that is made of the sources, constants left out; gives its layer, "" for none."""
        read = [name for source in sources for name in self.parameters.get(source, ())]
        if read:
            layer = common([layer_of(name) for name in read])
            if all(source in self.parameters for source in sources):
                self.parameters[thing] = tuple(sorted(set(read)))
        else:
            layer = next((self.layers[source] for source in sources if self.layers.get(source)), "")
        if layer:
            self.layers[thing] = layer
        return layer

    def forget(self, thing):
        self.parameters.pop(thing, None)
        self.layers.pop(thing, None)
