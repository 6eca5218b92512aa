"""Deep Speech 2's recurrent layers step by step and by PyTorch's fused operators, which GPUs take, both on the CPU.

python tests/frameworks/pytorch_fused_facts.py writes {cell: [largest difference of the outputs, of the gradients]}.
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from tbd.models.deep_speech2 import pytorch


def differences(cell):
    torch.manual_seed(0)
    cell = cell(5, 7, bidirectional=True).double()
    weights = [weight for ending in pytorch.ENDINGS.values() for weight in pytorch.weights_of(cell, ending)]
    for name in ("bias_hh_l0", "bias_hh_l0_reverse"):
        nn.init.zeros_(getattr(cell, name))
    x = torch.randn(4, 9, 5, dtype=torch.float64)
    packed = pack_padded_sequence(x, torch.tensor([9, 9, 4, 1]), batch_first=True)
    forward, backward = cell(packed)[0].data.chunk(2, 1)
    outputs = [pytorch.bidirectional(cell, packed), forward + backward]
    tilt = torch.randn_like(outputs[0])
    gradients = [torch.autograd.grad((output * tilt).sum(), weights) for output in outputs]
    difference = max(float((a - b).detach().abs().max()) for a, b in zip(*gradients, strict=True))
    return [float((outputs[0] - outputs[1]).detach().abs().max()), difference]


if __name__ == "__main__":
    print(json.dumps({name: differences(cell) for name, cell in pytorch.CELLS.items()}))
