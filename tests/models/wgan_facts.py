"""Losses of wgan in PyTorch in float64 at moved weights, as JSON on stdout: run by test_wgan.py in its environment."""

import json
import os
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tbd import frameworks, models

STEP = 1e-8  # of the differences: larger ones pass by inputs of ReLUs that are nearly 0, where the slope jumps


def main():
    request = {
        "batch_size": 4,
        "precision": "fp64",
        "rank": 0,
        "world_size": 1,
        "seed": 1,
        "pass": "timing",
        "framework": {"name": "pytorch"},
        "hardware": {"device": "cpu", "threads": 1},
    }
    framework = frameworks.create(request)
    print(json.dumps({way: facts(framework, way) for way in ("gradient_penalty", "weight_clipping")}))


def facts(framework, lipschitz):
    specification = models.create("wgan", {"size": "small", "lipschitz": lipschitz})
    random = numpy.random.RandomState(1)
    arrays = specification.synthetic_batch(4, random)
    weights = {name: array.astype(float) for name, array in specification.initial_weights(1).items()}

    def losses(weights):
        return {name: loss for name, (loss, _) in framework.build(specification, weights).gradients(arrays).items()}

    def moved(names, step):
        return dict(weights, **{n: weights[n] + step * directions[n] for n in names})

    directions = {name: random.standard_normal(array.shape) for name, array in weights.items()}
    here = framework.build(specification, weights).gradients(arrays)
    found = {"derivatives": {}, "losses": {name: loss for name, (loss, _) in here.items()}}
    for update in specification.updates(4):
        ahead, behind = (losses(moved(update.parameters, sign * STEP))[update.name] for sign in (1, -1))
        found["derivatives"][update.name] = (
            sum(float((here[update.name][1][n] * directions[n]).sum()) for n in update.parameters),
            (ahead - behind) / (2 * STEP),
        )
    found["without_effect"] = losses(moved(specification.without_effect, 0.5))
    biases = [p.name for p in specification.parameters if p.name.endswith(".bias") and p.role == "weight"]
    found["with_effect"] = {name: losses(moved([name], 0.5)) for name in biases}
    return found


if __name__ == "__main__":
    main()
