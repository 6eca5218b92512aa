"""What JAX's adapter does, as JSON on stdout: run by test_jax_adapter.py in JAX's environment.

python tests/frameworks/jax_facts.py FOLDER timing|memory
"""

import json
import os
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tbd import frameworks, models
from tbd.models import specification as specifications
from tests.models import known

THREADS = 2

# Convolutions, recurrences, several updates a step, and a small one. XLA compiles the others for minutes; whole runs of
# all (tests/test_real_runs.py) show that their memory has the specification's bytes and sums to the peak.
MODELS = ("a3c", "resnet50", "seq2seq", "wgan")


def main():
    folder, name = sys.argv[1:]
    request = {
        "batch_size": 4,
        "precision": "fp32",
        "rank": 0,
        "world_size": 1,
        "seed": 1,
        "pass": name,
        "framework": {"name": "jax"},
        "hardware": {"device": "cpu", "threads": THREADS},
    }
    framework = frameworks.create(request)
    facts = {"timing": timing_facts, "memory": memory_facts}[name](framework, folder)
    print(json.dumps(facts))


def timing_facts(framework, folder):
    import jax.numpy as jnp

    seq2seq = models.create("seq2seq", {"size": "small"})
    training = framework.build(seq2seq, seq2seq.initial_weights(1))
    kept = training.weights()
    random = numpy.random.RandomState(1)
    batches = []
    for length in (7, 5, 7, 5):
        seq2seq.options["synthetic_length"] = length
        batches.append(seq2seq.synthetic_batch(4, random))
    done = []
    for arrays in batches:
        training.step(arrays)
        done.append(all(array.is_ready() for array in training.weights_now.values()))
    with training.tracing(os.path.join(folder, "trace.json.gz")):
        training.step(batches[0])
        training.wait()
    framework.matrix_product(8)(2)
    framework.memory_copy(1024)(2)
    return {
        "losses": [training.losses(), training.losses()],
        "done": done,
        "graphs": training.updates[0].compiled._cache_size(),
        "canonical": all(numpy.array_equal(kept[n], a) for n, a in seq2seq.initial_weights(1).items()),
        "devices": framework.devices(),
        "computing_threads": sum(name == "tf_XLAEigen" for name in thread_names()),
        "out_of_memory": framework.out_of_memory(error_of(lambda: jnp.zeros(2**50).block_until_ready())),
        "other_error": framework.out_of_memory(error_of(lambda: jnp.ones((2, 3)) @ jnp.ones((2, 3)))),
    }


def thread_names():
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/comm") as file:
            yield file.read().strip()


def error_of(function):
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("no error")


def memory_facts(framework, folder):
    found = {}
    for model in MODELS:
        specification = models.create(model, dict(known.memory_options(model), size="small"))
        training = framework.build(specification, specification.initial_weights(1))
        found[model] = {
            "weights_bytes": specification.weights_bytes(),
            "trained_bytes": sum(4 * specifications.count(p) for p in specification.parameters if p.role == "weight"),
            "optimizer_state_bytes": specification.optimizer_state_bytes(),
            "batches": [
                recorded(training, specification.synthetic_batch(batch_size, numpy.random.RandomState(0)))
                for batch_size in [known.batch_size(specification, rows) for rows in (16, 32)]
            ],
        }
    return found


def recorded(training, arrays):
    """record_memory's dict, and `compiled_bytes`: what XLA itself says that the step's programs take."""
    record = training.record_memory(arrays)
    totals = []
    for (update, repetition), inputs in zip(training.turns, training.inputs(arrays), strict=True):
        arguments = update.arguments(training.weights_now, inputs, training.steps, repetition)
        analysis = update.compiled.lower(**arguments).compile().memory_analysis()
        beyond = analysis.output_size_in_bytes - analysis.alias_size_in_bytes + analysis.temp_size_in_bytes
        totals.append((beyond, analysis.argument_size_in_bytes))
    return dict(record, compiled_bytes=totals)


if __name__ == "__main__":
    main()
