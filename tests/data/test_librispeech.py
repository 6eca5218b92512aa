"""Folders in LibriSpeech's form: what a batch holds, and what happens to recordings and transcripts at fault."""

import itertools
import re
import wave

import numpy
import pytest
import soundfile

from tbd import data, models
from tbd.data import recordings
from tbd.data.source import BadData
from tbd.models.deep_speech2.specification import ALPHABET
from tests.data.ranks import assert_together
from tests.data.readings import Folder, read_aloud, tone


@pytest.fixture
def deep_speech2():
    return models.create("deep_speech2", {"size": "small"})


@pytest.fixture
def folder(tmp_path):
    """Ten real readings, half of them FLAC, by two speakers."""
    return Folder(tmp_path / "LibriSpeech").add_readings()


@pytest.fixture
def tones(tmp_path):
    """Twenty tones of two seconds, with a text each."""
    folder = Folder(tmp_path / "tones")
    for number in range(20):
        folder.add(tone(2.0, 200 + 20 * number), "TONE " + ALPHABET[2 + number], ("flac", "wav")[number % 2])
    return folder


@pytest.fixture
def open_speech(request_of, deep_speech2):
    opened = []

    def open_speech(folder, split="train-clean-100", workers=1, max_broken_share=0.1, max_seconds=16.0, **options):
        own = {"workers": workers, "max_broken_share": max_broken_share, "max_seconds": max_seconds}
        request = request_of("librispeech", root=str(folder.root), split=split, **dict(own, **options))
        opened.append(data.open_source(deep_speech2, request))
        return opened[-1]

    yield open_speech
    for source in opened:
        source.close()


def take(source, count):
    return list(itertools.islice(source.batches(), count))


def equal(some, others):
    return all(numpy.array_equal(a.arrays[name], b.arrays[name]) for a, b in zip(some, others) for name in a.arrays)


def texts(batch):
    rows = zip(batch.arrays["labels"], batch.arrays["label_length"])
    return ["".join(ALPHABET[place] for place in row[:length]) for row, length in rows]


def expected(path):
    """The spectrogram of a recording by its definition, a frame at a time."""
    samples, _ = soundfile.read(str(path))
    window = 0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(320) / 319)
    times = numpy.outer(numpy.arange(161), numpy.arange(320)) * -2j * numpy.pi / 320
    levels = []
    for start in range(0, len(samples) - 319, 160):
        spectrum = numpy.exp(times) @ (window * samples[start : start + 320])
        levels.append(numpy.log(abs(spectrum) ** 2 + 1e-14))
    return (levels - numpy.mean(levels)) / numpy.std(levels)


def test_a_batch_holds_spectrograms_with_what_is_said(folder, open_speech, deep_speech2):
    by_text = {text: folder.paths[name] for name, text in folder.texts.items()}
    seen = set()
    for batch in take(open_speech(folder, batch_size=3), 12):
        frames, lengths = batch.arrays["frames"], batch.arrays["frame_length"]
        assert (frames.dtype, frames.shape[2]) == (numpy.float32, 161)
        for row, text in enumerate(texts(batch)):
            right = expected(by_text[text])
            assert lengths[row] == len(right)
            numpy.testing.assert_allclose(frames[row, : len(right)], right, atol=1e-5)
            assert not frames[row, len(right) :].any()
            seen.add(text)
        assert batch.items == {"audio_seconds": lengths.sum() / 100, "utterances": 3}
        assert (batch.flops, batch.work) == (deep_speech2.flops(batch.arrays), deep_speech2.work(batch.arrays))
    assert seen == set(by_text)


def test_flac_and_wav_of_the_same_samples_are_the_same(folder, tmp_path):
    path, _ = read_aloud()[0]
    samples, rate = soundfile.read(str(path), dtype="int16")
    spectra = []
    for ending in ("flac", "wav"):
        copy = str(tmp_path / ("copy." + ending))
        soundfile.write(copy, samples, rate)
        recording = recordings.Recording(copy, recordings.samples_of(copy, 16000), None)
        spectra.append(recordings.spectrogram(recordings.signal(recording), 320, 160))
    assert numpy.array_equal(*spectra)


