"""Memory of ResNet-50's small network at several batch sizes, as JSON on stdout: python memory_facts.py FRAMEWORK.

Run in the framework's own environment by test_memory_facts.py.
"""

import json
import os
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tbd import frameworks, models

SIZES = (4, 8, 12, 16)


def main():
    name = sys.argv[1]
    request = {
        "batch_size": SIZES[0],
        "precision": "fp32",
        "world_size": 1,
        "rank": 0,
        "seed": 1,
        "pass": "memory",
        "framework": {"name": name},
        "hardware": {"device": "cpu", "threads": 1},
    }
    framework = frameworks.create(request)
    specification = models.create("resnet50", {"size": "small"})
    training = framework.build(specification, specification.initial_weights(1))
    random = numpy.random.RandomState(0)
    records = [training.record_memory(specification.synthetic_batch(size, random)) for size in SIZES]
    facts = {"sizes": SIZES, "records": records, "parameters": [p.name for p in specification.parameters]}
    if name == "pytorch":
        facts["tracked_by_torch"] = tracked(framework, specification, random)
        facts["communicated"] = communicated()
    print(json.dumps(facts))


def tracked(framework, specification, random):
    """The peak of a step at the last size by PyTorch's own MemTracker, in bytes."""
    from torch.distributed._tools.mem_tracker import MemTracker

    training = framework.build(specification, specification.initial_weights(1))
    arrays = specification.synthetic_batch(SIZES[-1], random)
    training.step(arrays)
    inputs = training.inputs(arrays)
    tracker = MemTracker()
    tracker.track_external(training.network, *(u.optimizer for u in training.updates), *inputs[0].values())
    with tracker:
        training.train(inputs)
    return tracker.get_tracker_snapshot("peak")[training.device]["Total"]


def communicated():
    """Categories of the buffers of a sum over ranks, here one, and of what is made of it."""
    import torch
    from torch import distributed

    from tbd.frameworks.pytorch import memory
    from tbd.frameworks.pytorch.allocator import CpuAllocator

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    recorder = memory.Recorder(torch.device("cpu"))
    with CpuAllocator(torch.device("cpu"), 0) as recorder.allocator, recorder:
        sent = torch.ones(1000)
        distributed.all_reduce(sent)
        made = sent * 2
    distributed.destroy_process_group()
    del made
    return [buffer["category"] for buffer in recorder.buffers if buffer["bytes"] == 4000]


if __name__ == "__main__":
    main()
