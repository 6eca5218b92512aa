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
from tests.models import known

THREADS = 2


def main():
    folder, name, *of_memory = sys.argv[1:]
    request = {
        "batch_size": 4,
        "precision": "fp32",
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
    framework.matrix_product(8)()
    framework.memory_copy(1024)()
    return {
        "losses": [training.losses(), training.losses()],
        "graphs": len(training.graphs),
        "canonical": all(numpy.array_equal(kept[n], a) for n, a in specification.initial_weights(1).items()),
        "devices": framework.devices(),
        "optimizers": {dtype: [optimizer_error(o, dtype) for o in OPTIMIZERS] for dtype in ("float32", "float64")},
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


def falling(step):
    return 0.1 / (1 + step)


OPTIMIZERS = (
    specifications.sgd(0.1),
    specifications.sgd(0.1, momentum=0.9, weight_decay=0.01),
    specifications.sgd(falling, momentum=0.9, weight_decay=0.01, clip_norm=0.5),
    # an epsilon of the size of the moments, so that its place in the formula matters
    specifications.adam(0.01, epsilon=0.1),
    specifications.adam(falling, clip_norm=0.5),
    specifications.rmsprop(0.01, alpha=0.9, epsilon=0.1),
    specifications.rmsprop(falling, alpha=0.9, epsilon=0.1, momentum=0.9, weight_decay=0.01, clip_norm=0.5),
    specifications.rmsprop(0.01, alpha=0.9, epsilon=0.1, clip_weights=0.5),
)


def optimizer_error(optimizer, dtype):
    """The largest difference after 5 steps between the adapter's weights and the formula's, in numpy and float64."""
    import mxnet

    from tbd.frameworks.mxnet import optimizer as optimizers

    random = numpy.random.RandomState(2)
    right = [random.standard_normal(shape) for shape in ((3, 4), (5,))]
    parameters = [specifications.parameter(str(n), a.shape, "dense", ("constant", 0)) for n, a in enumerate(right)]
    weights = {str(n): mxnet.nd.array(array, dtype=dtype) for n, array in enumerate(right)}
    given = {name: mxnet.nd.zeros_like(weight) for name, weight in weights.items()}
    made = optimizers.create(optimizer, parameters, weights, given)
    first, second = [0.0, 0.0], [0.0, 0.0]
    for step in range(5):
        gradients = [random.standard_normal(array.shape) for array in right]
        for name, gradient in zip(given, gradients, strict=True):
            given[name][:] = gradient.astype(dtype)
        made.apply(step)
        rate, o = specifications.learning_rate_at(optimizer, step), optimizer
        norm = numpy.sqrt(sum((gradient**2).sum() for gradient in gradients))
        scale = min(1.0, o.clip_norm / norm) if o.clip_norm else 1.0
        for n, gradient in enumerate(gradients):
            g = gradient * scale + o.weight_decay * right[n]
            if o.kind == "sgd":
                first[n] = direction = o.momentum * first[n] + g
            elif o.kind == "rmsprop":
                second[n] = o.alpha * second[n] + (1 - o.alpha) * g**2
                first[n] = direction = o.momentum * first[n] + g / (numpy.sqrt(second[n]) + o.epsilon)
            else:
                first[n] = o.beta1 * first[n] + (1 - o.beta1) * g
                second[n] = o.beta2 * second[n] + (1 - o.beta2) * g**2
                m, v = first[n] / (1 - o.beta1 ** (step + 1)), second[n] / (1 - o.beta2 ** (step + 1))
                direction = m / (numpy.sqrt(v) + o.epsilon)
            right[n] = right[n] - rate * direction
            if o.clip_weights:
                right[n] = numpy.clip(right[n], -o.clip_weights, o.clip_weights)
    return max(float(abs(w.asnumpy() - array).max()) for w, array in zip(weights.values(), right, strict=True))


if __name__ == "__main__":
    main()
