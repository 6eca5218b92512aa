"""The best public way to train each model in each framework, to hold ours against.

A peer is benchmarks/peers/<framework>/<model>.py with

    SOURCE                                                       what it is: a package and its function, or "by hand"
    build(options, batch_size, device, precision, compile)       (step, sync)

`options` are the specification's (tbd/models/<model>/specification.py), `device` is "cpu" or "gpu", `precision` and
`compile` are as in `precision=` and `compile=`. step(arrays) trains on a batch of numpy arrays as the specification
makes them and need not wait; sync() returns when all is done. A peer imports nothing of tbd: it is written as its
framework's users write, with the framework's own layers and optimizers, where no package has the whole network. What it
computes less or otherwise than ours stands in its docstring.

loop.py of each framework is the training loop that its peers share. requirements-<framework>.txt is what they need
beside the framework's own environment.
"""
