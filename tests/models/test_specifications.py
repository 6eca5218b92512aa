import collections

import numpy
import pytest

from tbd import models
from tbd.models.specification import learning_rate_at, parameter, sgd
from tests.frameworks.twofold import SIZE, Twofold
from tests.models import known

CASES = [(model, "small") for model in models.names()]


def batch(specification, rows, seed=0):
    return specification.synthetic_batch(known.batch_size(specification, rows), numpy.random.RandomState(seed))


@pytest.mark.parametrize("model", models.names())
def test_parameter_counts_of_the_full_size(model):
    assert models.create(model, {"size": "full"}).parameter_count() == known.of(model).PARAMETERS


def test_resnet50_has_4_09_gmac_an_image():
    specification = models.create("resnet50", {"size": "full"})
    arrays = {"labels": numpy.zeros(1)}
    assert round(specification.macs(arrays) / 1e9, 2) == 4.09
    assert round(specification.flops(arrays) / 1e9, 2) == 24.30


def test_deep_speech2_begins_as_pytorch_does():
    weights = models.create("deep_speech2", {"size": "small", "width": 400}).initial_weights(1)
    assert 0.049 < abs(weights["recurrent.1.backward.hidden"]).max() <= 0.05  # 1 / sqrt(400)
    assert 0.047 < abs(weights["conv1.weight"]).max() <= (11 * 41) ** -0.5
    assert (weights["recurrent.0.forward.bias"] == 0).all()
    assert (weights["bn2.weight"] == 1).all()


def test_deep_speech2_has_0_27_gmac_for_every_20_ms():
    specification = models.create("deep_speech2", {"size": "full"})
    assert specification.macs({"frame_length": numpy.array([2, 99, 100])}) == (1 + 50 + 50) * (1_168_992 + 265_216_864)


