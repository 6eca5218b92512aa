"""A training loop as one writes it by hand, over the same network and batches, with a clock around it and nothing else.

python loop_cntk.py REQUEST WARMUP STEPS prints {"seconds": ..., "cpu_s": ...} of the steps after the warm-up. Python
3.6 syntax.
"""

import json
import sys
import time

import numpy

from tbd import frameworks, models
from tbd.worker.passes import cpu_seconds


def main(request_path: str, warmup: int, steps: int) -> None:
    with open(request_path) as file:
        request = json.load(file)
    options = {key: value for key, value in request["model"].items() if key != "name"}
    specification = models.create(request["model"]["name"], options)
    training = frameworks.create(request).build(specification, specification.initial_weights(request["seed"]))

    (update,) = training.updates
    random = numpy.random.RandomState(request["seed"])
    batches = [specification.synthetic_batch(request["batch_size"], random) for _ in range(8)]
    training.make_graphs(training.inputs(batches[0]))
    (graph,) = update.graphs.values()
    trainer, inputs = graph.trainer, graph.inputs

    def train(count: int) -> None:
        for step in range(count):
            update.rule.begin(step)
            arrays = batches[step % len(batches)]
            trainer.train_minibatch({inputs[name]: array.astype("float32") for name, array in arrays.items()})

    train(warmup)
    cpu, begin = cpu_seconds(), time.monotonic()
    train(steps)
    print(json.dumps({"seconds": time.monotonic() - begin, "cpu_s": cpu_seconds() - cpu}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
