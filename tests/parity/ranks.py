"""One rank of several in training, or one process alone: run inside the framework's environment.

    python tests/parity/ranks.py REQUEST.json FILE.npz [ROWS]

10 steps from the canonical weights on the parity tests' batch of all ranks together, of which the rank takes its rows;
with ROWS every rank takes the same ones, a batch of so many. FILE has `losses` and trained/NAME.
"""

import json
import os
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tbd import frameworks
from tbd.worker.peers import Peers
from tests.models import known
from tests.parity.observe import STEPS, batch, named, specification_of


def main(request_path, path, same="0"):
    with open(request_path) as file:
        request = json.load(file)
    rank, ranks = request["rank"], request["world_size"]
    request["peers"] = Peers.connect(request, "parity")
    framework = frameworks.create(request)
    specification = specification_of(request)
    training = framework.build(specification, known.weights(specification, request["seed"]))
    arrays = batch(specification, int(same) or request["batch_size"] * ranks)
    if not int(same):
        arrays = {name: numpy.ascontiguousarray(array[rank::ranks]) for name, array in arrays.items()}
    for _ in range(STEPS):
        training.step(arrays)
    training.wait()
    numpy.savez(path, losses=numpy.array(training.losses(), numpy.float64), **named("trained/", training.weights()))
    request["peers"].agree(True)  # nobody leaves before all have written


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # as a pass ends
