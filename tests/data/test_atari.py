"""data=atari with the real emulator: real frames, turns in a fixed order, ends that are told."""

import hashlib
import json
import os
import subprocess

import numpy
import psutil
import pytest

from tbd import data, models
from tbd.data.atari import Emulators
from tbd.data.source import BadData
from tbd.launch import programs

ROWS, CREWS = 3, 2


@pytest.fixture(scope="session")
def program():
    """The options `python` and `program` of data=atari; TBD_TEST_PYTHON_ATARI names a ready interpreter."""
    options = {"name": "atari", "python": os.environ.get("TBD_TEST_PYTHON_ATARI"), "program": None}
    return programs.provide(options)


class Values:
    """A training whose network gives every state the value 2, and each action the same chance."""

    def __init__(self, actions=4):
        self.actions, self.seen = actions, []

    def outputs(self, arrays):
        self.seen.append(arrays["frames"].copy())
        rows = len(arrays["frames"])
        return {"policy": numpy.zeros((rows, self.actions), numpy.float32), "value": numpy.full(rows, 2, numpy.float32)}


@pytest.fixture
def opened(program):
    """A function: data=atari for a small a3c, connected; closed afterwards."""
    sources = []

    def open_source(seed=1, training=None, actions=4, **options):
        specification = models.create("a3c", {"size": "small", "actions": actions})
        request = {
            "seed": seed,
            "batch_size": ROWS,
            "rank": 0,
            "world_size": 1,
            "data": {**program, "game": "breakout", "actors_per_row": CREWS, "processes": 2, **options},
        }
        source = data.open_source(specification, request)
        sources.append(source)
        source.connect(training or Values(actions))
        return source

    yield open_source
    for source in sources:
        source.close()


def first(source, count):
    stream = source.batches()
    return [next(stream).arrays for _ in range(count)]


def digest(batches):
    sha = hashlib.sha256()
    for arrays in batches:
        for name in sorted(arrays):
            sha.update(arrays[name].tobytes())
    return sha.hexdigest()


def test_batches_are_segments_of_the_model(opened):
    source = opened()
    (batch,) = source.one_of_each_shape()
    shapes = {name: (array.shape, array.dtype.name) for name, array in batch.arrays.items()}
    assert shapes == {
        "frames": ((ROWS, 3, 36, 36, 4), "uint8"),
        "actions": ((ROWS, 3), "int32"),
        "returns": ((ROWS, 3), "float32"),
    }
    assert batch.items == {"frames": ROWS * 3 * 4, "steps": ROWS * 3}
    assert source.describe()["counts"] == {"actors": ROWS * CREWS, "actions": 4, "processes": 2}


def test_frames_are_a_moving_picture_with_its_own_past(opened):
    frames = numpy.concatenate([arrays["frames"] for arrays in first(opened(), 8)])
    newest = frames[..., 3]
    assert newest.std() > 20, "breakout: bricks and walls before black"
    assert (newest[:, 1:] != newest[:, :-1]).any(axis=(1, 2, 3)).any(), "something moves within a segment"
    assert len({picture.tobytes() for picture in newest.reshape(-1, 36, 36)}) > len(newest)
    followed = (frames[:, 1:, ..., :3] == frames[:, :-1, ..., 1:]).all(axis=(2, 3, 4))
    black = (frames[:, 1:, ..., :3] == 0).all(axis=(2, 3, 4))
    assert (followed | black).all(), "the earlier frames are those seen before, or none where an episode begins"
    assert followed.mean() > 0.8


def test_what_is_trained_on_is_what_the_network_saw(opened):
    training = Values()
    batches = first(opened(training=training), 3)
    seen = {rows.tobytes() for rows in training.seen}
    for arrays in batches:
        assert {arrays["frames"][:, step].tobytes() for step in range(3)} <= seen


def test_returns_are_discounted_from_the_value_of_the_state_after(opened):
    returns = first(opened(), 1)[0]["returns"]  # no reward so soon, and no lost life
    assert returns == pytest.approx(numpy.tile([2 * 0.99**3, 2 * 0.99**2, 2 * 0.99], (ROWS, 1)), rel=1e-6)


