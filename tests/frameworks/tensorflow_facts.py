"""What TensorFlow's adapter does, as JSON on stdout: run by test_tensorflow_training.py in TensorFlow's environment.

python tests/frameworks/tensorflow_facts.py FOLDER timing|memory
"""

import json
import os
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tbd import frameworks, models
from tbd.models import specification as specifications
from tests.models import known


def main():
    folder, name = sys.argv[1:]
    request = {
        "batch_size": 4,
        "precision": "fp32",
        "rank": 0,
        "world_size": 1,
        "seed": 1,
        "pass": name,
        "framework": {"name": "tensorflow"},
        "hardware": {"device": "cpu", "threads": 2},
    }
    framework = frameworks.create(request)
    facts = {"timing": timing_facts, "memory": memory_facts}[name](framework, folder)
    print(json.dumps(facts))


def timing_facts(framework, folder):
    import tensorflow as tf

    seq2seq = models.create("seq2seq", {"size": "small"})
    training = framework.build(seq2seq, seq2seq.initial_weights(1))
    kept = training.weights()
    random = numpy.random.RandomState(1)
    for batch_size, length in ((4, 7), (3, 5), (2, 9)):
        seq2seq.options["synthetic_length"] = length
        training.step(seq2seq.synthetic_batch(batch_size, random))
    with training.tracing(os.path.join(folder, "trace.json.gz")):
        training.step(seq2seq.synthetic_batch(4, random))
        training.wait()
    framework.matrix_product(8)(2)
    framework.memory_copy(1024)(2)
    return {
        "losses": [training.losses(), training.losses()],
        "graphs": training.updates[0].train.experimental_get_tracing_count(),
        "canonical": all(numpy.array_equal(kept[n], a) for n, a in seq2seq.initial_weights(1).items()),
        "devices": framework.devices(),
        "out_of_memory": [
            framework.out_of_memory(error)
            for error in (MemoryError(), tf.errors.ResourceExhaustedError(None, None, "OOM"), ValueError("a size"))
        ],
        "optimizers": [optimizer_error(optimizer) for optimizer in OPTIMIZERS],
    }


OPTIMIZERS = (
    specifications.sgd(0.1),
    specifications.sgd(0.1, momentum=0.9, weight_decay=0.01),
    specifications.sgd(0.1, momentum=0.9, weight_decay=0.01, clip_norm=0.5),
    # an epsilon of the size of the moments, so that its place in the formula matters
    specifications.adam(0.01, epsilon=0.1),
    specifications.adam(0.01, clip_norm=0.5),
    specifications.rmsprop(0.01, alpha=0.9, epsilon=0.1),
    specifications.rmsprop(0.01, alpha=0.9, epsilon=0.1, momentum=0.9, weight_decay=0.01, clip_norm=0.5),
)


def optimizer_error(optimizer):
    """The largest difference after 5 float64 steps between the adapter's weights and the formula's, in numpy."""
    import tensorflow as tf

    from tbd.frameworks.tensorflow import optimizer as optimizers

    random = numpy.random.RandomState(2)
    right = [random.standard_normal(shape) for shape in ((3, 4), (5,))]
    parameters = [specifications.parameter(str(n), a.shape, "dense", ("constant", 0)) for n, a in enumerate(right)]
    variables = [tf.Variable(array) for array in right]
    made = optimizers.create(optimizer, parameters, variables)
    first, second = [0.0, 0.0], [0.0, 0.0]
    for t in range(1, 6):
        gradients = [random.standard_normal(array.shape) for array in right]
        made.apply([tf.constant(gradient) for gradient in gradients])
        norm = numpy.sqrt(sum((gradient**2).sum() for gradient in gradients))
        scale = min(1.0, optimizer.clip_norm / norm) if optimizer.clip_norm else 1.0
        for n, gradient in enumerate(gradients):
            g = gradient * scale + optimizer.weight_decay * right[n]
            if optimizer.kind == "sgd":
                first[n] = optimizer.momentum * first[n] + g
                right[n] = right[n] - optimizer.learning_rate * first[n]
            elif optimizer.kind == "rmsprop":
                second[n] = optimizer.alpha * second[n] + (1 - optimizer.alpha) * g**2
                first[n] = optimizer.momentum * first[n] + g / (numpy.sqrt(second[n]) + optimizer.epsilon)
                right[n] = right[n] - optimizer.learning_rate * first[n]
            else:
                first[n] = optimizer.beta1 * first[n] + (1 - optimizer.beta1) * g
                second[n] = optimizer.beta2 * second[n] + (1 - optimizer.beta2) * g**2
                m, v = first[n] / (1 - optimizer.beta1**t), second[n] / (1 - optimizer.beta2**t)
                right[n] = right[n] - optimizer.learning_rate * m / (numpy.sqrt(v) + optimizer.epsilon)
    return max(float(abs(v.numpy() - array).max()) for v, array in zip(variables, right, strict=True))


def memory_facts(framework, folder):
    found = {}
    for model in [name for name in models.names() if "tensorflow" in models.frameworks(name)]:
        specification = models.create(model, dict(known.memory_options(model), size="small"))
        training = framework.build(specification, specification.initial_weights(1))
        batch_sizes = [known.batch_size(specification, rows) for rows in (16, 32)]
        counts = {p.name: specifications.count(p) for p in specification.parameters}
        found[model] = {
            "weights_bytes": specification.weights_bytes(),
            "gradient_bytes": 4 * sum(u.repeat * counts[n] for u in specification.updates(16) for n in u.parameters),
            "optimizer_state_bytes": specification.optimizer_state_bytes(),
            "batches": [
                training.record_memory(specification.synthetic_batch(batch_size, numpy.random.RandomState(0)))
                for batch_size in batch_sizes
            ],
        }
    return found


if __name__ == "__main__":
    main()
