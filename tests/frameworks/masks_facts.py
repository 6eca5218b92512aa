"""What dropout makes of ones: python masks_facts.py FRAMEWORK PRECISION SEED FILE.npz.

{"first" or "second": the array after each step}. Run in the framework's own environment by test_dropout.py.
"""

import os
import sys
import unittest.mock

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tbd import frameworks, models
from tests.frameworks import masks


def main():
    name, precision, seed, path = sys.argv[1:]
    request = {
        "batch_size": 1,
        "precision": precision,
        "seed": int(seed),
        "rank": 0,
        "world_size": 1,
        "pass": "timing",
        "framework": {"name": name},
        "hardware": {"device": "cpu", "threads": 1},
    }
    framework = frameworks.create(request)
    specification = masks.Masks("small")
    module = masks.module(name)
    with unittest.mock.patch.object(models, "network", lambda model, framework: module):
        training = framework.build(specification, specification.initial_weights(1))
    found = {"first": [], "second": []}
    for _ in range(2):
        training.step(specification.synthetic_batch(1, None))
        weights = training.weights()
        for name, arrays in found.items():
            arrays.append(weights[name])
    numpy.savez(path, **found)


if __name__ == "__main__":
    main()
