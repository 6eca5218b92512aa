"""Parallel text: what a batch holds, what an epoch holds, and what is wrong with files."""

import collections
import hashlib
import itertools
import re

import numpy
import pytest

from tbd import data
from tbd.data.source import BadData
from tests.data.ranks import assert_together

ENGLISH = ["the cat sees the dog", "the dog sleeps", "a cat", "the bird sings a song"]
VIETNAMESE = ["con mèo thấy con chó", "con chó ngủ", "một con mèo", "con chim hát một bài"]


def write(folder, name, lines):
    folder.joinpath(name).write_bytes("".join(line + "\n" for line in lines).encode())


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "train.en", ENGLISH)
    write(tmp_path, "train.vi", VIETNAMESE)
    return tmp_path


@pytest.fixture
def many(tmp_path):
    """23 pairs of each length from 1 to 30 words: "w0 x x ...", "w1 x ...", each its own number first."""
    random = numpy.random.RandomState(0)
    sides = [[], []]
    for number, length in enumerate(random.permutation(numpy.repeat(numpy.arange(1, 31), 23))):
        for side, shorter in ((0, 0), (1, random.randint(length))):
            sides[side].append(" ".join(["w%d" % number] + ["x"] * (length - shorter - 1)))
    write(tmp_path, "train.en", sides[0])
    write(tmp_path, "train.vi", sides[1])
    return tmp_path


@pytest.fixture
def open_text(request_of):
    def open_text(specification, root, max_length=50, split="train", **options):
        request = request_of(
            "iwslt15", root=str(root), split=split, source="en", target="vi", max_length=max_length, **options
        )
        return data.open_source(specification, request)

    return open_text


@pytest.fixture
def wide():
    """seq2seq with room for all words of `many`."""
    from tbd import models

    return models.create("seq2seq", {"size": "small", "source_vocabulary": 1000, "target_vocabulary": 1000})


def take(source, count):
    found = list(itertools.islice(source.batches(), count))
    source.close()
    return found


def rows(batch):
    """[(source ids in reading order, target ids without special words)], the padding cut off."""
    a = batch.arrays
    return [
        (
            tuple(a["source"][n, : a["source_length"][n]][::-1]),
            tuple(a["target_output"][n, : a["target_length"][n] - 1]),
        )
        for n in range(len(a["source"]))
    ]


def test_a_batch_holds_the_sentences_as_ids_by_frequency(seq2seq, folder, open_text):
    source = open_text(seq2seq, folder, max_length=10)
    by_word = {}
    for batch in source.one_of_each_shape():
        by_word.update(rows(batch))
    # en: the 4, a cat dog 2 each, then bird sees sings sleeps song; vi: con 6, chó mèo một 2 each, then others
    assert by_word == {
        (3, 5, 8, 3, 6): (3, 5, 11, 3, 4),
        (3, 6, 10): (3, 4, 10),
        (4, 5): (6, 3, 5),
        (3, 7, 9, 4, 11): (3, 8, 9, 6, 7),
    }


def test_the_source_is_reversed_and_the_target_has_its_ends(seq2seq, folder, open_text):
    batch = next(
        b for b in open_text(seq2seq, folder, max_length=10).one_of_each_shape() if (3, 6, 10) in dict(rows(b))
    )
    row = [r[0] for r in rows(batch)].index((3, 6, 10))
    arrays = batch.arrays
    assert arrays["source"][row].tolist() == [10, 6, 3]
    assert arrays["target_input"][row].tolist() == [1, 3, 4, 10]
    assert arrays["target_output"][row].tolist() == [3, 4, 10, 2]
    assert (arrays["source_length"][row], arrays["target_length"][row]) == (3, 4)


def test_published_vocabularies_give_the_ids(seq2seq, folder, open_text):
    write(folder, "vocab.en", ["<unk>", "<s>", "</s>", "dog", "the"])
    source = open_text(seq2seq, folder)
    (batch,) = source.one_of_each_shape()
    assert (4, 3, 0) in dict(rows(batch))  # the dog sleeps
    counts = source.describe()["counts"]
    assert (counts["source_vocabulary"], counts["source_unknown_words"], counts["target_unknown_words"]) == (5, 9, 0)


def test_special_words_in_the_text_are_unknown_words(seq2seq, tmp_path, open_text):
    write(tmp_path, "train.en", ["a </s> <s> <unk>"])
    write(tmp_path, "train.vi", ["một"])
    (batch,) = open_text(seq2seq, tmp_path).one_of_each_shape()
    assert rows(batch)[0][0] == (3, 0, 0, 0)


