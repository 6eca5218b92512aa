"""MXNet's adapter, run in its own environment (mxnet_facts.py says what is run)."""

import gzip
import json
import math
import pathlib
import subprocess
import sys

import pytest

from tests.parity import cells

VERIFY = pathlib.Path(__file__).parents[2] / "entrypoints" / "frameworks" / "mxnet" / "verify.py"
SCRIPT = pathlib.Path(__file__).with_name("mxnet_facts.py")


def run(folder, *arguments):
    """(facts, what was written to stderr) of a pass."""
    command = [cells.framework_python("mxnet"), SCRIPT, folder, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def timing(tmp_path_factory):
    return run(tmp_path_factory.mktemp("mxnet"), "timing")


@pytest.fixture(scope="module", params=[network for network, framework in cells.CELLS if framework == "mxnet"])
def memory(request, tmp_path_factory):
    """The facts of a small network at 16 and at 32 rows, each in a process of its own, as a run has it."""
    folder = tmp_path_factory.mktemp("mxnet")
    network = cells.model_of(request.param), json.dumps(cells.options_of(request.param))
    return [run(folder, "memory", *network, rows)[0] for rows in (16, 32)]


def test_nothing_is_written_to_stderr(timing):
    assert timing[1] == ""


def test_each_loss_is_given_once(timing):
    first, second = timing[0]["losses"]
    assert len(first) == 4
    assert all(math.isfinite(loss) for loss in first)
    assert second == []


def test_each_shape_has_one_graph(timing):
    assert timing[0]["graphs"] == 2


def test_weights_are_given_back_as_they_were_given(timing):
    assert timing[0]["canonical"]


def test_the_device_has_a_name(timing):
    (device,) = timing[0]["devices"]
    assert device["kind"] == "cpu"
    assert device["name"]


def test_only_a_lack_of_memory_is_out_of_memory(timing):
    assert timing[0]["out_of_memory"]
    assert not timing[0]["other_error"]


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-6), ("float64", 1e-14)])
def test_the_optimizers_follow_the_specifications_formulas(timing, dtype, bound):
    assert max(timing[0]["optimizers"][dtype]) < bound


def test_the_trace_has_the_operators_one_after_the_other(tmp_path):
    run(tmp_path, "trace")
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    assert {event["ph"] for event in events} == {"X"}
    assert {event["cat"] for event in events} == {"cpu_op"}
    assert {"Convolution", "_backward_Convolution", "sgd_mom_update"} <= {event["name"] for event in events}
    assert all(0 <= event["pid"] < 2**53 and 0 <= event["tid"] < 2**53 for event in events)
    for tid in {event["tid"] for event in events}:
        of_thread = [event for event in events if event["tid"] == tid]
        for one, following in zip(of_thread, of_thread[1:], strict=False):
            assert 0 <= one["dur"] <= following["ts"] - one["ts"]


def total(recorded, category=None):
    return sum(b["bytes"] for b in recorded["buffers"] if category in (None, b["category"]))


def test_what_is_known_by_its_arrays_is_exact(memory):
    for facts in memory:
        recorded = facts["recorded"]
        assert total(recorded, "weights") == facts["weights_bytes"]
        assert total(recorded, "weight_gradients") >= facts["trained_bytes"]
        assert total(recorded, "optimizer_state") == facts["optimizer_state_bytes"]
        assert total(recorded, "input") == facts["input_bytes"]


def test_the_categories_sum_to_the_counters_peak(memory):
    for facts in memory:
        recorded = facts["recorded"]
        assert all(buffer["bytes"] >= 0 for buffer in recorded["buffers"])
        assert total(recorded) == pytest.approx(recorded["allocator"]["peak_bytes"], rel=0.01)


def test_twice_the_batch_has_twice_the_feature_maps(memory):
    one, two = (total(facts["recorded"], "feature_maps") for facts in memory)
    assert two == pytest.approx(2 * one, rel=0.05)


def test_the_feature_maps_are_released_with_the_graphs(memory):
    """What the counter loses with them is the batch, the feature maps and workspace, nothing else."""
    for facts in memory:
        found = {name: total(facts["recorded"], name) for name in ("input", "feature_maps", "workspace", "other")}
        assert found["feature_maps"] + found["input"] <= facts["graphs_bytes"] <= sum(found.values())


def verified(folder, module):
    """verify.py's end with these lines in place of MXNet."""
    (folder / "mxnet.py").write_text(module)
    variables = {"PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, VERIFY], env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("library", "package"), [("libquadmath.so.0", "libquadmath0"), ("libgomp.so.1", "libgomp1")])
def test_a_library_of_the_system_that_is_missing_is_named_with_its_package(tmp_path, library, package):
    cause = f"{library}: cannot open shared object file: No such file or directory"
    done = verified(tmp_path, f"raise OSError({cause!r})")
    assert done.returncode == 1
    assert done.stderr == f"MXNet needs the system's {library}: apt-get install {package}\n"


def test_any_other_failure_to_import_is_shown_as_it_is(tmp_path):
    done = verified(tmp_path, "raise OSError('libother.so.1: cannot open shared object file')")
    assert done.returncode == 1
    assert "libother.so.1: cannot open" in done.stderr
    assert "Traceback" in done.stderr


def test_the_version_is_printed(tmp_path):
    assert verified(tmp_path, "__version__ = '1.9.1'").stdout == "1.9.1\n"
