"""IWSLT15 English-Vietnamese, and any parallel text in its form: a sentence a line, words separated by spaces.

The form is that of the NMT tutorial's files (Luong, Brevdo and Zhao 2017, nmt/scripts/download_iwslt15.sh): train.en,
train.vi, and optionally vocab.en and vocab.vi, a word a line after <unk>, <s> and </s>. As in the tutorial, sentences
are cut to `max_length` words; a batch holds pairs of one of the model's shapes. docs/data.md has the policies.
"""

import collections
import hashlib
import itertools
import os
import sys

import numpy

from tbd.data import kinds
from tbd.data.prefetch import InThread
from tbd.data.source import BadData, Share, Source, absolute, batch_of

SPECIAL = ["<unk>", "<s>", "</s>"]  # the first lines of a vocabulary file; as words of a text they are unknown ones
AHEAD = 4  # batches that wait for the loop: a few hundred KB


def resolve(options, cache):
    return dict(options, root=absolute(options["root"]))


def open_source(specification, request):
    """The pairs of <data.root>/<data.split>.<data.source> and .<data.target>. Raises BadData."""
    data = request["data"]
    return ParallelText("iwslt15", specification, request, data["root"], data["split"], data["source"], data["target"])


class ParallelText(Source):
    """Batches of sentence pairs, each of one shape of the model's, in an order drawn anew each epoch from the seed."""

    def __init__(self, name, specification, request, root, split, source, target):
        self.name = name
        self._specification = specification
        self._share = Share(request)
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
        texts = list(zip(*pairs))
        form = specification.form(kinds.SENTENCE_PAIRS)
        self._sides = []
        vocabularies = files.vocabularies((source, target), texts, form)
        for side, sentences, room, vocabulary in zip(("source", "target"), texts, form, vocabularies):
            ids = encode((sentence[:longest] for sentence in sentences), vocabulary, room.unknown)
            self._sides.append(ids)
            self._counts[side + "_words"] = sum(len(s) for s in ids)
            self._counts[side + "_unknown_words"] = sum(int((s == room.unknown).sum()) for s in ids)
            self._counts[side + "_vocabulary"] = len(vocabulary) + room.special
            self._counts[side + "_sentences_cut"] = sum(len(s) > longest for s in sentences)
        self._digest = files.digest.hexdigest()
        self._buckets = by_shape(specification.shapes_of(self._sides, longest))
        self._counts["buckets"] = len(self._buckets)
        self._rows = {shape: specification.rows(shape, self._share.batch_size) for shape in self._buckets}
        for rows in self._rows.values():
            self._share.of(range(rows))  # raises BadData where there are too few, before anything is built

    def describe(self):
        return {
            "name": self.name,
            "digest": self._digest,
            "source": self._source,
            "counts": dict(self._counts),
            "skipped": {why: count for why, count in self._skipped.items() if count},
        }

    def one_of_each_shape(self):
        first = ((shape, self._filled(shape, pairs)[0]) for shape, pairs in sorted(self._buckets.items()))
        return [self._batch(number, shape, rows) for number, (shape, rows) in enumerate(first)]

    def batches(self):
        self.close()
        self._thread = InThread(self._stream(), AHEAD)
        return self._thread

    def close(self):
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def _stream(self):
        random = numpy.random.RandomState(self._share.seed)
        number = itertools.count()
        while True:
            epoch = []
            for shape, pairs in sorted(self._buckets.items()):
                epoch.extend((shape, rows) for rows in self._filled(shape, random.permutation(pairs)))
            for turn in random.permutation(len(epoch)):
                yield self._batch(next(number), *epoch[turn])

    def _filled(self, shape, pairs):
        """`pairs` as an array (batches, rows) in their order; the last batch is completed by the first pairs."""
        rows = self._rows[shape]
        return numpy.resize(pairs, (-(-len(pairs) // rows), rows))

    def _batch(self, number, shape, rows):
        """The Batch of this rank's of the pairs `rows`, which are the stream's batch of that number."""
        samples = tuple([side[row] for row in self._share.of(rows)] for side in self._sides)
        seeds = self._share.seeds(number, len(rows))
        return batch_of(self._specification, self._specification.batch_of(samples, shape, seeds))


def by_shape(shapes):
    """{shape: indices of the samples that belong to it}."""
    indices = {}
    for index, shape in enumerate(shapes):
        indices.setdefault(shape, []).append(index)
    return {shape: numpy.array(found) for shape, found in indices.items()}


def count_vocabulary(sentences, room):
    """{word: id} of as many words as there is room for, the most frequent first, ties by code points."""
    counts = collections.Counter(word for sentence in sentences for word in sentence)
    words = sorted((w for w in counts if w not in SPECIAL), key=lambda word: (-counts[word], word))
    return {word: place for place, word in enumerate(words[: room.size - room.special], room.special)}


def encode(sentences, vocabulary, unknown):
    """Each sentence's ids as an int32 array; the id `unknown` for what isn't in the vocabulary."""
    return [numpy.array([vocabulary.get(w, unknown) for w in s], numpy.int32) for s in sentences]


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

    def vocabularies(self, languages, texts, form):
        """The {word: id} of both languages' texts (lists of sentences), for a model's SentencePairs `form`."""
        if form.source.option == form.target.option:
            shared = self.vocabulary("-".join(languages), itertools.chain(*texts), form.source)
            return [shared, shared]
        return [self.vocabulary(*side) for side in zip(languages, texts, form)]

    def vocabulary(self, language, sentences, room):
        """{word: id} of vocab.<language> where there is one, else of the words in `sentences`, for a Vocabulary."""
        name = "vocab." + language
        path = os.path.join(self.root, name)
        if not os.path.lexists(path):
            return count_vocabulary(sentences, room)
        listed = self.lines(name)
        if listed[: len(SPECIAL)] != SPECIAL:
            raise BadData("%s must begin with the lines %s" % (path, ", ".join(SPECIAL)))
        needed = len(listed) - len(SPECIAL) + room.special
        if needed > room.size:
            message = "%s has %d words but the model has room for %d: set model.%s=%d"
            raise BadData(message % (path, needed, room.size, room.option, needed))
        vocabulary = {}
        for place, word in enumerate(listed):
            if word in vocabulary:
                message = "%s, line %d repeats line %d (%s): a word has one id"
                raise BadData(message % (path, place + 1, vocabulary[word] + 1, word))
            vocabulary[word] = place
        return {word: place for place, word in enumerate(listed[len(SPECIAL) :], room.special)}


def words(line):
    """The words of a line: spaces part them and no other blank, as in the tutorial's tf.string_split."""
    # interned: a word that comes a thousand times is one object; IWSLT15 would take hundreds of MB more
    return [sys.intern(word) for word in line.split(" ") if word]
