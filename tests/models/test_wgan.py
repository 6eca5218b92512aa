"""What is wgan's own: its two networks, its penalty's gradient of second order, the biases that have no effect."""

import json
import pathlib
import subprocess

import numpy
import pytest

from tbd import models
from tests.parity import cells

WAYS = ("gradient_penalty", "weight_clipping")


@pytest.fixture(scope="module")
def facts():
    command = [cells.framework_python("pytorch"), str(pathlib.Path(__file__).with_name("wgan_facts.py"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(("part", "count"), [("generator", 8_540_483), ("critic", 7_491_841)])
def test_each_network_has_the_published_number_of_weights(part, count):
    parameters = models.create("wgan", {"size": "full"}).parameters
    assert sum(int(numpy.prod(p.shape)) for p in parameters if p.name.startswith(part)) == count


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("update", ["generator", "critic"])
def test_gradients_are_the_derivatives_of_the_losses(facts, way, update):
    by_gradient, by_difference = facts[way]["derivatives"][update]
    assert by_gradient == pytest.approx(by_difference, rel=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_frozen_biases_have_no_effect_and_the_others_have(facts, way):
    found = facts[way]
    assert found["without_effect"]["critic"] == pytest.approx(found["losses"]["critic"], rel=1e-10)
    for name, moved in found["with_effect"].items():
        assert abs(moved["critic"] - found["losses"]["critic"]) > 1e-6, name


def test_sizes_are_powers_of_two():
    with pytest.raises(ValueError, match="model.image_size=48 must be a power of 2: blocks halve it down to 4"):
        models.create("wgan", {"size": "small", "image_size": 48}).check(4)


def test_weights_follow_their_initialisers():
    weights = models.create("wgan", {"size": "full"}).initial_weights(1)
    kernel = weights["critic.blocks.1.conv2.weight"]
    assert kernel.std() == pytest.approx((4 / (9 * (128 + 256))) ** 0.5, rel=0.01)
    assert abs(kernel).max() <= (12 / (9 * (128 + 256))) ** 0.5
    assert weights["generator.blocks.1.shortcut.weight"].std() == pytest.approx((2 / (512 + 256)) ** 0.5, rel=0.01)
    assert weights["generator.input.weight"].std() == pytest.approx((2 / (128 + 8192)) ** 0.5, rel=0.01)


@pytest.mark.parametrize("way", WAYS)
def test_a_row_has_pictures_and_noise_of_its_own_for_each_update_of_the_critic(way):
    specification = models.create("wgan", {"size": "small", "lipschitz": way})
    pictures = numpy.random.RandomState(0).randint(0, 256, (10, 16, 16, 3)).astype(numpy.uint8)
    arrays = specification.batch_of((pictures,), None, [[1, 2, n] for n in range(10)])
    assert ("mixture" in arrays) == (way == "gradient_penalty")
    assert specification.items(arrays) == {"images": 10}
    seen = [specification.update_arrays(arrays, "critic", n) for n in range(5)]
    assert numpy.array_equal(numpy.concatenate([one["images"] for one in seen]), pictures)
    drawn = numpy.concatenate(
        [one["noise"] for one in seen] + [specification.update_arrays(arrays, "generator", 0)["noise"]]
    )
    assert drawn.shape == (12, 16) and len(numpy.unique(drawn)) == 12 * 16
