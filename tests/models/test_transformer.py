"""The Transformer's specification, and its batches from the readers of sentence pairs."""

import itertools

import numpy
import pytest

from tbd import data, models
from tbd.data.source import BadData
from tbd.models.specification import learning_rate_at
from tbd.models.transformer.specification import BEGIN, END, PAD, SPECIAL, UNKNOWN, batch_of
from tests.data.test_gettext import GREETINGS, write_catalogue

ENGLISH = ["the cat sees the dog", "the dog sleeps", "a cat", "the bird sings a very long song again and again"]
VIETNAMESE = ["con mèo thấy con chó", "con chó ngủ", "một con mèo", "con chim hát"]


@pytest.fixture
def full():
    return models.create("transformer", {"size": "full"})


@pytest.fixture
def small():
    return models.create("transformer", {"size": "small"})


def request(batch_size=64, **options):
    return {"seed": 1, "rank": 0, "world_size": 1, "batch_size": batch_size, "data": options}


def take(source, count):
    found = list(itertools.islice(source.batches(), count))
    source.close()
    return found


@pytest.fixture
def open_text(small, tmp_path):
    for name, lines in (("train.en", ENGLISH), ("train.vi", VIETNAMESE)):
        tmp_path.joinpath(name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")

    def open_text(batch_size=64, max_length=50):
        text = {"root": str(tmp_path), "split": "train", "source": "en", "target": "vi", "max_length": max_length}
        return data.open_source(small, request(batch_size, name="iwslt15", **text))

    return open_text


def test_the_learning_rate_rises_to_the_warm_ups_end_and_falls_with_the_root(full):
    optimizer = full.optimizer(4096)
    rates = [learning_rate_at(optimizer, step) for step in (0, 1, 7999, 15999, 63999)]
    assert rates[0] == pytest.approx(2 * 512**-0.5 * 16000**-1.5)
    assert rates[1] == pytest.approx(2 * rates[0])
    assert rates[3] == pytest.approx(2 * 512**-0.5 / 16000**0.5)
    assert [rates[2], rates[4]] == pytest.approx([rates[3] / 2] * 2)
    assert (optimizer.beta1, optimizer.beta2, optimizer.epsilon) == (0.9, 0.98, 1e-9)


def test_positions_are_the_papers(full):
    table = full.positions(64)
    assert table.shape == (64, 512)
    assert table[0].tolist() == [0.0, 1.0] * 256
    assert table[63, [0, 1, 510, 511]] == pytest.approx(
        [numpy.sin(63), numpy.cos(63), numpy.sin(63 / 10000 ** (510 / 512)), numpy.cos(63 / 10000 ** (510 / 512))]
    )


def test_weights_follow_tensor2tensors_initialisers(full):
    weights = full.initial_weights(1)
    assert weights["embedding.weight"].std() == pytest.approx(512**-0.5, rel=0.01)
    # each of the joined products by its own fans
    assert abs(weights["encoder.0.attention.qkv.weight"]).max() == pytest.approx((6 / 1024) ** 0.5, rel=1e-3)
    assert abs(weights["decoder.5.feedforward.outer.weight"]).max() == pytest.approx((6 / 2560) ** 0.5, rel=1e-3)
    assert (weights["decoder.norm.weight"] == 1).all() and (weights["encoder.2.feedforward.inner.bias"] == 0).all()


def test_both_sides_end_and_the_targets_input_begins():
    arrays = batch_of([numpy.array([5, 6, 7])], [numpy.array([8, 9])], 8)
    assert arrays["source"].tolist() == [[5, 6, 7, END, PAD, PAD, PAD, PAD]]
    assert arrays["target_input"].tolist() == [[BEGIN, 8, 9, PAD, PAD, PAD, PAD, PAD]]
    assert arrays["target_output"].tolist() == [[8, 9, END, PAD, PAD, PAD, PAD, PAD]]
    assert (arrays["source_length"].tolist(), arrays["target_length"].tolist()) == ([4], [3])


def test_tokens_are_the_targets_real_ones(small):
    arrays = small.synthetic_batch(64, numpy.random.RandomState(0))
    tokens = int((arrays["target_output"] != PAD).sum())
    assert small.items(arrays) == {"tokens": tokens, "sentences": 8}
    assert tokens < arrays["target_output"].size == 64


@pytest.mark.parametrize("longest", [1, 7, 8, 50, 100, 256, 1000])
def test_shapes_are_few_hold_their_pairs_and_are_multiples_of_8(small, longest):
    lengths = range(1, longest + 1)
    pairs = [numpy.zeros(n) for n in lengths], [numpy.zeros(1)] * longest
    shapes = small.shapes_of(pairs, longest)
    assert len(set(shapes)) <= 12
    assert all(shape % 8 == 0 and shape >= length + 1 for shape, length in zip(shapes, lengths))
    assert small.shapes_of(pairs[::-1], longest) == shapes


def test_a_batch_has_as_many_pairs_as_its_tokens_make(open_text):
    for batch in take(open_text(batch_size=64), 8):
        rows, length = batch.arrays["source"].shape
        assert length in (8, 16)
        assert rows == 64 // length
        assert batch.items["sentences"] == rows


def test_a_batch_too_small_for_the_longest_pair_is_refused(open_text):
    with pytest.raises(BadData, match="a batch of 0 rows is too few for 1 ranks: raise batch_size"):
        open_text(batch_size=15)


def test_one_vocabulary_serves_both_languages_of_parallel_text(open_text):
    source = open_text()
    counts = source.describe()["counts"]
    assert counts["source_vocabulary"] == counts["target_vocabulary"]
    # the and con come four and five times: the first two ids of all
    ids = {int(i) for b in source.one_of_each_shape() for i in b.arrays["source"].ravel()}
    targets = {int(i) for b in source.one_of_each_shape() for i in b.arrays["target_output"].ravel()}
    assert SPECIAL + 1 in ids and SPECIAL in targets and SPECIAL not in ids
    assert max(ids | targets) < 60 and BEGIN not in ids | targets and UNKNOWN not in ids | targets


def test_it_trains_on_gettexts_sentences(small, tmp_path):
    path = write_catalogue(tmp_path, GREETINGS)
    options = {"name": "gettext", "language": "vi", "catalogues": [path], "root": str(tmp_path / "cache")}
    (batch,) = data.open_source(small, request(32, max_length=50, **options)).one_of_each_shape()
    assert batch.arrays["source"].shape == (4, 8)
    assert batch.items["tokens"] == int(batch.arrays["target_length"].sum())


def test_heads_that_do_not_divide_the_width_are_refused():
    for options in ({"heads": 3}, {"width": 15, "heads": 3}):
        with pytest.raises(ValueError, match="model.width=1[56] must be even, and a multiple of model.heads=3"):
            models.create("transformer", dict(options, size="small")).check(64)
