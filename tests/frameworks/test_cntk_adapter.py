"""CNTK's adapter, run in its own environment (cntk_facts.py says what is run)."""

import gzip
import importlib.util
import json
import math
import os
import pathlib
import subprocess

import pytest

from tbd.launch.variables import WAITING
from tests.parity import cells

VERIFY = pathlib.Path(__file__).parents[2] / "entrypoints" / "frameworks" / "cntk" / "verify.py"
SCRIPT = pathlib.Path(__file__).with_name("cntk_facts.py")
THREADS = 2  # as in cntk_facts.py
# of the smaller batch; a transformer's rows are short: of 16 the feature maps lie in buffers that weight gradients need
ROWS = {"transformer": 64}


def run(folder, *arguments):
    """(facts, what was written to stderr) of a pass."""
    command = [cells.framework_python("cntk"), SCRIPT, folder, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ, **WAITING))
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def timing(tmp_path_factory):
    return run(tmp_path_factory.mktemp("cntk"), "timing")


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """(facts, {by what the update is made: the trace's events})."""
    folder = tmp_path_factory.mktemp("cntk")
    facts, _ = run(folder, "trace")
    found = {}
    for kind in ("own", "network"):
        with gzip.open(folder / f"{kind}.json.gz", "rt") as file:
            found[kind] = json.load(file)["traceEvents"]
    return facts, found


@pytest.fixture(scope="module", params=[network for network, framework in cells.CELLS if framework == "cntk"])
def memory(request, tmp_path_factory):
    """The facts of a small network at 16 rows, or ROWS, and at twice as many, each in a process as a run has it."""
    folder = tmp_path_factory.mktemp("cntk")
    model = cells.model_of(request.param)
    network, rows = (model, json.dumps(cells.options_of(request.param))), ROWS.get(model, 16)
    return [run(folder, "memory", *network, n)[0] for n in (rows, 2 * rows)]


def test_nothing_is_written_to_stderr(timing):
    assert timing[1] == ""


def test_each_loss_is_given_once(timing):
    first, second = timing[0]["losses"]
    assert len(first) == 4
    assert all(math.isfinite(loss) for loss in first)
    assert second == []


def test_each_shape_has_one_network(timing):
    assert timing[0]["graphs"] == 2


def test_weights_are_given_back_as_they_were_given(timing):
    assert timing[0]["canonical"]


def test_the_device_has_a_name(timing):
    (device,) = timing[0]["devices"]
    assert device["kind"] == "cpu"
    assert device["name"]


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-6), ("float64", 1e-14)])
def test_the_optimizers_follow_the_specifications_formulas(timing, dtype, bound):
    assert max(timing[0]["optimizers"][dtype]) < bound


def test_the_learners_matrices_share_memory(timing):
    assert timing[0]["shared_by_learner"] > 10


def test_as_many_threads_compute_as_are_asked_for(timing):
    assert timing[0]["computing_threads"] == THREADS


def test_only_a_lack_of_memory_is_out_of_memory(traced):
    assert traced[0]["out_of_memory"]
    assert not traced[0]["other_error"]


@pytest.mark.parametrize("kind", ["own", "network"])
def test_the_trace_has_operators_one_after_the_other(traced, kind):
    events = traced[1][kind]
    assert {event["ph"] for event in events} == {"X"}
    operators = [event for event in events if event["cat"] == "cpu_op"]
    assert {event["args"]["phase"] for event in operators} == {"forward", "backward", "update"}
    for one, following in zip(operators, operators[1:], strict=False):
        assert 0 <= one["dur"] <= following["ts"] - one["ts"]


def test_the_update_is_its_operators_or_one_for_all_that_cntks_own_learner_does(traced):
    own, network = (
        {e["name"] for e in traced[1][kind] if e["args"]["phase"] == "update"} for kind in ("own", "network")
    )
    assert own == {"WeightUpdate"}
    assert {"AssignForward", "ElementTimesForward"} <= network
    assert not [name for name in network if name.endswith("Backward")]


def test_the_marks_of_a_step_and_its_parts_are_no_operators(traced):
    for events in traced[1].values():
        marks = {event["name"] for event in events if event["cat"] != "cpu_op"}
        assert marks == {"_Minibatch Iteration", "__Forward + Backward", "__Weight Update"}


def total(recorded, category=None):
    return sum(b["bytes"] for b in recorded["buffers"] if category in (None, b["category"]))


