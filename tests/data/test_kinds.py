"""A model that no reader knows trains on the readers' samples: by its kind and its own specification alone."""

import itertools

import numpy
import pytest

from tbd import data
from tbd.data import kinds
from tbd.data.options import Option
from tbd.data.source import BadData
from tbd.models.specification import Specification
from tests.data.ranks import assert_together

PAD, UNKNOWN, END, BEGIN = range(4)


class Transformer(Specification):
    """Unlike seq2seq: one vocabulary, four special words, no reversal, batches counted in tokens, dropout."""

    name = "transformer"
    unit = "tokens"
    SIZES = {"small": {"vocabulary": 30}}
    OPTIONS = {"vocabulary": Option(int, 5)}
    takes = (kinds.SENTENCE_PAIRS,)

    def form(self, kind):
        return kinds.SentencePairs(*2 * [kinds.Vocabulary("vocabulary", self.options["vocabulary"], 4, UNKNOWN)])

    def shapes_of(self, samples, longest):
        return [(-(-len(source) // 4) * 4, -(-(len(target) + 1) // 4) * 4) for source, target in zip(*samples)]

    def rows(self, shape, batch_size):
        return batch_size // max(shape)

    def batch_of(self, samples, shape, seeds):
        batch = {"source": numpy.full((len(seeds), shape[0]), PAD), "target": numpy.full((len(seeds), shape[1]), PAD)}
        for row, (source, target) in enumerate(zip(*samples)):
            batch["source"][row, : len(source)] = source
            batch["target"][row, : len(target) + 1] = list(target) + [END]
        batch["dropout"] = numpy.array([numpy.random.RandomState(seed).uniform(size=3) for seed in seeds])
        return batch

    def items(self, arrays):
        return {"tokens": int((arrays["target"] != PAD).sum()), "sentences": len(arrays["target"])}

    def flops(self, arrays):
        return int((arrays["source"] != PAD).sum()) + int((arrays["target"] != PAD).sum())


ENGLISH = ["the cat sees 1", "the dog sleeps", "a cat", "the bird sings a very long song again", "it </s> 2"]
GERMAN = ["die cat 1", "der Hund schläft", "1 1", "der Vogel singt ein langes Lied", "es 2"]


@pytest.fixture
def open_text(tmp_path, request_of):
    for name, lines in (("train.en", ENGLISH), ("train.de", GERMAN)):
        tmp_path.joinpath(name).write_bytes("".join(line + "\n" for line in lines).encode("utf-8"))

    def open_text(batch_size, **options):
        ranks = {key: options.pop(key) for key in ("rank", "world_size") if key in options}
        text = {"root": str(tmp_path), "split": "train", "source": "en", "target": "de", "max_length": 50}
        request = request_of("iwslt15", batch_size=batch_size, **dict(text, **ranks))
        return data.open_source(Transformer("small", **options), request)

    return open_text


def take(source, count):
    found = list(itertools.islice(source.batches(), count))
    source.close()
    return found


def test_sources_serve_by_kind():
    serving = [name for name in data.names() if data.serves(name, Transformer("small"))]
    assert serving == ["gettext", "iwslt15", "synthetic"]


def test_one_vocabulary_serves_both_languages_after_the_models_own_special_words(open_text):
    (batch,) = (b for b in open_text(16).one_of_each_shape() if b.arrays["source"].shape == (2, 8))
    # in both languages together: 1 four times, cat and the thrice, 2, a and der twice
    assert batch.arrays["source"][0, [0, 3]].tolist() == [6, 8]  # the ... a, in reading order
    assert batch.arrays["target"][0, [0, 6, 7]].tolist() == [9, END, PAD]  # der ...


def test_special_words_of_the_text_are_the_models_unknown_word(open_text):
    rows = [row for batch in open_text(40).one_of_each_shape() for row in batch.arrays["source"].tolist()]
    (row,) = {tuple(row) for row in rows if UNKNOWN in row}
    assert row[1] == UNKNOWN and row[2] == 7 and row[3] == PAD


def test_a_published_vocabulary_is_numbered_after_the_models_special_words(tmp_path, open_text):
    tmp_path.joinpath("vocab.en-de").write_bytes("<unk>\n<s>\n</s>\nthe\nder\n".encode("utf-8"))
    ids = {int(i) for batch in open_text(40).one_of_each_shape() for i in batch.arrays["source"].ravel()}
    assert ids == {PAD, UNKNOWN, 4}
    with pytest.raises(BadData, match="vocab.en-de has 6 words but the model has room for 5: set model.vocabulary=6"):
        open_text(40, vocabulary=5)


def test_a_batch_has_as_many_rows_as_its_shape_says(open_text):
    for batch in take(open_text(16), 20):
        rows, source = batch.arrays["source"].shape
        assert rows == 16 // max(source, batch.arrays["target"].shape[1])


def test_ranks_together_see_the_batches_of_one_process_what_is_random_in_them_included(open_text):
    one = take(open_text(48), 20)
    assert_together(one, [take(open_text(16, rank=rank, world_size=3), 20) for rank in range(3)])
    assert len({batch.arrays["dropout"].tobytes() for batch in one}) == 20


def test_a_batch_too_small_for_the_longest_pair_is_refused_before_training(open_text):
    with pytest.raises(BadData, match="a batch of 0 rows is too few for 1 ranks: raise batch_size"):
        open_text(7)
