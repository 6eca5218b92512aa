"""JAX's adapter, run in its own environment (jax_facts.py says what is run)."""

import collections
import gzip
import json
import math
import pathlib
import subprocess

import pytest

from tests.frameworks import jax_facts
from tests.parity import cells

SCRIPT = pathlib.Path(__file__).with_name("jax_facts.py")
THREADS = 2  # as in jax_facts.py


def run(folder, name):
    """(facts, what was written to stderr) of a pass."""
    done = subprocess.run(
        [cells.framework_python("jax"), SCRIPT, folder, name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("jax")


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
    assert len(first) == 5
    assert all(math.isfinite(loss) for loss in first)
    assert second == []


def test_on_the_cpu_a_step_is_done_when_it_returns(timing):
    assert timing[0]["done"] == [True] * 4


def test_each_shape_is_compiled_once(timing):
    assert timing[0]["graphs"] == 2


def test_weights_are_given_back_in_their_canonical_layouts(timing):
    assert timing[0]["canonical"]


def test_the_device_has_a_name(timing):
    (device,) = timing[0]["devices"]
    assert device["kind"] == "cpu"
    assert device["name"]


def test_as_many_threads_compute_as_are_asked_for(timing):
    assert timing[0]["computing_threads"] == THREADS


def test_only_a_lack_of_memory_is_out_of_memory(timing):
    assert timing[0]["out_of_memory"]
    assert not timing[0]["other_error"]


def test_the_trace_has_the_programs_instructions_with_the_operations_that_they_come_from(timing, folder):
    with gzip.open(folder / "trace.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    instructions = [event for event in events if event["ph"] == "X"]
    assert {event["cat"] for event in instructions} == {"cpu_op"}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in instructions)
    assert any("dot" in event["name"] for event in instructions)
    assert any(event["name"] == "while" for event in instructions)
    sources = {event["args"]["op"] for event in instructions}
    for scope in ("/jvp(forward)/", "/transpose(jvp(forward))/", "/optimizer/"):
        assert any(scope in source for source in sources), scope


MODELS = pytest.mark.parametrize("model", jax_facts.MODELS)


def peak(recorded):
    """{category: bytes} where the buffers hold the most in all."""
    changes = [(b["born"], b["bytes"], b["category"]) for b in recorded["buffers"]]
    changes += [(b["died"], -b["bytes"], b["category"]) for b in recorded["buffers"] if b["died"] is not None]
    live, highest = collections.Counter(), collections.Counter()
    for _, change, category in sorted(changes):
        live[category] += change
        if live.total() > highest.total():
            highest = live.copy()
    return highest


@MODELS
def test_weights_and_optimizer_state_are_exact(memory, model):
    for recorded in memory[model]["batches"]:
        found = peak(recorded)
        assert found["weights"] == memory[model]["weights_bytes"]
        assert found["optimizer_state"] == memory[model]["optimizer_state_bytes"]


@MODELS
def test_the_categories_sum_to_what_xla_says_that_the_step_takes(memory, model):
    """With the gaps between the buffers, which are small."""
    for recorded in memory[model]["batches"]:
        before = sum(buffer["bytes"] for buffer in recorded["buffers"] if buffer["born"] == 0)
        beyond, _ = max(recorded["compiled_bytes"])
        allocator = recorded["allocator"]
        assert allocator["peak_bytes"] == before + beyond
        assert sum(peak(recorded).values()) + allocator["slack_bytes"] == pytest.approx(before + beyond, rel=0.01)
        assert allocator["slack_bytes"] < 0.05 * allocator["peak_bytes"]
        if len(recorded["compiled_bytes"]) == 1:
            assert before == recorded["compiled_bytes"][0][1]  # the arguments


@MODELS
def test_twice_the_batch_has_twice_the_feature_maps(memory, model):
    """In the whole step: XLA begins the backward pass before all of the forward pass is done."""
    one, two = (
        sum(b["bytes"] for b in recorded["buffers"] if b["category"] == "feature_maps")
        for recorded in memory[model]["batches"]
    )
    assert two == pytest.approx(2 * one, rel=0.05)


@MODELS
def test_nearly_every_weight_has_a_gradient(memory, model):
    """What XLA fuses with its use, as it does with some small gradients, has no buffer."""
    for recorded in memory[model]["batches"]:
        names = {buffer["name"] for buffer in recorded["buffers"] if buffer["category"] == "weight_gradients"}
        sizes = {b["name"]: b["bytes"] for b in recorded["buffers"] if b["category"] == "weights"}
        assert names <= set(sizes)
        assert sum(sizes[name] for name in names) > 0.9 * memory[model]["trained_bytes"]
