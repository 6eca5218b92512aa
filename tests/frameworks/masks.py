"""A model whose network keeps what dropout makes of ones, and that network in each framework.

    L = weight * (mean of first + mean of second), first = dropout(x), second = dropout(x)

`first` and `second` are statistics, replaced by each step. The frameworks are imported where they are used.
"""

import types

import numpy

from tbd.models.specification import Specification, parameter, sgd

SIZE, RATE = 20000, 0.1


class Masks(Specification):
    name = "masks"
    unit = "rows"
    SIZES = {"small": {}}

    @property
    def parameters(self):
        statistics = [parameter(n, (SIZE,), "vector", ("constant", 0.0), role="statistic") for n in ("first", "second")]
        return [parameter("weight", (1,), "vector", ("constant", 1.0)), *statistics]

    def optimizer(self, batch_size):
        return sgd(0.0)

    def synthetic_batch(self, batch_size, random):
        return {"x": numpy.ones((1, SIZE), numpy.float32)}


def pytorch():
    import torch
    from torch.nn import functional

    class Network(torch.nn.Module):
        host_inputs = ()

        def __init__(self, specification):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(1))
            self.register_buffer("first", torch.empty(SIZE))
            self.register_buffer("second", torch.empty(SIZE))

        def canonical(self):
            return {**dict(self.named_parameters()), **dict(self.named_buffers())}

        def forward(self, inputs, update):
            for kept in (self.first, self.second):
                kept.copy_(functional.dropout(inputs["x"][0], RATE))
            return self.weight[0] * (self.first.mean() + self.second.mean())

    return Network


def tensorflow():
    import tensorflow as tf

    from tbd.frameworks.tensorflow.layers import dropout

    class Network:
        generator = None

        def __init__(self, specification, variables):
            self.variables = variables

        def signature(self, dtype, update):
            return {"x": tf.TensorSpec([None, SIZE], dtype)}

        def __call__(self, inputs, update):
            means = []
            for name in ("first", "second"):
                y = tf.cast(dropout(inputs["x"][0], RATE, self.generator), tf.float32)
                self.variables[name].assign(y)
                means.append(tf.reduce_mean(y))
            return self.variables["weight"][0] * (means[0] + means[1])

    return Network


def jax():
    import jax
    import jax.numpy as jnp

    from tbd.frameworks.jax.layers import dropout

    class Network:
        draws = True

        def __init__(self, specification):
            pass

        def __call__(self, weights, inputs, update):
            keys = jax.random.split(inputs["key"])
            first, second = (dropout(inputs["x"][0], RATE, key).astype(jnp.float32) for key in keys)
            return weights["weight"][0] * (first.mean() + second.mean()), {"first": first, "second": second}

    return Network


def mxnet():
    from mxnet import sym

    from tbd.frameworks.mxnet.layers import dropout

    class Network:
        def __init__(self, specification):
            pass

        def __call__(self, weights, inputs, update):
            first, second = (sym.reshape(dropout(inputs["x"], RATE), (-1,)) for _ in range(2))
            return weights["weight"] * (sym.mean(first) + sym.mean(second)), {"first": first, "second": second}

    return Network


NETWORKS = {"pytorch": pytorch, "tensorflow": tensorflow, "jax": jax, "mxnet": mxnet}


def module(framework):
    """What tbd.models.network gives."""
    return types.SimpleNamespace(NETWORK=NETWORKS[framework]())
