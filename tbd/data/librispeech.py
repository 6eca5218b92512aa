"""LibriSpeech, and any folder in its form: recordings with their transcripts.

    <root>/<split>/<speaker>/<chapter>/<speaker>-<chapter>.trans.txt     a line each: the recording's name and its text
    <root>/<split>/<speaker>/<chapter>/<name>.flac or .wav               16 bits, mono, at the model's sampling rate

All transcripts and the recordings' headers are read when the source is opened; processes of their own decode and make
the spectrograms (tbd/data/recordings.py). A batch holds utterances of one of the model's shapes. docs/data.md has the
policies.
"""

import collections
import hashlib
import os

import numpy

from tbd.data import kinds
from tbd.data.decoded import SPARES, Decoded
from tbd.data.imagenet import subfolders
from tbd.data.iwslt15 import by_shape
from tbd.data.source import BadData, absolute, batch_of

ENDINGS = (".flac", ".wav")
TRANSCRIPTS = ".trans.txt"

# A recording before it is known whether it is of use: its path and its text, None where it has none.
Found = collections.namedtuple("Found", "path text")


def resolve(options, cache):
    return dict(options, root=absolute(options["root"]))


def open_source(specification, request):
    """The utterances of <data.root>/<data.split>. Raises BadData."""
    return Utterances(specification, request)


