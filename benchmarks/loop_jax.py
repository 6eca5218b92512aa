"""A training loop as one writes it by hand, over the same network and batches, with a clock around it and nothing else.

python loop_jax.py REQUEST WARMUP STEPS prints {"seconds": ..., "cpu_s": ...} of the steps after the warm-up.
"""

import functools
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
    import jax

    (update,) = training.updates
    weights, state = training.weights_now, update.state
    random = numpy.random.RandomState(request["seed"])
    batches = [specification.synthetic_batch(request["batch_size"], random) for _ in range(8)]

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(weights, state, batch, scalars):
        def loss_of(trained):
            return update.network({**rest, **trained}, batch, update.name)

        trained = {name: array for name, array in weights.items() if name in update.trained}
        rest = {name: array for name, array in weights.items() if name not in update.trained}
        (loss, moved), gradients = jax.value_and_grad(loss_of, has_aux=True)(trained)
        trained, state = update.optimizer.apply(trained, gradients, state, scalars)
        return {**rest, **moved, **trained}, state, loss

    def train(count: int) -> None:
        nonlocal weights, state
        for number in range(count):
            batch = jax.device_put(batches[number % len(batches)])
            weights, state, loss = step(weights, state, batch, update.optimizer.scalars(number, number))
        loss.block_until_ready()

    train(warmup)
    cpu, begin = cpu_seconds(), time.monotonic()
    train(steps)
    print(json.dumps({"seconds": time.monotonic() - begin, "cpu_s": cpu_seconds() - cpu}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
