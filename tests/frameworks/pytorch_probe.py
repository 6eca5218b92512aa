"""Facts of PyTorch's adapter, in its environment: pytorch_probe.py REQUEST.json FOLDER writes FOLDER/facts.json."""

import json
import os
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tbd import frameworks, models
from tbd.models.specification import count

STEPS = 60


def main():
    with open(sys.argv[1]) as file:
        request = json.load(file)
    folder = sys.argv[2]
    framework = frameworks.create(request)
    options = {key: value for key, value in request["model"].items() if key != "name"}
    specification = models.create(request["model"]["name"], options)
    weights = specification.initial_weights(request["seed"])
    random = numpy.random.RandomState(0)
    arrays = specification.synthetic_batch(request["batch_size"], random)
    counts = {p.name: count(p) for p in specification.parameters}
    updates = specification.updates(request["batch_size"])
    doubled = {name: numpy.concatenate([array, array]) for name, array in arrays.items()}

    training = framework.build(specification, weights)
    facts = {
        "version": framework.version(),
        "devices": framework.devices(),
        "weights_kept": all(numpy.array_equal(weights[name], array) for name, array in training.weights().items()),
        "memory": training.record_memory(arrays),
        "memory_doubled": framework.build(specification, weights).record_memory(doubled),
        "specified_bytes": [specification.weights_bytes(), specification.optimizer_state_bytes()],
        "gradient_bytes": 4 * sum(u.repeat * sum(counts[name] for name in u.parameters) for u in updates),
        "turns": sum(u.repeat for u in updates),
    }
    with training.tracing(os.path.join(folder, "trace.json.gz")):
        training.step(arrays)

    training = framework.build(specification, weights)
    before = training.weights()
    training.gradients(arrays)
    after = training.weights()
    trainable = [p.name for p in specification.parameters if p.role == "weight"]
    facts["gradients_move_weights"] = any(not numpy.array_equal(before[name], after[name]) for name in trainable)
    for _ in range(STEPS):
        training.step(specification.synthetic_batch(request["batch_size"], random))
    training.wait()
    facts["losses"] = training.losses()
    facts["losses_again"] = training.losses()
    facts["out_of_memory"] = framework.out_of_memory(allocation_error())
    facts["other_error"] = framework.out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with open(os.path.join(folder, "facts.json"), "w") as file:
        json.dump(facts, file)


def allocation_error():
    """What PyTorch raises for more memory than any machine has."""
    import torch

    try:
        torch.empty(2**50)
    except RuntimeError as error:
        return error
    raise AssertionError("4 PiB were allocated")


if __name__ == "__main__":
    main()
