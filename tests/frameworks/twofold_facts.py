"""What an adapter makes of the model of twofold.py by each rule, as JSON on stdout.

python twofold_facts.py FRAMEWORK timing|memory|scaling [COMPILE]. Run in the framework's own environment by
test_updates.py.
"""

import importlib
import json
import os
import sys
import unittest.mock

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tbd import frameworks, models
from tests.frameworks import twofold
from tests.parity import faults as parity_faults

STEPS = 5
# how many graphs an update was compiled to, in the frameworks that compile
GRAPHS = {
    "tensorflow": lambda update: update.train.experimental_get_tracing_count(),
    "jax": lambda update: update.compiled._cache_size(),
}


def main():
    name, pass_name, *compiler = sys.argv[1:]
    request = {
        "batch_size": twofold.ROWS,
        "precision": "fp16" if pass_name == "scaling" else "fp64",
        "rank": 0,
        "world_size": 1,
        "seed": 1,
        "pass": pass_name,
        "compile": compiler[0] if compiler else None,
        "framework": {"name": name},
        "hardware": {"device": "cpu", "threads": 1},
    }
    framework = frameworks.create(request)
    network = importlib.import_module("tests.frameworks.twofold_" + name)
    found = {}
    for rule in ["adam"] if compiler else twofold.RULES:
        specification = twofold.Twofold(rule=rule)
        weights = specification.initial_weights(1)
        if pass_name == "scaling":  # the steps are to differ by nothing but the one that is left out
            specification = parity_faults.with_optimizers(specification, lambda o: o._replace(learning_rate=0.1))
        with unittest.mock.patch.object(models, "network", lambda model, framework: network):
            training, other = (framework.build(specification, weights) for _ in range(2))
        random = numpy.random.RandomState(1)
        batches = [specification.synthetic_batch(twofold.ROWS, random) for _ in range(STEPS)]
        if pass_name == "scaling":
            found[rule] = left_out(training, other, batches)
        else:
            found[rule] = {"timing": trained, "memory": recorded}[pass_name](specification, training, weights, batches)
    print(json.dumps(found))


def trained(specification, training, weights, batches):
    """Losses and weights after a step on each batch, and the gradients before, beside what numpy gives."""
    found = training.gradients(batches[0])
    # gradients() may move the statistics: the steps are compared from where it left them
    moved_by_gradients = [n for n, array in training.weights().items() if n != "seen" and (array != weights[n]).any()]
    seen = training.weights()["seen"]
    for arrays in batches:
        training.step(arrays)
    training.wait()
    losses, right = twofold.trained(specification, dict(weights, seen=seen), batches)
    return {
        "moved_by_gradients": moved_by_gradients,
        "gradients": listed(found),
        "right_gradients": listed(twofold.gradients(weights, batches[0])),
        "losses": training.losses(),
        "right_losses": losses,
        "weights": {name: array.tolist() for name, array in training.weights().items()},
        "right_weights": {name: array.tolist() for name, array in right.items()},
        "graphs": [GRAPHS[sys.argv[1]](update) for update in training.updates if sys.argv[1] in GRAPHS],
    }


def left_out(training, other, batches):
    """What a first step does whose gradients are not finite, and the steps after it beside those of a training without.

    Nothing of the batch that is not finite may stay: neither in the weights nor in what the optimizers keep.
    """
    before = training.weights()
    training.step({name: numpy.full_like(array, numpy.inf) for name, array in batches[0].items()})
    training.wait()
    moved = [name for name, array in training.weights().items() if name != "seen" and (array != before[name]).any()]
    skipped = [training.skipped()]
    for one in (training, other):
        for arrays in batches:
            one.step(arrays)
        one.wait()
        skipped.append(one.skipped())
    return {
        "moved": moved,
        "skipped": skipped,
        "losses": [one.losses()[-STEPS:] for one in (training, other)],
        "weights": [{n: a.tolist() for n, a in one.weights().items() if n != "seen"} for one in (training, other)],
    }


def recorded(specification, training, weights, batches):
    training.step(batches[0])
    memory = training.record_memory(batches[1])
    return {
        "memory": memory,
        "losses": training.losses(),
        "losses_again": training.losses(),
        "weights_bytes": specification.weights_bytes(8),
        "optimizer_state_bytes": specification.optimizer_state_bytes(8),
        "input_bytes": sum(array.size * 8 for array in batches[1].values()),
    }


def listed(by_update):
    return {
        update: [float(loss), {name: array.tolist() for name, array in found.items()}]
        for update, (loss, found) in by_update.items()
    }


if __name__ == "__main__":
    main()
