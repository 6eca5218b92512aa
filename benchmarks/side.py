"""One side of a comparison, in a process of its own: python side.py JOB.

JOB is JSON: side ("ours" or "peer"), model, options (of the specification), framework, batch_size, device, threads,
precision and compile. Both sides get the same batches, numpy arrays on the host as a data source gives them. Once warm
it prints {"unit": ..., "items": of a round of all batches}. To each number of rounds that it then reads, a line, it
trains so many and prints {"seconds": ..., "cpu_s": ...}, from when all before was done to when all is done.
"""

import importlib
import json
import os
import sys
import time

import numpy

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # where tbd is; `peers` is beside this

from tbd import frameworks, models
from tbd.worker.passes import cpu_seconds

BATCHES = 2  # that are trained on in turn: few, to need little memory
WARM_ROUNDS = 2  # the first compiles, the second still fills caches
SEED = 1


def ours(job, specification):
    """(step, sync) of tbd's own adapter and network."""
    request = {
        "pass": "timing",
        "seed": SEED,
        "world_size": 1,
        "rank": 0,
        "framework": {"name": job["framework"]},
        "model": dict(job["options"], name=job["model"]),
        "hardware": {"device": job["device"], "devices": 1, "nodes": 1, "threads": job["threads"]},
        **{key: job[key] for key in ("batch_size", "precision", "compile")},
    }
    training = frameworks.create(request).build(specification, specification.initial_weights(SEED))
    return training.step, training.wait


def peer(job, specification):
    module = importlib.import_module(f"peers.{job['framework']}.{job['model']}")
    how = [job[key] for key in ("batch_size", "device", "precision", "compile")]
    return module.build(dict(specification.options), *how)


def main():
    job = json.loads(sys.argv[1])
    specification = models.create(job["model"], job["options"])
    random = numpy.random.RandomState(SEED)
    batches = [specification.synthetic_batch(job["batch_size"], random) for _ in range(BATCHES)]
    step, sync = {"ours": ours, "peer": peer}[job["side"]](job, specification)

    def train(rounds):
        for batch in batches * rounds:
            step(batch)
        sync()

    train(WARM_ROUNDS)
    items = sum(specification.items(batch)[specification.unit] for batch in batches)
    print(json.dumps({"unit": specification.unit, "items": items}), flush=True)
    for line in sys.stdin:
        cpu, begin = cpu_seconds(), time.monotonic()
        train(int(line))
        print(json.dumps({"seconds": time.monotonic() - begin, "cpu_s": cpu_seconds() - cpu}), flush=True)


if __name__ == "__main__":
    main()