@pytest.mark.parametrize(("model", "size"), CASES)
def test_weights_of_a_seed_are_always_the_same(model, size):
    first, second, other = (models.create(model, {"size": size}).initial_weights(seed) for seed in (1, 1, 2))
    assert all(numpy.array_equal(first[name], second[name]) for name in first)
    assert any(not numpy.array_equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize(("model", "size"), CASES)
def test_weights_do_not_depend_on_the_order_of_the_parameters(model, size):
    specification = models.create(model, {"size": size})
    reordered = type("Reordered", (type(specification),), {"parameters": specification.parameters[::-1]})(size)
    expected, found = specification.initial_weights(3), reordered.initial_weights(3)
    assert list(found) == list(expected)[::-1]
    assert all(numpy.array_equal(found[name], expected[name]) for name in expected)


def test_weights_follow_their_initialisers():
    weights = models.create("resnet50", {"size": "full"}).initial_weights(1)
    kernel = weights["layer3.0.conv2.weight"]
    assert kernel.dtype == numpy.float32
    assert kernel.std() == pytest.approx((2 / (9 * 256)) ** 0.5, rel=0.01)
    assert (weights["bn1.weight"] == 1).all()
    assert (weights["fc.bias"] == 0).all()
    embedding = models.create("seq2seq", {"size": "small"}).initial_weights(1)["encoder.embedding"]
    assert 0.09 < abs(embedding).max() <= 0.1


@pytest.mark.parametrize(("model", "size"), CASES)
def test_synthetic_batches_are_deterministic(model, size):
    specification = models.create(model, {"size": size})
    first, second, other = batch(specification, 4), batch(specification, 4), batch(specification, 4, seed=1)
    assert all(numpy.array_equal(first[name], second[name]) for name in first)
    assert any(not numpy.array_equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("model", models.names())
def test_the_unit_is_the_first_of_the_items(model):
    specification = models.create(model, {"size": "small"})
    assert next(iter(specification.items(batch(specification, 4)))) == specification.unit


def test_tokens_are_counted_without_padding():
    specification = models.create("seq2seq", {"size": "small"})
    arrays = batch(specification, 5)
    assert specification.items(arrays) == collections.OrderedDict(
        tokens=int(arrays["target_length"].sum()), sentences=5
    )
    assert specification.items(arrays)["tokens"] < arrays["target_input"].size


def test_audio_is_counted_in_seconds_without_padding():
    specification = models.create("deep_speech2", {"size": "small"})
    arrays = batch(specification, 5)
    assert specification.items(arrays) == collections.OrderedDict(
        audio_seconds=arrays["frame_length"].sum() / 100, utterances=5
    )


def test_an_utterance_belongs_to_the_bucket_in_which_frames_and_characters_have_room():
    specification = models.create("deep_speech2", {"size": "small"})
    frames = [1600, 1599, 201, 200, 1, 100, 100, 3, 4, 1601]
    labels = [[1], [1], [1], [1], [1], [1, 2] * 25, [1, 2] * 26, [1, 1], [1, 2], [1]]
    labels = [numpy.array(label) for label in labels]
    shapes = specification.shapes_of((frames, labels), 1600)
    # 50 characters in 50 steps go by CTC, 52 don't, nor do two that are the same in two; 1601 frames are too many
    assert shapes == [1600, 1600, 400, 200, 200, 200, None, None, 200, None]
    assert specification.shapes_of(([150], [numpy.arange(60)]), 1600) == [
        400
    ]  # 60 characters need the room of 240 frames


def test_synthetic_utterances_can_be_aligned():
    specification = models.create("deep_speech2", {"size": "small", "synthetic_length": 24})
    arrays = batch(specification, 200)
    labels = [row[:n] for row, n in zip(arrays["labels"], arrays["label_length"])]
    assert None not in specification.shapes_of((arrays["frame_length"], labels), 24)
    assert arrays["label_length"].min() >= 1


def test_the_source_is_reversed_and_the_target_begins_and_ends():
    from tbd.models.seq2seq.specification import BEGIN, END, batch_of

    arrays = batch_of([numpy.array([5, 6, 7])], [numpy.array([8, 9])], source_size=4, target_size=4)
    assert arrays["source"].tolist() == [[7, 6, 5, END]]
    assert arrays["target_input"].tolist() == [[BEGIN, 8, 9, END]]
    assert arrays["target_output"].tolist() == [[8, 9, END, END]]
    assert (arrays["source_length"].tolist(), arrays["target_length"].tolist()) == ([3], [3])


@pytest.mark.parametrize(("model", "size"), CASES)
def test_an_unknown_size_or_option_is_refused_by_name(model, size):
    with pytest.raises(ValueError, match="model.size=huge is not one of full, small"):
        models.create(model, {"size": "huge"})
    with pytest.raises(ValueError, match="has no option colour"):
        models.create(model, {"size": size, "colour": "red"})


@pytest.mark.parametrize(("model", "size"), CASES)
def test_without_padding_all_work_is_of_use(model, size):
    specification = models.create(model, {"size": size})
    arrays = known.full(specification, batch(specification, 4))
    assert specification.work(arrays) == specification.flops(arrays)


@pytest.mark.parametrize("model", [model for model in models.names() if known.has_padding(model)])
def test_padding_is_work_but_of_no_use(model):
    specification = models.create(model, {"size": "small"})
    arrays = batch(specification, 4)
    padded, full = arrays, known.full(specification, arrays)
    assert specification.work(padded) == specification.work(full)
    assert specification.flops(padded) < specification.flops(full)
    assert specification.macs(padded) < specification.macs(full)
    unit = specification.unit
    if unit != "images":  # those are counted whole
        assert specification.items(padded)[unit] < specification.items(full)[unit]


@pytest.mark.parametrize(("model", "size"), CASES)
def test_the_updates_train_every_weight_and_nothing_else(model, size):
    specification = models.create(model, {"size": size})
    trained = {name for update in specification.updates(4) for name in update.parameters}
    assert trained == {p.name for p in specification.parameters if p.role == "weight"}


def test_by_default_a_step_is_one_update():
    specification = models.create("resnet50", {"size": "small"})
    (update,) = specification.updates(256)
    assert (update.repeat, update.optimizer) == (1, specification.optimizer(256))
    arrays = batch(specification, 2)
    assert specification.update_arrays(arrays, update.name, 0) is arrays


def test_frozen_weights_are_weights_and_statistics_are_not():
    specification = Twofold("small")
    assert specification.parameter_count() == 3 * SIZE  # first, second and the frozen scale
    assert specification.weights_bytes(4) == 12 * SIZE


def test_the_optimizers_state_is_that_of_all_updates():
    # a momentum for `first`, two moments for `second`
    assert Twofold("small").optimizer_state_bytes(8) == (1 + 2) * 8 * SIZE


def test_a_learning_rate_is_a_number_or_a_function_of_the_step():
    assert [learning_rate_at(sgd(0.5), step) for step in (0, 1)] == [0.5, 0.5]
    assert [learning_rate_at(sgd(lambda step: 1 / (1 + step)), step) for step in (0, 1)] == [1.0, 0.5]


def test_an_unknown_role_is_refused_by_name():
    with pytest.raises(ValueError, match="w has the role moving, which is not one of weight, frozen, statistic"):
        parameter("w", (1,), "vector", ("constant", 0.0), role="moving")
