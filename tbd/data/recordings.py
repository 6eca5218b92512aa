"""One recording at a time: decode it and make its spectrogram. What reading processes run.

soundfile, which brings libsndfile, decodes FLAC; it is imported here and by nothing else.
"""

import collections
import struct
import wave

import numpy
import soundfile

from tbd.data.decoded import first_readable

SILENCE = 1e-14  # added to the power before its logarithm: the TBD suite's stt_utils.py
BITS, CHANNELS = 16, 1

# What to read: `samples`, as many as the file's header promises; `transcript`, ids.
Recording = collections.namedtuple("Recording", "path samples transcript")


def samples_of(path, sampling_rate):
    """How many samples the file has by its header. Raises ValueError where they aren't 16 bits, mono, at that rate."""
    if path.endswith(".wav"):
        with opened(path) as file:
            rate, channels, samples = file.getframerate(), file.getnchannels(), file.getnframes()
            encoding, wanted = "%d bits" % (8 * file.getsampwidth()), "%d bits" % BITS
    else:
        header = soundfile.info(path)
        rate, channels, samples = header.samplerate, header.channels, header.frames
        encoding, wanted = header.subtype, "PCM_%d" % BITS
    for what, found, right in (
        ("its encoding", encoding, wanted),
        ("its sampling rate", "%d Hz" % rate, "%d Hz" % sampling_rate),
        ("its number of channels", channels, CHANNELS),
    ):
        if found != right:
            raise ValueError("%s is %s, not %s" % (what, found, right))
    return samples


def opened(path):
    """The wave file at `path`. Raises ValueError where it is none."""
    try:
        return wave.open(path, "rb")
    except (EOFError, struct.error):  # one without a word, and Python 3.6's of a header that is cut off
        raise ValueError("it ends within its header")


def signal(recording):
    """The samples of a Recording, in -1..1. Raises ValueError where there are fewer than promised."""
    if recording.path.endswith(".wav"):
        with opened(recording.path) as file:
            samples = numpy.frombuffer(file.readframes(recording.samples), "<i2")
    else:
        samples, _ = soundfile.read(recording.path, dtype="int16")
    if len(samples) != recording.samples:
        raise ValueError("it has %d samples, its header says %d" % (len(samples), recording.samples))
    return samples / 32768.0


def spectrogram(samples, window, stride):
    """The spectrogram of a recording's samples, (frames, window / 2 + 1) float32: tbd/data/kinds.py has the formula."""
    if not samples.any():
        raise ValueError("all its samples are zero")
    places = stride * numpy.arange(frames_of(len(samples), window, stride))[:, None] + numpy.arange(window)
    power = numpy.abs(numpy.fft.rfft(samples[places] * numpy.hanning(window))) ** 2
    level = numpy.log(power + SILENCE)
    return ((level - level.mean()) / level.std()).astype(numpy.float32)


def frames_of(samples, window, stride):
    """How many frames so many samples give: the whole windows."""
    return 1 + (samples - window) // stride if samples >= window else 0


def read_batch(request):
    """(samples, shape, broken) of `request`, which is (rows, shape, window, stride), each row Recordings to try.

    samples: (spectrogram, transcript) of each row's first recording that can be read, up to a row of which none can;
    broken: [(path, what is wrong)] of those before them that can't.
    """
    rows, shape, window, stride = request
    samples, broken = [], []
    for candidates in rows:
        sample = first_readable(
            candidates, lambda one: (spectrogram(signal(one), window, stride), one.transcript), broken
        )
        if sample is None:
            break
        samples.append(sample)
    return samples, shape, broken