def test_what_is_known_by_its_arrays_is_exact(memory):
    for facts in memory:
        recorded = facts["recorded"]
        assert total(recorded, "weights") == facts["weights_bytes"]
        assert total(recorded, "optimizer_state") == facts["optimizer_state_bytes"]
        assert total(recorded, "input") == facts["input_bytes"]


def test_weight_gradients_are_what_the_network_keeps_and_the_copies_of_a_learner_that_has_some(memory):
    for facts in memory:
        found = total(facts["recorded"], "weight_gradients")
        assert facts["trained_bytes"] <= found <= 2.2 * facts["trained_bytes"]


def test_the_categories_sum_to_the_peak(memory):
    for facts in memory:
        recorded = facts["recorded"]
        assert all(buffer["bytes"] > 0 for buffer in recorded["buffers"])
        assert total(recorded) == recorded["allocator"]["peak_bytes"]


def test_the_plan_is_no_more_than_what_the_process_takes(memory):
    """So that there is a rest beyond the plan, the workspace that it doesn't list."""
    for facts in memory:
        assert any(buffer["name"] == "not in CNTK's plan" for buffer in facts["recorded"]["buffers"])


def test_twice_the_batch_has_twice_the_feature_maps(memory):
    one, two = (total(facts["recorded"], "feature_maps") for facts in memory)
    assert two == pytest.approx(2 * one, rel=0.05)


@pytest.fixture(scope="module")
def resident(tmp_path_factory):
    """The facts of resnet50 where matrices share memory and where they don't."""
    return [run(tmp_path_factory.mktemp("cntk"), "resident", sharing)[0] for sharing in ("on", "off")]


def test_what_is_recorded_beside_the_baseline_is_the_peak_of_the_process(resident):
    for facts in resident:
        recorded = facts["baseline"] + facts["libraries"] + facts["recorded"]["allocator"]["peak_bytes"]
        assert recorded == pytest.approx(facts["peak"], rel=0.03)


def test_without_sharing_the_plan_and_the_process_grow_alike(resident):
    """The process by what it keeps: beside that its peak has what malloc has free in between, 10 MB without sharing."""
    planned, taken = (
        off - on
        for on, off in (
            [planned_bytes(facts["recorded"]) for facts in resident],
            [facts["kept"] - facts["baseline"] for facts in resident],
        )
    )
    assert planned > 0.5 * planned_bytes(resident[0]["recorded"])
    assert planned == pytest.approx(taken, rel=0.02)


def planned_bytes(recorded):
    """Of the buffers that CNTK's plan has."""
    return sum(b["bytes"] for b in recorded["buffers"] if b["born"] and b["name"] != "not in CNTK's plan")


@pytest.fixture
def verify():
    """The module entrypoints/frameworks/cntk/verify.py."""
    spec = importlib.util.spec_from_file_location("cntk_verify", VERIFY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_openmpi_gets_the_names_that_cntk_asks_for(verify, monkeypatch, tmp_path):
    new = {name: f"/lib/{name}.30" for name in verify.LIBRARIES.values()}
    monkeypatch.setattr(verify, "path_of", new.get)
    (tmp_path / "libmpi.so.12").symlink_to("/removed")
    verify.link(tmp_path)
    assert {path.name: str(path.readlink()) for path in tmp_path.iterdir()} == {
        "libmpi.so.12": "/lib/libmpi.so.40.30",
        "libmpi_cxx.so.1": "/lib/libmpi_cxx.so.40.30",
    }


def test_where_the_system_has_the_names_nothing_is_linked(verify, monkeypatch, tmp_path):
    monkeypatch.setattr(verify, "path_of", lambda library: "/usr/lib/" + library)
    verify.link(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_without_openmpi_its_package_is_named_in_one_line(verify, monkeypatch, tmp_path):
    monkeypatch.setattr(verify, "path_of", lambda library: None)
    with pytest.raises(SystemExit) as stopped:
        verify.link(tmp_path)
    assert "libmpi.so.40" in stopped.value.code and "apt-get install libopenmpi3" in stopped.value.code
    assert "\n" not in stopped.value.code


def test_a_library_that_is_here_is_found_by_its_path(verify):
    assert pathlib.Path(verify.path_of("libc.so.6")).is_absolute()
    assert verify.path_of("libnowhere.so.1") is None
