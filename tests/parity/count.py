"""Operations of a model's full size by PyTorch's own counter: python count.py MODEL writes {"forward": n, "step": n}.

The counter knows products of matrices and convolutions; a matrix times a vector is added to it. It has no figure for
oneDNN's fused LSTM and the CPU's fused attention, so those are switched off. The batch has no padding, so that nothing
is skipped.
"""

import functools
import json
import os
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tbd import models
from tbd.frameworks.pytorch.training import PyTorchTraining
from tests.models import known


def product(matrix, vector, *args, out_shape=None, **kwargs):
    return 2 * matrix[0] * matrix[1]


def count(network):
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mv: product})
    with torch.backends.mkldnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH), counter:
        result = network()
    return result, counter.get_total_flops()


def main():
    specification = models.create(sys.argv[1], dict(known.count_options(sys.argv[1]), size="full"))
    batch_size = known.batch_size(specification, rows=2)
    arrays = known.full(specification, specification.synthetic_batch(batch_size, numpy.random.RandomState(0)))
    network = models.network(specification.name, "pytorch").NETWORK
    weights, updates = specification.initial_weights(1), specification.updates(batch_size)
    training = PyTorchTraining(network, specification, updates, weights, torch.device("cpu"), torch.float32)
    forward = backward = 0
    for (update, repetition), inputs in zip(training.turns, training.inputs(arrays), strict=True):
        if repetition == 0:  # the others do the same
            training.activate(update)
            loss, operations = count(functools.partial(training.network, inputs, update.name))
            forward += update.repeat * operations
            backward += update.repeat * count(loss.backward)[1]
    specified = {"macs": specification.macs(arrays), "flops": specification.flops(arrays)}
    print(json.dumps(dict(specified, forward=forward, step=forward + backward)))


if __name__ == "__main__":
    main()
