"""What the tests must know of single models: batches and weights of theirs that serve a test. numpy only."""

import numpy


def full(specification, arrays):
    """A batch without padding, from a synthetic one of the model."""
    return FULL.get(specification.name, lambda arrays: arrays)(arrays)


def weights(specification, seed):
    """The canonical initial weights, but at a small size moved to where the gradients are not mere rounding."""
    return SPREAD.get(specification.name, lambda _, found: found)(specification, specification.initial_weights(seed))


def full_sentences(arrays):
    """Every sentence as long as its row."""
    rows = len(arrays["source"])
    lengths = {
        name: numpy.full(rows, arrays[other].shape[1], numpy.int32)
        for name, other in (("source_length", "source"), ("target_length", "target_input"))
    }
    return dict(arrays, **lengths)


def spread_as_at_full_width(specification, found):
    """seq2seq's weights are uniform within 0.1 at any width: for a narrow one, spread as at its full width of 512.

    A narrow network's sums are else so small that every tanh is linear, the gradients of the attention nearly vanish,
    and rounding alone decides where Adam moves.
    """
    spread = numpy.float32((512.0 / specification.options["width"]) ** 0.5)
    return {name: array * spread for name, array in found.items()}


FULL = {"seq2seq": full_sentences}
SPREAD = {"seq2seq": spread_as_at_full_width}
