"""What MXNet's adapter does, as JSON on stdout: run by test_mxnet_adapter.py in MXNet's environment.

python tests/frameworks/mxnet_facts.py FOLDER timing|trace|memory [MODEL OPTIONS ROWS]
"""

import json
import os
import resource
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tbd import frameworks, models
from tbd.models import specification as specifications
from tests.frameworks import formulas
from tests.models import known

THREADS = 2


def main():
    folder, name, *of_memory = sys.argv[1:]
    request = {
        "batch_size": 4,
        "precision": "fp32",
        "rank": 0,
        "world_size": 1,
        "seed": 1,
        "pass": name,
        "framework": {"name": "mxnet"},
        "hardware": {"device": "cpu", "threads": THREADS},
    }
    framework = frameworks.create(request)
    facts = {"timing": timing_facts, "trace": trace_facts, "memory": memory_facts}[name](framework, folder, *of_memory)
    print(json.dumps(facts))


def trained(framework):
    resnet50 = models.create("resnet50", {"size": "small"})
    training = framework.build(resnet50, resnet50.initial_weights(1))
    kept = training.weights()
    random = numpy.random.RandomState(1)
    batches = [resnet50.synthetic_batch(size, random) for size in (4, 3, 4, 3)]
    for arrays in batches:
        training.step(arrays)
    training.wait()
    return resnet50, training, kept, batches


def timing_facts(framework, folder):
    import mxnet

    specification, training, kept, _ = trained(framework)
    framework.matrix_product(8)(2)
    framework.memory_copy(1024)(2)
    return {
        "losses": [training.losses(), training.losses()],
        "graphs": len(training.graphs),
        "canonical": all(numpy.array_equal(kept[n], a) for n, a in specification.initial_weights(1).items()),
        "devices": framework.devices(),
        "optimizers": {
            dtype: [optimizer_error(o, dtype) for o in formulas.OPTIMIZERS] for dtype in ("float32", "float64")
        },
        "other_error": framework.out_of_memory(error_of(lambda: mxnet.nd.dot(mxnet.nd.ones((2, 3)), mxnet.nd.ones(2)))),
        "out_of_memory": framework.out_of_memory(error_of(too_much)),
    }


def too_much():
    """A gigabyte of zeros where the process may have half of one more."""
    import mxnet

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + 2**29, hard))
    mxnet.nd.zeros(2**28).wait_to_read()


def trace_facts(framework, folder):
    _, training, _, batches = trained(framework)
    with training.tracing(os.path.join(folder, "trace.json.gz")):
        training.step(batches[0])
        training.wait()
    return {}


def error_of(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("no error")


def memory_facts(framework, folder, model, options, rows):
    import mxnet

    specification = models.create(model, dict(known.memory_options(model), **json.loads(options)))
    training = framework.build(specification, specification.initial_weights(1))
    arrays = specification.synthetic_batch(known.batch_size(specification, int(rows)), numpy.random.RandomState(0))
    recorded = training.record_memory(arrays)
    freed = training.counter.during(training.graphs.clear)
    mxnet.nd.waitall()
    return {
        "weights_bytes": specification.weights_bytes(),
        "trained_bytes": 4 * sum(specifications.count(p) for p in specification.parameters if p.role == "weight"),
        "optimizer_state_bytes": specification.optimizer_state_bytes(),
        "input_bytes": sum(array.nbytes for array in arrays.values()),
        "graphs_bytes": freed[0] - freed[-1],
        "recorded": recorded,
    }


def optimizer_error(optimizer, dtype):
    """The largest difference between the adapter's weights and the formula's."""
    import mxnet

    from tbd.frameworks.mxnet import optimizer as optimizers

    before, steps = formulas.problem()
    parameters = [specifications.parameter(str(n), a.shape, "dense", ("constant", 0)) for n, a in enumerate(before)]
    weights = {str(n): mxnet.nd.array(array, dtype=dtype) for n, array in enumerate(before)}
    given = {name: mxnet.nd.zeros_like(weight) for name, weight in weights.items()}
    made = optimizers.create(optimizer, parameters, weights, given)
    for step, gradients in enumerate(steps):
        for name, gradient in zip(given, gradients, strict=True):
            given[name][:] = gradient.astype(dtype)
        made.apply(step)
    return formulas.error(optimizer, [weight.asnumpy() for weight in weights.values()])


if __name__ == "__main__":
    main()