def test_a_batch_is_of_one_shape_and_there_are_few(folder, open_speech):
    source = open_speech(folder, batch_size=2)
    shapes = [batch.arrays["frames"].shape for batch in source.one_of_each_shape()]
    assert len(set(shapes)) == len(shapes) == source.describe()["counts"]["buckets"] >= 3
    assert all(size % 200 == 0 and size <= 1600 for _, size, _ in shapes)
    for batch in take(source, 15):
        assert batch.arrays["frames"].shape in shapes
        assert batch.arrays["labels"].shape[1] == batch.arrays["frames"].shape[1] // 4


def test_an_epoch_has_each_utterance_and_the_next_one_another_order(tones, open_speech):
    order = [text for batch in take(open_speech(tones, batch_size=4), 10) for text in texts(batch)]
    assert sorted(order[:20]) == sorted(order[20:]) == sorted(tones.texts.values())
    assert order[:20] != order[20:]


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_processes_changes_nothing(tones, open_speech, workers):
    truncated(tones.paths["19-198-0006"])
    assert equal(take(open_speech(tones), 12), take(open_speech(tones, workers=workers), 12))


@pytest.mark.parametrize("broken", [None, 6])
def test_ranks_together_see_the_batches_of_one_process(tones, open_speech, broken):
    if broken is not None:
        truncated(tones.paths["19-198-%04d" % broken])
    one = take(open_speech(tones, batch_size=6), 8)
    ranks = [take(open_speech(tones, batch_size=3, rank=rank, world_size=2), 8) for rank in (0, 1)]
    assert_together(one, ranks)


def test_describes_itself_and_the_digest_tells_folders_apart(folder, open_speech):
    described = open_speech(folder).describe()
    assert described["name"] == "librispeech"
    assert described["source"] == str(folder.root / "train-clean-100")
    assert described["skipped"] == {}
    counts = described["counts"]
    assert counts["utterances"] == 10
    assert counts["characters"] == sum(len(text) for text in folder.texts.values())
    seconds = sum(soundfile.info(str(path)).duration for path in folder.paths.values())
    assert counts["audio_seconds"] == pytest.approx(seconds, abs=1e-3)
    assert open_speech(folder).describe()["digest"] == described["digest"]
    (transcripts,) = folder.root.glob("*/19/198/*.trans.txt")
    transcripts.write_text(transcripts.read_text().replace("YOUNG MAN", "OLD MAN"))
    assert open_speech(folder).describe()["digest"] != described["digest"]


def test_a_transcript_may_be_in_small_letters_and_wide_spaces(tmp_path, open_speech):
    folder = Folder(tmp_path)
    folder.add(tone(1.0), "it's   me ")
    assert texts(open_speech(folder, batch_size=1).one_of_each_shape()[0]) == ["IT'S ME"]


