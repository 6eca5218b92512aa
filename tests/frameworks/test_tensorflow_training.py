"""TensorFlow's adapter, run in its own environment (tensorflow_facts.py says what is run)."""

import gzip
import json
import math
import pathlib
import subprocess

import pytest

from tests.parity import cells

SCRIPT = pathlib.Path(__file__).with_name("tensorflow_facts.py")


def run(folder, name):
    """(facts, what was written to stderr) of a pass."""
    done = subprocess.run(
        [cells.framework_python("tensorflow"), SCRIPT, folder, name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tensorflow")


@pytest.fixture(scope="module")
def timing(folder):
    return run(folder, "timing")


@pytest.fixture(scope="module")
def memory(folder):
    return run(folder, "memory")[0]


def test_nothing_is_written_to_stderr(timing):
    assert timing[1] == ""


def test_each_loss_is_given_once(timing):
    first, second = timing[0]["losses"]
    assert len(first) == 4
    assert all(math.isfinite(loss) for loss in first)
    assert second == []


def test_batches_of_other_shapes_share_one_graph(timing):
    assert timing[0]["graphs"] == 1


def test_weights_are_given_back_in_their_canonical_layouts(timing):
    assert timing[0]["canonical"]


def test_the_device_has_a_name(timing):
    (device,) = timing[0]["devices"]
    assert device["kind"] == "cpu"
    assert device["name"]


def test_out_of_memory_is_told_from_other_errors(timing):
    assert timing[0]["out_of_memory"] == [True, True, False]


def test_the_optimizers_follow_the_specifications_formulas(timing):
    assert max(timing[0]["optimizers"]) < 1e-14


def test_the_trace_has_the_steps_operations(timing, folder):
    with gzip.open(folder / "trace.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    operations = [event for event in events if event["ph"] == "X"]
    assert {event["cat"] for event in operations} == {"cpu_op"}
    assert {"ResourceApplyAdam", "GatherV2", "TensorListStack"} <= {event["name"] for event in operations}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in operations)


MODELS = pytest.mark.parametrize("model", cells.models_in("tensorflow"))


def live(recorded, order):
    """{category: bytes} of the buffers that are alive at a position of the order axis."""
    found = {}
    for buffer in recorded["buffers"]:
        if buffer["born"] <= order and (buffer["died"] is None or order < buffer["died"]):
            found[buffer["category"]] = found.get(buffer["category"], 0) + buffer["bytes"]
    return found


def held(recorded, phase, category):
    """The bytes of a category where a phase begins; of several updates, whose phases are not told apart, in all."""
    if recorded["phases"]:
        return live(recorded, recorded["phases"][phase][0])[category]
    return sum(buffer["bytes"] for buffer in recorded["buffers"] if buffer["category"] == category)


def peak(recorded):
    """{category: bytes} where the allocator's peak was: elsewhere, with other slack, the buffers may sum to more."""
    return live(recorded, recorded["allocator"]["peak_at"])


@MODELS
def test_weights_and_optimizer_state_are_exact(memory, model):
    for recorded in memory[model]["batches"]:
        found = peak(recorded)
        assert found["weights"] == memory[model]["weights_bytes"]
        assert found["optimizer_state"] == memory[model]["optimizer_state_bytes"]


@MODELS
def test_the_categories_sum_to_the_allocators_peak(memory, model):
    for recorded in memory[model]["batches"]:
        allocator = recorded["allocator"]
        assert sum(peak(recorded).values()) + allocator["slack_bytes"] == pytest.approx(
            allocator["peak_bytes"], rel=0.01
        )


@MODELS
def test_twice_the_batch_has_twice_the_feature_maps(memory, model):
    """All feature maps are alive where the backward pass begins."""
    one, two = (held(r, "backward", "feature_maps") for r in memory[model]["batches"])
    assert two == pytest.approx(2 * one, rel=0.05)


@MODELS
def test_every_trained_weight_has_a_gradient(memory, model):
    """Gradients that are a part or a sum of others have no buffer of their own: their bytes are in those."""
    for recorded in memory[model]["batches"]:
        found = held(recorded, "update", "weight_gradients")
        assert found == pytest.approx(memory[model]["gradient_bytes"], rel=0.1)
