"""The CTC loss in each framework, against the sum over all paths."""

import itertools
import pathlib
import subprocess

import numpy
import pytest

from tests.parity import cells

SCRIPT = pathlib.Path(__file__).with_name("ctc_facts.py")
# repeated characters, a path without room to spare (4 steps for 1 1 and a blank, 3 for 2 2), an empty transcript
LABELS = [[1, 1, 2], [3, 2, 1], [2, 2], [1], []]
STEPS = [4, 6, 3, 5, 4]
TIME, CLASSES = 6, 4


@pytest.fixture(scope="module")
def batch():
    random = numpy.random.RandomState(0)
    labels = numpy.zeros((len(LABELS), 4), numpy.int32)
    for row, label in enumerate(LABELS):
        labels[row, : len(label)] = label
    return {
        "logits": 2 * random.standard_normal((TIME, len(LABELS), CLASSES)),
        "steps": numpy.array(STEPS, numpy.int32),
        "labels": labels,
        "label_lengths": numpy.array([len(label) for label in LABELS], numpy.int32),
        "weights": numpy.arange(1.0, 1 + len(LABELS)),
    }


def by_all_paths(logits, label):
    """(-log P(label), its gradient by the logits) of one utterance, as a sum over every path."""
    probabilities = numpy.exp(logits) / numpy.exp(logits).sum(1, keepdims=True)
    total, occupied = 0.0, numpy.zeros_like(probabilities)
    for path in itertools.product(range(CLASSES), repeat=len(logits)):
        if [character for character, _ in itertools.groupby(path) if character] == label:
            probability = numpy.prod(probabilities[range(len(logits)), path])
            total += probability
            occupied[range(len(logits)), path] += probability
    return -numpy.log(total), probabilities - occupied / total


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "jax", "mxnet", "cntk"])
def test_the_loss_is_the_sum_over_all_paths(framework, batch, tmp_path):
    numpy.savez(tmp_path / "batch.npz", **batch)
    command = [cells.framework_python(framework), SCRIPT, framework, tmp_path / "batch.npz", tmp_path / "result.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    with numpy.load(tmp_path / "result.npz") as found:
        losses, gradient = found["losses"], found["gradient"]
    for row, (steps, label) in enumerate(zip(STEPS, LABELS, strict=True)):
        loss, by_logits = by_all_paths(batch["logits"][:steps, row], label)
        assert losses[row] == pytest.approx(loss, rel=1e-12)
        numpy.testing.assert_allclose(gradient[:steps, row], batch["weights"][row] * by_logits, atol=1e-12)
        assert not gradient[steps:, row].any()