def truncated(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def corrupted(path):
    """A page of the sound overwritten."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4096] = bytes(range(256)) * 16
    path.write_bytes(bytes(content))


def html(path):
    path.write_bytes(b"<html>404 not found</html>" * 20)


def empty(path):
    path.write_bytes(b"")


def header_only(path):
    path.write_bytes(path.read_bytes()[:20])


def silent(path):
    soundfile.write(str(path), numpy.zeros(32000, numpy.int16), 16000)


def slower(path):
    soundfile.write(str(path), tone(2.0), 8000)


def stereo(path):
    soundfile.write(str(path), numpy.stack([tone(2.0)] * 2, 1), 16000)


def finer(path):
    soundfile.write(str(path), tone(2.0), 16000, subtype="PCM_24")


def coarser(path):
    soundfile.write(str(path), tone(2.0), 16000, subtype="PCM_S8" if path.suffix == ".flac" else "PCM_U8")


def of_floats(path):
    soundfile.write(str(path), tone(2.0), 16000, subtype="FLOAT")


SPOILS = [
    (truncated, "flac", "LibsndfileError: Error : flac decoder lost sync."),
    (truncated, "wav", "ValueError: it has .* samples, its header says 32000"),
    (corrupted, "flac", "LibsndfileError: Error : .*flac decoder.*"),
    (html, "flac", ".*Format not recognised.*"),
    (html, "wav", "file does not start with RIFF id"),
    (empty, "flac", ".*Format not recognised.*"),
    (empty, "wav", "it ends within its header"),
    (header_only, "flac", "Error opening .*"),
    (header_only, "wav", "it ends within its header"),
    (silent, "flac", "ValueError: all its samples are zero"),
    (silent, "wav", "ValueError: all its samples are zero"),
    (slower, "flac", "its sampling rate is 8000 Hz, not 16000 Hz"),
    (slower, "wav", "its sampling rate is 8000 Hz, not 16000 Hz"),
    (stereo, "flac", "its number of channels is 2, not 1"),
    (stereo, "wav", "its number of channels is 2, not 1"),
    (finer, "flac", "its encoding is PCM_24, not PCM_16"),
    (finer, "wav", "its encoding is 24 bits, not 16 bits"),
    (coarser, "flac", "its encoding is PCM_S8, not PCM_16"),
    (coarser, "wav", "its encoding is 8 bits, not 16 bits"),
    (of_floats, "wav", "unknown format: 3"),
]


@pytest.mark.parametrize(("spoil", "ending", "message"), SPOILS)
def test_a_broken_recording_is_skipped_named_and_replaced(tones, open_speech, spoil, ending, message):
    name = "19-198-%04d" % (6 if ending == "flac" else 7)
    path, text = tones.paths[name], tones.texts[name]
    spoil(path)
    source = open_speech(tones, batch_size=5)
    batches = take(source, 8)
    assert all(len(batch.arrays["frames"]) == 5 for batch in batches)
    assert text not in {text for batch in batches for text in texts(batch)}
    (why,) = source.describe()["skipped"]
    assert re.match(re.escape(str(path)) + r" is broken \((%s)\)\Z" % message, why)


@pytest.mark.parametrize("spoil", [truncated, slower])
def test_more_broken_recordings_than_allowed_end_the_run_with_the_files_name(tones, open_speech, spoil):
    for number in (1, 2, 3, 4, 5, 6):
        spoil(tones.paths["19-198-%04d" % number])
    message = (
        r"19-198-000[1-6].(flac|wav) is broken .* makes 3 of 20 recordings, but data.max_broken_share=0.1 allows 2"
    )
    with pytest.raises(BadData, match=message):
        take(open_speech(tones, batch_size=5, workers=2), 8)


def test_a_broken_recording_alone_in_its_shape_is_replaced_by_one_that_fits(tones, open_speech):
    path = tones.add(tone(9.0), "A LONG ONE")
    truncated(path)
    source = open_speech(tones, batch_size=4)
    batches = take(source, 12)
    (long,) = (b for b in batches[:6] if b.arrays["frames"].shape[1] == 1000)
    assert long.arrays["frame_length"].max() == 199
    assert [why for why in source.describe()["skipped"] if why.startswith(str(path))]


def test_nothing_but_broken_recordings_is_an_error_however_many_are_allowed(tones, open_speech):
    for path in tones.paths.values():
        truncated(path)
    with pytest.raises(BadData, match="and 9 around it are broken"):
        open_speech(tones, max_broken_share=1.0).one_of_each_shape()


def test_a_recording_that_goes_away_is_named(tones, open_speech):
    source = open_speech(tones, max_broken_share=0.0)
    tones.paths["19-198-0003"].unlink()
    with pytest.raises(BadData, match="19-198-0003.wav is broken .FileNotFoundError"):
        take(source, 8)


@pytest.mark.parametrize(
    ("samples", "text", "why"),
    [
        (tone(1.0), "", "with an empty transcript"),
        (tone(1.0), "   ", "with an empty transcript"),
        (tone(1.0), None, "without a transcript"),
        (tone(1.0), "CAFÉ AT 9", "with characters that the model doesn't have"),
        (tone(1.0), "THE BLANK _", "with characters that the model doesn't have"),
        (tone(1.0), "A" * 26, "too short for their transcripts"),  # 50 steps, and a blank between any two
        (tone(0.02), "AB", "too short for their transcripts"),
        (tone(0.01), "A", "too short for their transcripts"),
        (tone(16.1), "TOO LONG", "longer than data.max_seconds=16"),
    ],
)
def test_an_utterance_that_is_of_no_use_is_left_out_and_counted_with_an_example(tones, open_speech, samples, text, why):
    path = tones.add(samples, text)
    source = open_speech(tones)
    assert source.describe()["counts"]["utterances"] == 20
    ((found, count),) = source.describe()["skipped"].items()
    assert (found.split(", such as ")[0], count) == (why, 1)
    assert found.split(", such as ")[1].startswith(str(path))
    if "characters" in why:
        assert found.endswith(": 9 É" if text.startswith("CAF") else ": _")


def test_a_transcript_without_a_recording_is_counted(tones, open_speech):
    tones.paths["19-198-0003"].unlink()
    (why,) = open_speech(tones).describe()["skipped"]
    assert re.match("transcripts without a recording, such as .*19-198-0003$", why)


def test_no_utterance_of_use_is_an_error_that_says_why(tmp_path, open_speech):
    folder = Folder(tmp_path)
    path = folder.add(tone(1.0), "ÄÖÜ")
    message = f"holds no utterance that can be trained on: with characters that .* such as {path}: Ä Ö Ü"
    with pytest.raises(BadData, match=message):
        open_speech(folder)


@pytest.mark.parametrize(
    ("make", "split", "message"),
    [
        (lambda root: None, "dev-clean", "dev-clean is missing: data.root=.* holds train-clean-100; set data.split"),
        (
            lambda root: root.joinpath("dev-clean", "1", "2").mkdir(parents=True),
            "dev-clean",
            "dev-clean holds no <speaker>/<chapter>/<name>.flac or .wav",
        ),
        (
            lambda root: next(root.glob("*/19/198/*.txt")).write_bytes(b"19-198-0000 A\n19-198-0001 CAF\xe9\n"),
            "train-clean-100",
            "19-198.trans.txt, line 2 is not UTF-8",
        ),
        (
            lambda root: next(root.glob("*/19/198/*.txt")).write_bytes(b"19-198-0000 A\n19-198-0000 B\n"),
            "train-clean-100",
            "19-198.trans.txt, line 2: 19-198-0000 has a transcript already",
        ),
    ],
)
def test_a_folder_that_is_not_in_librispeechs_form_is_named(tones, open_speech, make, split, message):
    make(tones.root)
    with pytest.raises(BadData, match=message):
        open_speech(tones, split=split)


def test_a_missing_root_is_named(tmp_path, open_speech):
    with pytest.raises(BadData, match="data.root=.*nowhere is no folder"):
        open_speech(Folder(tmp_path / "nowhere"))


def test_a_batch_too_small_for_the_ranks_is_refused_before_training(tones, open_speech):
    with pytest.raises(BadData, match="a batch of 0 rows is too few for 2 ranks"):
        open_speech(tones, batch_size=0, world_size=2)


def test_the_readings_are_real(folder):
    assert len(folder.paths) == 10
    for path, _ in read_aloud():
        with wave.open(str(path)) as file:
            assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 2)
            assert file.getnframes() > 16000