def test_words_beyond_the_models_vocabulary_are_unknown(seq2seq, many, open_text):
    source = open_text(seq2seq, many, max_length=30, batch_size=69)  # a batch is a whole bucket
    counts = source.describe()["counts"]
    assert (counts["source_vocabulary"], counts["target_vocabulary"]) == (60, 50)
    assert counts["source_unknown_words"] == 690 - 56  # all w... but the first 56; x is the first word of all
    assert max(batch.arrays["source"].max() for batch in source.one_of_each_shape()) == 59


def test_items_count_real_tokens(wide, many, open_text):
    for batch in take(open_text(wide, many, batch_size=8), 100):
        tokens = sum(len(target) + 1 for _, target in rows(batch))
        assert batch.items == {"tokens": tokens, "sentences": 8}
        assert batch.flops == wide.flops(batch.arrays)
        assert tokens <= batch.arrays["target_output"].size


def test_a_batch_is_from_one_bucket_and_as_long_as_its_ceiling(wide, many, open_text):
    for batch in take(open_text(wide, many, max_length=30, batch_size=8), 100):
        size = batch.arrays["source"].shape[1]
        assert batch.arrays["target_input"].shape == batch.arrays["target_output"].shape == (8, size + 1)
        assert size in range(3, 31, 3)  # 10 buckets of 3 lengths
        assert {-(-max(len(s), len(t)) // 3) * 3 for s, t in rows(batch)} == {size}


def test_an_epoch_has_each_pair_and_repeats_only_what_fills_the_last_batches(wide, many, open_text):
    # 69 pairs a bucket are 9 batches of 8, of which 3 sentences fill the last
    epoch = take(open_text(wide, many, max_length=30, batch_size=8), 90)
    times = collections.Counter(pair for batch in epoch for pair in rows(batch))
    assert len(times) == 690
    assert collections.Counter(times.values()) == {1: 660, 2: 30}


def test_a_bucket_smaller_than_a_batch_repeats_its_sentences(seq2seq, folder, open_text):
    (batch,) = open_text(seq2seq, folder, batch_size=10).one_of_each_shape()
    assert sorted(collections.Counter(rows(batch)).values()) == [2, 2, 3, 3]


def test_the_seed_alone_decides_the_order_and_each_epoch_has_its_own(wide, many, open_text):
    first = [rows(batch) for batch in take(open_text(wide, many, max_length=30, batch_size=8), 180)]
    assert first == [rows(batch) for batch in take(open_text(wide, many, max_length=30, batch_size=8), 180)]
    assert first != [rows(batch) for batch in take(open_text(wide, many, max_length=30, batch_size=8, seed=2), 180)]
    assert first != [
        rows(batch) for batch in take(open_text(wide, many, max_length=30, batch_size=8, rank=1, world_size=2), 180)
    ]
    assert first[:90] != first[90:]


def test_ranks_together_see_the_batches_of_one_process(wide, many, open_text):
    # 69 pairs a bucket: the last batch of 6 is filled by repetition
    one = take(open_text(wide, many, max_length=30, batch_size=6), 240)
    ranks = [take(open_text(wide, many, max_length=30, batch_size=3, rank=rank, world_size=2), 240) for rank in (0, 1)]
    assert_together(one, ranks)


def digest(batches):
    found = hashlib.sha256()
    for batch in batches:
        for name in sorted(batch.arrays):
            array = batch.arrays[name]
            found.update(("%s %s %s" % (name, array.dtype, array.shape)).encode() + array.tobytes())
    return found.hexdigest()


@pytest.mark.parametrize(
    "max_length, seed, expected",
    [
        (30, 1, "01ae97fbcb962cb32e52226a533989cb6985fc718768f7236bfd8cfd45e12cea"),
        (25, 2, "bb1bce6df2924c2dee92bda2f1e9dbdde373808d974196ac1ad22b3861a32acc"),
    ],
)
def test_a_seeds_batches_stay_what_they_are_from_version_to_version(wide, many, open_text, max_length, seed, expected):
    source = open_text(wide, many, max_length=max_length, batch_size=8, seed=seed)
    assert digest(take(source, 200)) == expected  # runs made before can be compared with runs made after


@pytest.mark.parametrize("max_length", [1, 7, 25, 30, 50])
def test_one_of_each_shape_is_what_the_stream_has(wide, many, open_text, max_length):
    source = open_text(wide, many, max_length=max_length, batch_size=8)

    def shape(batch):
        return {name: array.shape for name, array in batch.arrays.items()}

    shapes = [shape(batch) for batch in source.one_of_each_shape()]
    assert len(shapes) <= 10
    stream = [shape(batch) for batch in take(source, 100)]
    assert all(one in shapes for one in stream) and all(one in stream for one in shapes)
    assert max(one["source"][1] for one in shapes) == min(max_length, 30)


def test_longer_sentences_are_cut_and_counted(wide, many, open_text):
    source = open_text(wide, many, max_length=25, batch_size=8)
    assert source.describe()["counts"]["source_sentences_cut"] == 5 * 23
    batch = max(source.one_of_each_shape(), key=lambda one: one.work)
    assert batch.arrays["source_length"].max() == 25
    assert batch.arrays["source"].shape == (8, 25)


def test_pairs_with_an_empty_side_are_skipped_and_counted(seq2seq, tmp_path, open_text):
    write(tmp_path, "train.en", ["a cat", "", "a dog", "   "])
    write(tmp_path, "train.vi", ["một con mèo", "một", "", ""])
    described = open_text(seq2seq, tmp_path).describe()
    assert described["counts"]["pairs"] == 1
    assert described["skipped"] == {"a side is empty": 3}


def test_only_a_newline_ends_a_line_and_only_a_space_a_word(seq2seq, tmp_path, open_text):
    tmp_path.joinpath("train.en").write_bytes("a\u2028b c\r\nd\u00a0e\x0cf  g\r\n".encode())
    write(tmp_path, "train.vi", ["một", "hai"])
    counts = open_text(seq2seq, tmp_path).describe()["counts"]
    assert (counts["pairs"], counts["source_words"]) == (2, 4)


def test_the_digest_is_of_the_files_contents_wherever_they_are(seq2seq, folder, open_text, tmp_path):
    first = open_text(seq2seq, folder).describe()["digest"]
    other = tmp_path / "other"
    other.mkdir()
    write(other, "train.en", ENGLISH)
    write(other, "train.vi", VIETNAMESE)
    assert open_text(seq2seq, other).describe()["digest"] == first
    write(other, "vocab.en", ["<unk>", "<s>", "</s>"])
    with_vocabulary = open_text(seq2seq, other).describe()["digest"]
    write(other, "train.vi", VIETNAMESE[::-1])
    assert len({first, with_vocabulary, open_text(seq2seq, other).describe()["digest"]}) == 3


def spoil(folder, name, content):
    folder.joinpath(name).write_bytes(content)


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("train.vi", "một\ncon\nmèo\n".encode(), "train.en has 4 lines but train.vi has 3: line n of one must"),
        ("train.vi", "a\nb\nmèo\nd\n".encode("latin-1"), "train.vi, line 3 is not UTF-8 (byte 0xe8 at column 2): conv"),
        ("train.en", "a\nb\n".encode("utf-16"), "train.en, line 1 is not UTF-8 (byte 0xff at column 1): convert"),
        ("train.en", b"", "train.en has 0 lines but train.vi has 4"),
        ("train.en", b"\n\n\n\n", "holds no sentence that both en and vi have"),
        ("vocab.en", b"", "vocab.en must begin with the lines <unk>, <s>, </s>"),
        ("vocab.en", b"the\ncat\n", "vocab.en must begin with the lines <unk>, <s>, </s>"),
        ("vocab.vi", b"<unk>\n<s>\n</s>\na\nb\na\n", "vocab.vi, line 6 repeats line 4 (a): a word has one id"),
        ("vocab.vi", b"<unk>\n<s>\n</s>\n\xff\n", "vocab.vi, line 4 is not UTF-8 (byte 0xff at column 1)"),
        (
            "vocab.vi",
            b"<unk>\n<s>\n</s>\n" + b"".join(b"w%d\n" % n for n in range(48)),
            "vocab.vi has 51 words but the model has room for 50: set model.target_vocabulary=51",
        ),
    ],
)
def test_a_spoilt_file_is_named_with_what_is_wrong(seq2seq, folder, open_text, name, content, message):
    spoil(folder, name, content)
    with pytest.raises(BadData, match=re.escape(message)) as caught:
        open_text(seq2seq, folder)
    assert str(folder) in str(caught.value)


def test_two_empty_files_hold_no_sentence(seq2seq, tmp_path, open_text):
    write(tmp_path, "train.en", [])
    write(tmp_path, "train.vi", [])
    with pytest.raises(BadData, match="holds no sentence that both en and vi have"):
        open_text(seq2seq, tmp_path)


def test_a_missing_folder_file_or_split_is_named(seq2seq, folder, open_text):
    with pytest.raises(BadData, match="data.root=.*nowhere is no folder"):
        open_text(seq2seq, folder / "nowhere")
    with pytest.raises(BadData, match="tst2012.en can't be read .*; the folder holds train.en, train.vi"):
        open_text(seq2seq, folder, split="tst2012")
    folder.joinpath("train.vi").unlink()
    with pytest.raises(BadData, match="train.vi can't be read .*; the folder holds train.en"):
        open_text(seq2seq, folder)
    folder.joinpath("train.vi").mkdir()
    with pytest.raises(BadData, match="train.vi can't be read"):
        open_text(seq2seq, folder)
