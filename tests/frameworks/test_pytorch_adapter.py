"""PyTorch's adapter on the CPU, in its own environment: pytorch_probe.py finds facts, these say what they must be."""

import collections
import gzip
import json
import pathlib
import subprocess

import numpy
import pytest

from tests.parity import cells

PROBE = pathlib.Path(__file__).parent / "pytorch_probe.py"


@pytest.fixture(scope="module", params=cells.models_in("pytorch"))
def facts(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    asked = cells.request(request.param, "pytorch", "fp32", str(folder), rows=16)
    (folder / "request.json").write_text(json.dumps(asked))
    command = [cells.framework_python("pytorch"), str(PROBE), str(folder / "request.json"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    with gzip.open(folder / "trace.json.gz", "rt") as file:
        trace = json.load(file)
    return dict(json.loads((folder / "facts.json").read_text()), trace=trace)


def bytes_by_category(memory):
    found = collections.Counter()
    for buffer in memory["buffers"]:
        found[buffer["category"]] += buffer["bytes"]
    return found


def tracked_peak(memory):
    changes = [(b["born"], b["bytes"]) for b in memory["buffers"]]
    changes += [(b["died"], -b["bytes"]) for b in memory["buffers"] if b["died"] is not None]
    return int(numpy.cumsum([size for _, size in sorted(changes)]).max())


def test_the_weights_are_the_canonical_ones(facts):
    assert facts["weights_kept"]


def test_weights_and_optimizer_state_have_the_specified_bytes(facts):
    found = bytes_by_category(facts["memory"])
    assert [found["weights"], found["optimizer_state"]] == facts["specified_bytes"]
    assert found["weight_gradients"] == facts["gradient_bytes"]


def test_the_buffers_account_for_the_allocators_peak(facts):
    peak = facts["memory"]["allocator"]["peak_bytes"]
    assert tracked_peak(facts["memory"]) == pytest.approx(peak, rel=0.01)


def test_the_phases_of_a_recorded_step_follow_each_other(facts):
    memory = facts["memory"]
    if facts["turns"] > 1:  # the phases of several updates are not told apart
        assert memory["phases"] == {}
        return
    forward, backward, update = (memory["phases"][name] for name in ("forward", "backward", "update"))
    assert memory["steps"][0] <= forward[0] < forward[1] == backward[0] < backward[1] == update[0] < update[1]
    assert update[1] == memory["steps"][1]


def test_twice_the_batch_has_twice_the_feature_maps(facts):
    one, two = (bytes_by_category(facts[name]) for name in ("memory", "memory_doubled"))
    assert two["feature_maps"] == pytest.approx(2 * one["feature_maps"], rel=0.05)
    assert two["weights"] == one["weights"]
    assert two["input"] == 2 * one["input"]


def test_a_trace_has_operators_that_nest(facts):
    operators = [event for event in facts["trace"]["traceEvents"] if event.get("cat") == "cpu_op"]
    assert operators
    for thread in {event["tid"] for event in operators}:
        open_until = []
        for event in sorted((e for e in operators if e["tid"] == thread), key=lambda e: (e["ts"], -e["dur"])):
            while open_until and open_until[-1] <= event["ts"]:
                open_until.pop()
            end = event["ts"] + event["dur"]
            assert not open_until or end <= open_until[-1] + 0.01  # microseconds: Kineto writes three decimals
            open_until.append(end)


def test_the_loss_falls(facts):
    losses = facts["losses"]
    assert numpy.mean(losses[-10:]) < numpy.mean(losses[:10])


def test_losses_are_given_once(facts):
    assert len(facts["losses"]) == 60
    assert facts["losses_again"] == []


def test_gradients_leave_the_weights_alone(facts):
    assert not facts["gradients_move_weights"]


def test_only_a_lack_of_memory_is_out_of_memory(facts):
    assert facts["out_of_memory"]
    assert not facts["other_error"]


def test_version_and_processor_are_known(facts):
    assert facts["version"][0].isdigit()
    assert [device["kind"] for device in facts["devices"]] == ["cpu"]
    assert facts["devices"][0]["name"]