class Utterances(Decoded):
    name = "librispeech"
    noun = "recordings"

    def __init__(self, specification, request):
        try:
            from tbd.data import recordings
        except (ImportError, OSError) as error:  # OSError: libsndfile is missing
            raise BadData("data=librispeech needs soundfile in the framework's environment: %s" % error)
        self._recordings = recordings
        super(Utterances, self).__init__(specification, request, recordings.read_batch)
        self._form = specification.form(kinds.UTTERANCES)
        self._longest = request["data"]["max_seconds"]
        self._folder = os.path.join(request["data"]["root"], request["data"]["split"])
        self._left_out = collections.OrderedDict()  # {why: [count, the first one's path]}
        found, self._digest = scan(request["data"]["root"], request["data"]["split"], self._leave_out)
        self.files = len(found)
        usable = list(self._usable(found))
        frames = [self._frames(recording) for recording in usable]
        columns = frames, [recording.transcript for recording in usable]
        shapes = specification.shapes_of(columns, self._frames_of(self._longest)) if usable else []
        for recording, shape in zip(usable, shapes):
            if shape is None:
                self._leave_out("too short for their transcripts", recording.path)
        kept = sorted((shape, place) for place, shape in enumerate(shapes) if shape is not None)
        if not kept:
            reasons = "; ".join(self.describe_left_out()) or "there is no recording"
            raise BadData("%s holds no utterance that can be trained on: %s" % (self._folder, reasons))
        # by shape, so that those before an utterance fit into its row
        self._utterances = [usable[place] for _, place in kept]
        self._buckets = by_shape([shape for shape, _ in kept])
        self._counts = collections.OrderedDict(
            utterances=len(kept),
            audio_seconds=round(sum(one.samples for one in self._utterances) / float(self._form.sampling_rate), 3),
            characters=sum(len(one.transcript) for one in self._utterances),
            buckets=len(self._buckets),
        )
        self._rows = {shape: specification.rows(shape, self._share.batch_size) for shape in self._buckets}
        for rows in self._rows.values():
            self._share.of(range(rows))  # raises BadData where there are too few, before anything is built

    def _usable(self, found):
        """The Recordings of what can be trained on; counts what can't."""
        for path, text in found:
            if text is None:
                self._leave_out("without a transcript", path)
                continue
            transcript = " ".join(text.upper().split())
            if not transcript:
                self._leave_out("with an empty transcript", path)
                continue
            unknown = sorted(set(transcript) - set(self._form.ids))
            if unknown:
                self._leave_out("with characters that the model doesn't have", "%s: %s" % (path, " ".join(unknown)))
                continue
            try:
                samples = self._recordings.samples_of(path, self._form.sampling_rate)
            except MemoryError:
                raise
            except Exception as error:  # wave raises wave.Error, libsndfile its own: broken
                self.note_broken([(path, str(error))])
                continue
            if samples > self._longest * self._form.sampling_rate:
                self._leave_out("longer than data.max_seconds=%g" % self._longest, path)
                continue
            ids = numpy.array([self._form.ids[character] for character in transcript], numpy.int32)
            yield self._recordings.Recording(path, samples, ids)

    def _leave_out(self, why, path):
        self._left_out.setdefault(why, [0, path])[0] += 1

    def _frames(self, recording):
        return self._recordings.frames_of(recording.samples, self._form.window, self._form.stride)

    def _frames_of(self, seconds):
        """How many strides so many seconds have."""
        return int(seconds * self._form.sampling_rate) // self._form.stride

    def describe_left_out(self):
        """{what was left out, with an example: count}."""
        return {"%s, such as %s" % (why, path): count for why, (count, path) in self._left_out.items()}

    def describe(self):
        skipped = self.describe_left_out()
        skipped.update(self.skipped())
        return {
            "name": self.name,
            "digest": self._digest,
            "source": self._folder,
            "counts": dict(self._counts),
            "skipped": skipped,
        }

    def one_of_each_shape(self):
        """The first utterances of each shape, decoded in this process."""
        first = ((shape, self._filled(shape, places)[0]) for shape, places in sorted(self._buckets.items()))
        return [self.batch(0, self._read(self._request(shape, rows))) for shape, rows in first]

    def requests(self):
        """What read_batch takes, batch after batch: each epoch shuffles each shape and then the batches."""
        random = numpy.random.RandomState(self._share.seed)
        while True:
            epoch = []
            for shape, places in sorted(self._buckets.items()):
                epoch.extend((shape, rows) for rows in self._filled(shape, random.permutation(places)))
            for turn in random.permutation(len(epoch)):
                yield self._request(*epoch[turn])

    def _filled(self, shape, places):
        """`places` as an array (batches, rows) in their order; the last batch is completed by the first ones."""
        rows = self._rows[shape]
        return numpy.resize(places, (-(-len(places) // rows), rows))

    def _request(self, shape, rows):
        """This rank's rows of a batch, each its utterance and then its spares.

        The spares are those that come before it by shape, and then the last ones of its own: all fit into its row, and
        which takes a broken one's place depends on no other row, so that ranks need not know of each other's.
        """
        end = self._buckets[shape][-1] + 1
        own = [[self._utterances[(row - n) % end] for n in range(1 + SPARES)] for row in self._share.of(rows)]
        return own, shape, self._form.window, self._form.stride

    def batch(self, number, answer):
        """The Batch of that number, of what read_batch gave. Raises BadData where too much is broken."""
        samples, shape, broken = answer
        self.note_broken(broken)
        seeds = self._share.seeds(number, self._rows[shape])
        if len(samples) < len(seeds):
            raise BadData("%s and %d around it are broken (%s)" % (broken[-1][0], SPARES, broken[-1][1]))
        arrays = self._specification.batch_of(tuple(zip(*samples)), shape, seeds)
        return batch_of(self._specification, arrays)


def scan(root, split, leave_out):
    """([Found], digest) of the recordings of <root>/<split>, by name. Raises BadData.

    The digest is the sha256 over the transcripts and over each recording's name and size in bytes. leave_out(why, path)
    is told of each line of a transcript that has no recording.
    """
    if not os.path.isdir(root):
        raise BadData("data.root=%s is no folder: name the one that holds train-clean-100/<speaker>/<chapter>" % root)
    folder = os.path.join(root, split)
    if not os.path.isdir(folder):
        here = ", ".join(subfolders(root)[:8]) or "no folder"
        raise BadData("%s is missing: data.root=%s holds %s; set data.split" % (folder, root, here))
    found, digest = [], hashlib.sha256()
    for speaker in subfolders(folder):
        for chapter in subfolders(os.path.join(folder, speaker)):
            found.extend(scan_chapter(os.path.join(folder, speaker, chapter), digest, leave_out))
    if not found:
        raise BadData("%s holds no <speaker>/<chapter>/<name>.flac or .wav" % folder)
    return found, digest.hexdigest()


def scan_chapter(folder, digest, leave_out):
    """The Found of one folder of recordings."""
    entries = sorted((entry for entry in os.scandir(folder) if entry.is_file()), key=lambda entry: entry.name)
    texts = {}
    for entry in entries:
        if entry.name.endswith(TRANSCRIPTS):
            texts.update(transcripts(entry.path, digest))
    found = []
    for entry in entries:
        name, ending = os.path.splitext(entry.name)
        if ending in ENDINGS:
            digest.update(os.fsencode("%s\0%d\0" % (entry.name, entry.stat().st_size)))
            found.append(Found(entry.path, texts.pop(name, None)))
    for name in sorted(texts):
        leave_out("transcripts without a recording", os.path.join(folder, name))
    return found


def transcripts(path, digest):
    """{name: text} of a file of transcripts. Raises BadData."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise BadData("%s can't be read (%s)" % (path, error.strerror))
    digest.update(os.fsencode("%s\0%d\0" % (os.path.basename(path), len(content))) + content)
    texts = {}
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            name, _, text = line.decode("utf-8").strip().partition(" ")
        except UnicodeDecodeError:
            raise BadData("%s, line %d is not UTF-8: convert the file, as iconv does" % (path, number))
        if name in texts:
            raise BadData("%s, line %d: %s has a transcript already" % (path, number, name))
        if name:
            texts[name] = text
    return texts
