"""IWSLT15 English-Vietnamese, and any parallel text in its form: a sentence a line, words separated by spaces.

The form is that of the NMT tutorial's files (Luong, Brevdo and Zhao 2017, nmt/scripts/download_iwslt15.sh): train.en,
train.vi, and optionally vocab.en and vocab.vi, a word a line after <unk>, <s> and </s>. As in the tutorial, sentences
are cut to `max_length` words and batches hold sentences of similar length. docs/data.md has the policies.
"""

import collections
import hashlib
import os
import sys

import numpy

from tbd.data.prefetch import InThread
from tbd.data.source import BadData, Source, batch_of
from tbd.models.seq2seq import specification as seq2seq

SPECIAL = ["<unk>", "<s>", "</s>"]  # ids 0, 1, 2
BUCKETS = 10  # as in the TBD suite's seq2seq; the tutorial's own settings (standard_hparams/iwslt15.json) have 5
AHEAD = 4  # batches that wait for the loop: a few hundred KB


def open_source(specification, request):
    """The pairs of <data.root>/<data.split>.<data.source> and .<data.target>. Raises BadData."""
    data = request["data"]
    return ParallelText("iwslt15", specification, request, data["root"], data["split"], data["source"], data["target"])


class ParallelText(Source):
    """Batches of sentence pairs, each from one bucket of lengths, in an order drawn anew each epoch from the seed."""

    def __init__(self, name, specification, request, root, split, source, target):
        self.name = name
        self._specification = specification
        self._seed = [request["seed"], request["rank"]]
        self._batch_size = request["batch_size"]
        self._thread = None
        self._source = "%s, %s-%s, %s" % (root, source, target, split)
        longest = request["data"]["max_length"]

        files = Files(root)
        pairs = files.pairs("%s.%s" % (split, source), "%s.%s" % (split, target))
        self._skipped = {"a side is empty": sum(not (s and t) for s, t in pairs)}
        pairs = [(s, t) for s, t in pairs if s and t]
        if not pairs:
            raise BadData("%s holds no sentence that both %s and %s have" % (root, source, target))
        self._counts = collections.OrderedDict(pairs=len(pairs))
        self._sides = []
        for side, language, sentences in zip(("source", "target"), (source, target), zip(*pairs)):
            vocabulary = files.vocabulary(language, sentences, specification.options[side + "_vocabulary"], side)
            ids = encode((sentence[:longest] for sentence in sentences), vocabulary)
            self._sides.append(ids)
            self._counts[side + "_words"] = sum(len(s) for s in ids)
            self._counts[side + "_unknown_words"] = sum(int((s == seq2seq.UNKNOWN).sum()) for s in ids)
            self._counts[side + "_vocabulary"] = len(vocabulary) + len(SPECIAL)
            self._counts[side + "_sentences_cut"] = sum(len(s) > longest for s in sentences)
        self._digest = files.digest.hexdigest()
        self._buckets = in_buckets([max(len(s), len(t)) for s, t in zip(*self._sides)], longest)
        self._counts["buckets"] = len(self._buckets)

    def describe(self):
        return {
            "name": self.name,
            "digest": self._digest,
            "source": self._source,
            "counts": dict(self._counts),
            "skipped": {why: count for why, count in self._skipped.items() if count},
        }

    def one_of_each_shape(self):
        return [self._batch(size, fill(pairs, self._batch_size)[0]) for size, pairs in sorted(self._buckets.items())]

    def batches(self):
        self.close()
        self._thread = InThread(self._stream(), AHEAD)
        return self._thread

    def close(self):
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def _stream(self):
        random = numpy.random.RandomState(self._seed)
        while True:
            epoch = []
            for size, pairs in sorted(self._buckets.items()):
                epoch.extend((size, rows) for rows in fill(random.permutation(pairs), self._batch_size))
            for turn in random.permutation(len(epoch)):
                yield self._batch(*epoch[turn])

    def _batch(self, size, rows):
        """The Batch of the pairs `rows`, padded to `size` words a side; the target's also holds <s> or </s>."""
        sources, targets = ([side[row] for row in rows] for side in self._sides)
        return batch_of(self._specification, seq2seq.batch_of(sources, targets, size, size + 1))


