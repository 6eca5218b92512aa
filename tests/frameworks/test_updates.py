"""A step of several updates with schedules, frozen weights and statistics, in every framework, against numpy."""

import json
import os
import pathlib
import subprocess

import pytest

from tbd import frameworks
from tests.frameworks import twofold
from tests.parity import cells

SCRIPT = pathlib.Path(__file__).with_name("twofold_facts.py")


COMPILED = [(name, compiler) for name in frameworks.names() for compiler in frameworks.facts(name).COMPILE[1:]]


def run(framework, *arguments, **variables):
    command = [cells.framework_python(framework), str(SCRIPT), framework, *arguments]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)


def facts(framework, *arguments):
    done = run(framework, *arguments)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=frameworks.names())
def timings(request):
    return facts(request.param, "timing")


@pytest.fixture(scope="module", params=frameworks.names())
def memories(request):
    return facts(request.param, "memory")


WITH_FP16 = [name for name in frameworks.names() if "fp16" in frameworks.facts(name).PRECISIONS["cpu"]]


@pytest.fixture(scope="module", params=WITH_FP16)
def scalings(request):
    return facts(request.param, "scaling")


@pytest.fixture(params=twofold.RULES)
def scaling(request, scalings):
    return scalings[request.param]


@pytest.fixture(params=twofold.RULES)
def timing(request, timings):
    return timings[request.param]


@pytest.fixture(params=twofold.RULES)
def memory(request, memories):
    return dict(memories[request.param], rule=request.param)


def close(right):
    return pytest.approx(right, rel=1e-12)


def test_each_update_has_the_gradients_of_its_own_parameters(timing):
    assert set(timing["gradients"]) == {"first", "second"}
    for update, (loss, found) in timing["gradients"].items():
        right_loss, right = timing["right_gradients"][update]
        assert loss == close(right_loss)
        assert list(found) == list(right) == [update]
        assert found[update] == close(right[update])


def test_gradients_move_no_weight(timing):
    assert timing["moved_by_gradients"] == []


def test_a_step_has_one_loss_that_of_its_last_update(timing):
    assert timing["losses"] == close(timing["right_losses"])


@pytest.mark.parametrize("name", ["first", "second", "scale", "seen"])
def test_updates_repeat_in_order_with_the_learning_rate_of_the_step(timing, name):
    assert timing["weights"][name] == close(timing["right_weights"][name])


def test_a_learning_rate_that_changes_makes_no_new_graph(timing):
    assert set(timing["graphs"]) <= {1}


def test_the_losses_from_before_the_memory_pass_stay_readable(memory):
    assert len(memory["losses"]) >= 2
    assert memory["losses_again"] == []


def bytes_of(memory, category):
    return sum(b["bytes"] for b in memory["memory"]["buffers"] if b["category"] == category and b["born"] == 0)


def test_frozen_weights_are_weights_without_optimizer_state(memory):
    assert bytes_of(memory, "weights") == memory["weights_bytes"] == 3 * twofold.SIZE * 8
    arrays = 1 + {"adam": 2, "rmsprop": 1, "rmsprop_momentum": 2, "clip_weights": 1}[memory["rule"]]
    assert bytes_of(memory, "optimizer_state") == memory["optimizer_state_bytes"] == arrays * twofold.SIZE * 8


def test_the_input_of_all_updates_is_counted_once(memory):
    assert bytes_of(memory, "input") == memory["input_bytes"]


def test_phases_of_several_updates_are_not_told_apart(memory):
    assert memory["memory"]["phases"] == {}


def test_an_update_whose_gradients_are_not_finite_is_left_out_and_told(scaling):
    assert scaling["moved"] == []
    assert scaling["skipped"] == [twofold.REPEAT + 1, 0, 0], "each of its updates"


def test_what_follows_is_as_if_it_had_not_been(scaling):
    after, without = scaling["weights"]
    for name, right in without.items():
        assert after[name] == pytest.approx(right, rel=1e-5)
    assert scaling["losses"][0] == pytest.approx(scaling["losses"][1], rel=1e-5)


@pytest.mark.parametrize(("framework", "compiler"), COMPILED)
def test_compiled_it_trains_the_same(framework, compiler):
    found = facts(framework, "timing", compiler)["adam"]
    assert found["losses"] == pytest.approx(found["right_losses"], rel=1e-9)
    for name in ("first", "second"):
        assert found["weights"][name] == pytest.approx(found["right_weights"][name], rel=1e-9)
        assert found["gradients"][name][1][name] == pytest.approx(found["right_gradients"][name][1][name], rel=1e-9)


def test_inductor_without_a_compiler_says_what_to_install():
    done = run("pytorch", "timing", "inductor", CXX="/nowhere/g++")
    assert "compile=inductor compiles with g++" in done.stderr and "CXX=/nowhere/g++ is not here" in done.stderr
