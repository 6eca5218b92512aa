"""What the tests must know of single models: a module each, tests/models/known/<model>.py. numpy only.

The frameworks' environments import them too. A module has

    PARAMETERS                      of the full size, from a source beside the specification

and, where its model needs it:

    MEMORY_OPTIONS                  {option: value} with which the small size is large beside an allocator's rounding
    batch_size(specification, rows) what `batch_size` gives so many rows; where it isn't said, their number
    COUNT_OPTIONS                   {option: value} with which operations of the full size are counted
    CLIP_NORM                       the gradients' bound, where they have one, that acts on a small batch; else 0.1
    CLIP_WEIGHTS                    the weights' bound, where they have one, that leaves a small network able to learn
    BATCH_SEED                      of the generator of the batch by which frameworks are compared; else 54
    full(arrays)                    a batch without padding, from a synthetic one
    spread(specification, weights)  the canonical weights, moved to where a small network's gradients are not mere noise
    FAULTS                          {name: class of tests/parity/fault.py} the mistakes that one makes with this network
    SAME                            {name: class of tests/parity/fault.py} other forms of a batch: nothing may change
    VARIANTS                        {name: {option: value}} other networks that options make, each held to parity too
    LEARNING_STEPS                  steps on synthetic batches after which the loss has fallen; 60 where it isn't said
    learned(losses)                 whether it has; else: the last 8 are on average below 0.9 of the first 8
"""

import importlib

LEARNING_STEPS = 60
# Where a ReLU's input is nearly 0, rounding alone can flip it and then a gradient is off by percents: of the seeds
# below 60, this is one of the eight with which float32 stays within 1e-4 of resnet50's gradients in float64 though
# every weight is moved by 1e-6 of itself, five times at random.
BATCH_SEED = 54
RING = 8  # losses at either end: one of each synthetic batch (tbd/data/synthetic.py)


def of(model):
    """The module of a model."""
    return importlib.import_module("tests.models.known." + model)


def memory_options(model):
    return getattr(of(model), "MEMORY_OPTIONS", {})


def count_options(model):
    return getattr(of(model), "COUNT_OPTIONS", {})


def clip_norm(model):
    return getattr(of(model), "CLIP_NORM", 0.1)


def clip_weights(model):
    return getattr(of(model), "CLIP_WEIGHTS", None)


def batch_seed(model):
    return getattr(of(model), "BATCH_SEED", BATCH_SEED)


def batch_size(specification, rows):
    """The batch size of a synthetic batch of so many rows."""
    own = getattr(of(specification.name), "batch_size", None)
    return own(specification, rows) if own else rows


def has_padding(model):
    return hasattr(of(model), "full")


def full(specification, arrays):
    """A batch without padding, from a synthetic one of the model."""
    return of(specification.name).full(arrays) if has_padding(specification.name) else arrays


def weights(specification, seed):
    """The canonical initial weights, spread where the model asks for it."""
    found = specification.initial_weights(seed)
    spread = getattr(of(specification.name), "spread", None)
    return spread(specification, found) if spread else found


def faults(model):
    return getattr(of(model), "FAULTS", {})


def same(model):
    return getattr(of(model), "SAME", {})


def variants(model):
    return getattr(of(model), "VARIANTS", {})


def learning_steps(model):
    return getattr(of(model), "LEARNING_STEPS", LEARNING_STEPS)


def learned(model, losses):
    """Whether the losses, one a step, fell as far as they must."""
    return getattr(of(model), "learned", fell)(losses)


def fell(losses):
    return sum(losses[-RING:]) < 0.9 * sum(losses[:RING])