def in_buckets(lengths, longest):
    """{ceiling: indices of the lengths in (ceiling - width, ceiling]}, for those that are not empty.

    width = ceil(longest / BUCKETS), as in the tutorial's nmt/utils/iterator_utils.py, whose buckets begin where these
    end: a ceiling is itself in the bucket, so that there are BUCKETS shapes and none is padded beyond `longest`.
    """
    width = -(-longest // BUCKETS)
    ceilings = numpy.minimum(-(-numpy.asarray(lengths) // width) * width, longest)
    return {int(ceiling): numpy.flatnonzero(ceilings == ceiling) for ceiling in numpy.unique(ceilings)}


def fill(rows, size):
    """`rows` as an array (batches, size) in their order; the last batch is completed by the first rows."""
    return numpy.resize(rows, (-(-len(rows) // size), size))


def count_vocabulary(sentences, size):
    """{word: id} of the size - 3 most frequent words, the most frequent first, ties by code points."""
    counts = collections.Counter(word for sentence in sentences for word in sentence)
    words = sorted((w for w in counts if w not in SPECIAL), key=lambda word: (-counts[word], word))
    return {word: place + len(SPECIAL) for place, word in enumerate(words[: size - len(SPECIAL)])}


def encode(sentences, vocabulary):
    """Each sentence's ids as an int32 array; UNKNOWN for what isn't in the vocabulary."""
    return [numpy.array([vocabulary.get(w, seq2seq.UNKNOWN) for w in s], numpy.int32) for s in sentences]


class Files(object):
    """The text files of one folder; `digest` is the sha256 over the names and bytes of those read."""

    def __init__(self, root):
        self.root = root
        self.digest = hashlib.sha256()
        if not os.path.isdir(root):
            raise BadData("data.root=%s is no folder: name the folder that holds the sentences" % root)

    def lines(self, name):
        """The lines of one file, decoded. Only a newline ends a line, not U+2028 or U+0085 as for str.splitlines."""
        path = os.path.join(self.root, name)
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            here = ", ".join(sorted(os.listdir(self.root))[:8]) or "nothing"
            raise BadData("%s can't be read (%s); the folder holds %s" % (path, error.strerror, here))
        self.digest.update(("%s\0%d\0" % (name, len(content))).encode("utf-8") + content)
        lines = content.split(b"\n")
        if not lines[-1]:
            lines.pop()
        decoded = []
        for number, line in enumerate(lines, 1):
            try:
                decoded.append(line.decode("utf-8").rstrip("\r"))
            except UnicodeDecodeError as error:
                message = "%s, line %d is not UTF-8 (byte 0x%02x at column %d): convert the file, as iconv does"
                raise BadData(message % (path, number, line[error.start], error.start + 1))
        return decoded

    def pairs(self, source, target):
        """[(source words, target words)], a pair for each line."""
        sources, targets = self.lines(source), self.lines(target)
        if len(sources) != len(targets):
            message = "%s: %s has %d lines but %s has %d: line n of one must translate line n of the other"
            raise BadData(message % (self.root, source, len(sources), target, len(targets)))
        return [(words(s), words(t)) for s, t in zip(sources, targets)]

    def vocabulary(self, language, sentences, size, side):
        """{word: id} of vocab.<language> where there is one, else of the words in `sentences`; `size` ids at most."""
        name = "vocab." + language
        path = os.path.join(self.root, name)
        if not os.path.lexists(path):
            return count_vocabulary(sentences, size)
        listed = self.lines(name)
        if listed[: len(SPECIAL)] != SPECIAL:
            raise BadData("%s must begin with the lines %s" % (path, ", ".join(SPECIAL)))
        if len(listed) > size:
            message = "%s has %d words but the model has room for %d: set model.%s_vocabulary=%d"
            raise BadData(message % (path, len(listed), size, side, len(listed)))
        vocabulary = {}
        for place, word in enumerate(listed):
            if word in vocabulary:
                message = "%s, line %d repeats line %d (%s): a word has one id"
                raise BadData(message % (path, place + 1, vocabulary[word] + 1, word))
            vocabulary[word] = place
        return {word: place for word, place in vocabulary.items() if place >= len(SPECIAL)}


def words(line):
    """The words of a line: spaces part them and no other blank, as in the tutorial's tf.string_split."""
    # interned: a word that comes a thousand times is one object; IWSLT15 would take hundreds of MB more
    return [sys.intern(word) for word in line.split(" ") if word]
