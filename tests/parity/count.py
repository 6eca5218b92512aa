"""Operations of a model's full size by PyTorch's own counter: python count.py MODEL writes {"forward": n, "step": n}.

The counter knows products of matrices and convolutions; a matrix times a vector is added to it. It has no figure for
oneDNN's fused LSTM, so that is switched off. Every sentence is as long as the batch, so that nothing is skipped.
"""

import json
import os
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import torch
from torch.utils.flop_counter import FlopCounterMode

from tbd import models
from tbd.frameworks.pytorch.training import PyTorchTraining


def product(matrix, vector, *args, out_shape=None, **kwargs):
    return 2 * matrix[0] * matrix[1]


def count(network):
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.mv: product})
    with torch.backends.mkldnn.flags(enabled=False), counter:
        result = network()
    return result, counter.get_total_flops()


def main():
    specification = models.create(sys.argv[1], {"size": "full"})
    arrays = specification.synthetic_batch(2, numpy.random.RandomState(0))
    for name, other in (("source_length", "source"), ("target_length", "target_input")):
        if name in arrays:
            arrays[name][:] = arrays[other].shape[1]
    network = models.network(specification.name, "pytorch").Network
    weights = specification.initial_weights(1)
    device = torch.device("cpu")
    training = PyTorchTraining(network, specification, specification.optimizer(2), weights, device, torch.float32)
    inputs = training.inputs(arrays)
    loss, forward = count(lambda: training.network(inputs))
    _, backward = count(loss.backward)
    specified = {"macs": specification.macs(arrays), "flops": specification.flops(arrays)}
    print(json.dumps(dict(specified, forward=forward, step=forward + backward)))


if __name__ == "__main__":
    main()