def test_actions_are_drawn_by_the_policy(opened):
    class Certain(Values):
        def outputs(self, arrays):
            found = super().outputs(arrays)
            found["policy"][:, 2] = 100.0
            return found

    even = numpy.concatenate([arrays["actions"] for arrays in first(opened(), 10)])
    assert set(even.ravel()) == {0, 1, 2, 3}
    certain = numpy.concatenate([arrays["actions"] for arrays in first(opened(training=Certain()), 3)])
    assert (certain == 2).all()


def test_the_stream_is_the_seeds_whatever_the_number_of_processes(opened):
    one, again = opened(processes=1), opened(processes=3)
    found = digest(first(one, 6))
    assert digest(first(again, 6)) == found
    assert digest(first(one, 6)) == found, "a second stream begins where the first did"
    assert digest(first(opened(seed=2), 6)) != found


def test_crews_take_turns_and_updates_come_evenly(opened):
    """With 2 crews and 3 steps the network is asked 3 times for each batch, on the average."""
    training = Values()
    source = opened(training=training)
    stream = source.batches()
    asked = []
    for _ in range(9):
        next(stream)
        asked.append(len(training.seen))
    assert [later - sooner for sooner, later in zip(asked[2:], asked[3:], strict=False)] == pytest.approx(
        [3] * 6, abs=1
    )


def test_the_wait_for_emulators_is_counted(opened):
    source = opened()
    assert source.emulator_s == 0.0
    first(source, 2)
    assert source.emulator_s > 0.0


def test_a_game_that_there_is_none_of(opened):
    with pytest.raises(BadData, match="data.game=brekout is no game of the emulator; near are breakout"):
        opened(game="brekout")


def test_a_game_with_another_number_of_actions(opened):
    with pytest.raises(BadData, match="data.game=pong has 6 actions, not model.actions=4: set model.actions=6"):
        opened(game="pong")
    opened(game="pong", actions=6)


def test_an_interpreter_without_the_emulator(opened, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 7\n")
    python.chmod(0o755)
    with pytest.raises(RuntimeError, match=r"an emulator of breakout died \(exit code 7\)"):
        opened(python=str(python))


def test_an_emulator_that_is_killed_is_told(opened):
    source = opened()
    stream = source.batches()
    next(stream)
    psutil.Process().children()[-1].kill()
    with pytest.raises(RuntimeError, match=r"an emulator of breakout died \(signal 9\)"):
        for _ in range(100):
            next(stream)


def test_emulators_end_with_the_source(opened):
    before = set(psutil.Process().children())
    source = opened()
    started = set(psutil.Process().children()) - before
    assert len(started) == 2
    source.close()
    assert not any(process.is_running() for process in started)


def test_a_lost_life_ends_the_episode_and_rewards_are_clipped(program):
    """Breakout without a will to catch the ball: a life is lost every 30 steps or so."""
    options = {**program, "game": "breakout", "processes": 1}
    emulators = Emulators(options, 84, 1, numpy.arange(4)[None])
    try:
        emulators.facts()
        emulators.restart()
        random = numpy.random.RandomState(0)
        ends, rewards = [], []
        for _ in range(150):
            ended, reward, frames = emulators.receive(0)
            ends.append(ended)
            rewards.append(reward)
            emulators.act(0, random.randint(0, 4, 4).astype(numpy.uint8))
        assert frames.shape == (4, 84, 84)
        assert (numpy.sum(ends, 0) >= 2).all()
        assert set(numpy.unique(rewards)) == {0, 1}
    finally:
        emulators.close()


def test_frames_are_averages_over_areas(program):
    script = (
        "import json, sys, numpy; sys.path.insert(0, sys.argv[1]); from play import area\n"
        "print(json.dumps([(area(12, 4) @ numpy.arange(12)).tolist(), (area(5, 2) @ numpy.arange(1, 6)).tolist()]))\n"
    )
    command = [program["python"], "-c", script, os.path.dirname(program["program"])]
    whole, parts = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert whole == pytest.approx([1, 4, 7, 10], rel=1e-6)
    assert parts == pytest.approx([(1 + 2 + 3 / 2) / 2.5, (3 / 2 + 4 + 5) / 2.5], rel=1e-6)


def test_an_interpreter_that_is_no_file():
    options = {"name": "atari", "game": "pong", "actors_per_row": 1, "processes": None, "python": "/nowhere/python"}
    with pytest.raises(ValueError, match="data.python=/nowhere/python is no file"):
        data.resolve({**options, "program": None}, "")
