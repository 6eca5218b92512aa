"""What a3c makes of segments of play."""

import numpy
import pytest

from tbd import models
from tbd.models.a3c.specification import returns


def test_returns_are_discounted_sums_that_end_with_an_episode():
    rewards = numpy.array([[1, 0, 1], [0, 1, 0]], numpy.float32)
    ends = numpy.array([[False, False, False], [False, True, False]])
    after = numpy.array([10.0, 20.0], numpy.float32)
    first = [1 + 0.99**2 * (1 + 9.9), 0.99 * (1 + 9.9), 1 + 9.9]
    second = [0.99, 1, 0.99 * 20]
    assert returns(rewards, ends, after) == pytest.approx(numpy.array([first, second]), rel=1e-6)


def test_the_value_after_does_not_pass_the_end_of_the_episode_that_ends_last():
    assert returns(numpy.ones((1, 1)), numpy.ones((1, 1), bool), numpy.full(1, 50.0)).tolist() == [[1.0]]


def test_throughput_counts_the_games_frames():
    specification = models.create("a3c", {"size": "full"})
    arrays = specification.synthetic_batch(2, numpy.random.RandomState(0))
    assert specification.items(arrays) == {"frames": 2 * 5 * 4, "steps": 2 * 5}


def test_the_full_size_has_2_97_mmac_a_step():
    # 20 x 20 x 16 x 256, 9 x 9 x 32 x 256, 2592 x 256, 256 x 5
    specification = models.create("a3c", {"size": "full"})
    assert specification.macs({"actions": numpy.zeros((1, 1))}) == 1638400 + 663552 + 663552 + 1280


def test_synthetic_rewards_are_for_the_action_that_the_frames_show():
    specification = models.create("a3c", {"size": "full"})
    arrays = specification.synthetic_batch(20, numpy.random.RandomState(0))
    bands = arrays["frames"].reshape(20, 5, 4, 21, 84, 4).mean(axis=(3, 4, 5))
    right = arrays["actions"] == bands.argmax(2)
    assert (arrays["returns"] == right).all() and 0.4 < right.mean() < 0.85


@pytest.mark.parametrize("option, value", [("actions", 1), ("actions", 19), ("image_size", 19), ("t_max", 0)])
def test_options_that_no_game_has(option, value):
    with pytest.raises(ValueError, match=f"model.{option}={value} must be"):
        models.create("a3c", {"size": "full", option: value})
