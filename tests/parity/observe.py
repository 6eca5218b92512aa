"""What one framework makes of a model: run inside that framework's environment.

    python tests/parity/observe.py REQUEST.json FOLDER [--steps N] [--same] [--faults FAULT ...] [--own-kernels]
                                   [--learn] [--also PRECISION ...]

From the canonical weights of the request's seed (tests/models/known) and one synthetic batch of its batch size, in
its precision, FOLDER/right.npz:

    canonical/NAME        weights and statistics by the specification
    initial/NAME          the same as the framework has them when built
    loss/UPDATE           of the batch from the canonical weights
    gradient/UPDATE/NAME  by each parameter that the update trains
    losses                of N steps on that batch, of 10 where N isn't given
    trained/NAME          weights and statistics after them

With --same also FOLDER/NAME.npz with the same of the batch in each other form (SAME in tests/models/known) that must
change nothing. With --faults FAULT ... also FOLDER/FAULT.npz with each of these deliberate mistakes
(tests/parity/faults.py). With --own-kernels, of PyTorch, also FOLDER/own_kernels.npz with the same by its own kernels,
where else it takes oneDNN's. With --learn also FOLDER/learning.npz: `losses` of training on the synthetic source for
the model's LEARNING_STEPS. With --also PRECISION ... also FOLDER/PRECISION.npz with loss and gradients alone, in each
of these precisions.
"""

import argparse
import contextlib
import json
import os
import sys

import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tbd import data, frameworks, models
from tests.models import known
from tests.parity import compare, faults

STEPS = 10
# A gradient or loss that a fault moves by this share of itself breaks compare.py's bounds in float32: they are 3e-3 at
# most, three times an error of PyTorch's that a test holds below 1e-3, and the right one is itself within them.
SHOWN = 0.01


def batch(specification, batch_size):
    """The deterministic batch that every framework sees."""
    seed = known.batch_seed(specification.name)
    return specification.synthetic_batch(batch_size, numpy.random.RandomState(seed))


def specification_of(request):
    """The request's specification, with bounds on gradients and weights that suit a small network and batch."""
    options = {key: value for key, value in request["model"].items() if key != "name"}
    specification = models.create(request["model"]["name"], options)
    norm, weights = known.clip_norm(specification.name), known.clip_weights(specification.name)
    return faults.with_optimizers(
        specification, lambda o: o._replace(clip_norm=o.clip_norm and norm, clip_weights=o.clip_weights and weights)
    )


def observe(framework, request, fault, steps, right=None):
    """{key: array} of the module's docstring, of the framework's adapter with a fault planted.

    With `right`, the observation without a fault: a fault that shows in the gradients is not trained with. Its losses
    and trained weights are then those of `right`, so that nothing but the gradients can tell it.
    """
    specification = fault.specification(specification_of(request))
    canonical = known.weights(specification, request["seed"])
    initial = fault.weights_in(canonical)
    arrays = fault.batch(batch(specification, request["batch_size"]))
    with fault.planted():
        training = framework.build(specification, initial)
        found = named("canonical/", canonical)
        found.update(named("initial/", fault.weights_out(training.weights())))
        for update, (loss, gradients) in training.gradients(arrays).items():
            found["loss/" + update] = numpy.float64(loss)
            found.update(named(f"gradient/{update}/", fault.weights_out(gradients)))

        if right is not None and is_shown(found, right):
            found.update({key: array for key, array in right.items() if key == "losses" or key.startswith("trained/")})
            return fault.observation(found, specification, arrays)

        training = framework.build(specification, initial)  # afresh: gradients() may move the running statistics
        for _ in range(steps):
            training.step(arrays)
        found["losses"] = numpy.array(training.losses(), numpy.float64)
        found.update(named("trained/", fault.weights_out(training.weights())))
    return fault.observation(found, specification, arrays)


class OwnKernels(faults.Fault):
    """No mistake: PyTorch by its own kernels, as good a float32 as oneDNN's, and rounded in another order."""

    @contextlib.contextmanager
    def planted(self):
        import torch

        torch.backends.mkldnn.enabled = False
        yield
        torch.backends.mkldnn.enabled = True


def is_shown(found, right):
    """Whether losses or gradients differ by more than SHOWN."""
    early = {key: array for key, array in right.items() if key.startswith(("loss/", "gradient/"))}
    return set(early) <= set(found) and any(not e <= SHOWN for e in compare.errors(found, early).values())


def once(request):
    """The losses and gradients alone, in the request's precision."""
    framework = frameworks.create(request)
    specification = specification_of(request)
    training = framework.build(specification, known.weights(specification, request["seed"]))
    found = {}
    for update, (loss, gradients) in training.gradients(batch(specification, request["batch_size"])).items():
        found["loss/" + update] = numpy.float64(loss)
        found.update(named(f"gradient/{update}/", gradients))
    return found


def learn(framework, request):
    """The losses of training as a run does, on the synthetic batches of the request's seed."""
    options = {key: value for key, value in request["model"].items() if key != "name"}
    specification = models.create(request["model"]["name"], options)
    training = framework.build(specification, known.weights(specification, request["seed"]))
    batches = data.open_source(specification, request).batches()
    for _ in range(known.learning_steps(specification.name)):
        training.step(next(batches).arrays)
    return {"losses": numpy.array(training.losses(), numpy.float64)}


def named(prefix, arrays):
    return {prefix + name: array for name, array in arrays.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("request")
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--faults", nargs="*", default=[], metavar="FAULT")
    parser.add_argument("--own-kernels", action="store_true")
    parser.add_argument("--learn", action="store_true")
    parser.add_argument("--also", nargs="*", default=[], metavar="PRECISION")
    arguments = parser.parse_args()
    with open(arguments.request) as file:
        request = json.load(file)
    framework = frameworks.create(request)
    own_name = request["framework"]["name"]

    def save(name, fault, right=None):
        found = observe(framework, request, fault(own_name), arguments.steps, right)
        numpy.savez(os.path.join(arguments.folder, name + ".npz"), **found)
        return found

    right = save("right", faults.Fault)
    for name, form in known.same(request["model"]["name"]).items() if arguments.same else ():
        save(name, form)
    for name in arguments.faults:
        save(name, faults.of_specification(specification_of(request))[name], right)
    if arguments.own_kernels:
        save("own_kernels", OwnKernels)
    if arguments.learn:
        numpy.savez(os.path.join(arguments.folder, "learning.npz"), **learn(framework, request))
    for precision in arguments.also:
        numpy.savez(os.path.join(arguments.folder, precision + ".npz"), **once(dict(request, precision=precision)))


if __name__ == "__main__":
    main()
