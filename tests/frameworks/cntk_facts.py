"""What CNTK's adapter does, as JSON on stdout: run by test_cntk_adapter.py in CNTK's environment. Python 3.6 syntax.

python tests/frameworks/cntk_facts.py FOLDER timing|trace|memory [MODEL OPTIONS ROWS]|resident SHARING
"""

import json
import os
import resource
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tbd import frameworks, models
from tbd.models.specification import Update, count, parameter
from tests.frameworks import formulas
from tests.models import known

THREADS = 2
DTYPES = ("float32", "float64")


def main():
    folder, name, *of_memory = sys.argv[1:]
    request = {
        "batch_size": 4,
        "precision": "fp32",
        "rank": 0,
        "world_size": 1,
        "seed": 1,
        "pass": name,
        "framework": {"name": "cntk"},
        "hardware": {"device": "cpu", "threads": THREADS},
    }
    framework = frameworks.create(request)
    kinds = {"timing": timing_facts, "trace": trace_facts, "memory": memory_facts, "resident": resident_facts}
    facts = kinds[name](framework, folder, *of_memory)
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
    specification, training, kept, batches = trained(framework)
    return {
        "losses": [training.losses(), training.losses()],
        "graphs": len(training.updates[0].graphs),
        "canonical": all(numpy.array_equal(kept[n], a) for n, a in specification.initial_weights(1).items()),
        "devices": framework.devices(),
        "optimizers": {dtype: [optimizer_error(o, dtype) for o in formulas.OPTIMIZERS] for dtype in DTYPES},
        "shared_by_learner": shared_by_learner(framework),
        "computing_threads": computing_threads(framework.matrix_product(2000)),
    }


def optimizer_error(optimizer, dtype):
    """The largest difference between the adapter's weights and the formula's, from batches of several sizes."""
    import cntk

    from tbd.frameworks.cntk.update import TrainedUpdate

    before, steps = formulas.problem()
    dtype = numpy.dtype(dtype).type
    parameters = [parameter(str(n), a.shape, "dense", ("constant", 0)) for n, a in enumerate(before)]

    def loss(inputs, update, rows):
        products = [cntk.reduce_sum(variables[name] * x, cntk.Axis.all_axes()) for name, x in inputs.items()]
        return products[0] + products[1], []

    with cntk.default_options(dtype=dtype):
        variables = {str(n): cntk.Parameter(init=array.astype(dtype), dtype=dtype) for n, array in enumerate(before)}
        update = TrainedUpdate(Update("train", tuple(variables), optimizer, 1), loss, parameters, variables)
        for step, gradients in enumerate(steps):
            rows = 1 + step % 3
            arrays = {str(n): numpy.array([g / rows] * rows).astype(dtype) for n, g in enumerate(gradients)}
            update.train(arrays, step)
    return formulas.error(optimizer, [variable.value for variable in variables.values()])


def shared_by_learner(framework):
    """How many matrices of a learner share one buffer, at most, where the learner is a network."""
    from tbd.frameworks.cntk import plan

    a3c = models.create("a3c", {"size": "small"})
    training = framework.build(a3c, a3c.initial_weights(1))
    with plan.printed() as plans:
        training.step(a3c.synthetic_batch(4, numpy.random.RandomState(1)))
    return max(len(group) for one in plans if "Assign" in one.operators.values() for group in one.groups)


def computing_threads(work):
    """How many threads of this process the work makes busy."""
    work(1)
    before = ticks()
    work(10)
    spent = [now - before.get(thread, 0) for thread, now in ticks().items()]
    return sum(one > 0.2 * max(spent) for one in spent)


def ticks():
    """{thread: processor time in clock ticks} of this process (proc(5), stat)."""
    found = {}
    for thread in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/stat" % thread) as file:
            fields = file.read().rpartition(")")[2].split()
        found[thread] = int(fields[11]) + int(fields[12])
    return found


def too_much():
    """A gigabyte of zeros where the process may have half of one more."""
    import cntk

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + 2**29, hard))
    print(cntk.Parameter((2**14, 2**14), init=0.0).value, file=sys.stderr)


def trace_facts(framework, folder):
    """Traced are a step of an update by CNTK's own learner, and one by a network of operators."""
    _, training, _, batches = trained(framework)
    with training.tracing(os.path.join(folder, "own.json.gz")):
        training.step(batches[0])
    a3c = models.create("a3c", {"size": "small"})
    network = framework.build(a3c, a3c.initial_weights(1))
    arrays = a3c.synthetic_batch(4, numpy.random.RandomState(1))
    network.step(arrays)
    with network.tracing(os.path.join(folder, "network.json.gz")):
        network.step(arrays)
    return {
        "other_error": framework.out_of_memory(error_of(lambda: training.step({"images": numpy.zeros((4, 2, 2, 3))}))),
        "out_of_memory": framework.out_of_memory(error_of(too_much)),
    }


def error_of(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("no error")


def memory_facts(framework, folder, model, options, rows):
    specification = models.create(model, dict(known.memory_options(model), **json.loads(options)))
    training = framework.build(specification, specification.initial_weights(1))
    arrays = specification.synthetic_batch(known.batch_size(specification, int(rows)), numpy.random.RandomState(0))
    return {
        "weights_bytes": specification.weights_bytes(),
        "trained_bytes": 4 * sum(count(p) for p in specification.parameters if p.role == "weight"),
        "optimizer_state_bytes": specification.optimizer_state_bytes(),
        "input_bytes": 4 * sum(array.size for array in arrays.values()),
        "recorded": training.record_memory(arrays),
    }


def resident_facts(framework, folder, sharing):
    """The process's memory before a training and at most within its first steps, beside what is recorded of such.

    `libraries`: pages of the libraries' files that the first steps read, which the process has from then on.
    `kept`: what it has after the steps once malloc's free memory is the system's, without these.
    """
    import cntk

    from tbd.frameworks.cntk import memory

    if sharing == "off":
        cntk.cntk_py.disable_forward_values_sharing()
    specification = models.create("resnet50", dict(known.memory_options("resnet50"), size="small"))
    arrays, weights = specification.synthetic_batch(96, numpy.random.RandomState(0)), specification.initial_weights(1)
    baseline, files = memory.resident(forget=True), file_pages()
    training = framework.build(specification, weights)
    for _ in range(2):
        training.step(arrays)
    peak, libraries = memory.resident(), file_pages() - files
    kept = memory.resident(forget=True) - libraries
    recorded = training.record_memory(arrays)
    return {"baseline": baseline, "libraries": libraries, "peak": peak, "kept": kept, "recorded": recorded}


def file_pages():
    """Bytes of resident pages of files (proc(5), status)."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssFile:"))


if __name__ == "__main__":
    main()
