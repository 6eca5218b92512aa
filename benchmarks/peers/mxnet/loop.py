"""The training loop of MXNet's peers: a hybridized Gluon block and a Trainer, static in memory and shape."""

import mxnet
from mxnet import autograd, gluon


def build(network, loss, optimizer, settings, device, precision):
    """(step, sync). loss(network, inputs) is of a batch of NDArrays, a number a row; `settings` are the optimizer's."""
    if (device, precision) != ("cpu", "fp32"):
        raise ValueError(f"device={device} precision={precision}: peers train in fp32 on a CPU")
    network.initialize(mxnet.init.MSRAPrelu())
    network.hybridize(static_alloc=True, static_shape=True)
    trainer = gluon.Trainer(network.collect_params(), optimizer, settings, kvstore=None)

    def step(arrays):
        inputs = {name: mxnet.nd.array(array, dtype=array.dtype) for name, array in arrays.items()}
        with autograd.record():
            value = loss(network, inputs)
        value.backward()
        trainer.step(len(value))

    return step, mxnet.nd.waitall
