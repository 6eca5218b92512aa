"""Folders in LibriSpeech's form, of real readings: those of Debian's package pocketsphinx-testdata, from LibriVox."""

import pathlib
import re

import numpy
import soundfile

READINGS = pathlib.Path("/usr/share/pocketsphinx/test/data")  # where the package puts them: 16-bit mono at 16 kHz
SPOKEN = re.compile(r"<s> (.*?) *</s> \((.*)\)")


def read_aloud():
    """[(path of a wav, what is read)]: five sentences of Sense and Sensibility and five of playing cards."""
    assert READINGS.is_dir(), "these tests read real speech: apt-get install pocketsphinx-testdata"
    found = []
    for folder, name in (("librivox", "transcription"), ("cards", "cards.transcription")):
        for line in (READINGS / folder / name).read_text().splitlines():
            text, stem = SPOKEN.match(line).groups()
            found.append((READINGS / folder / (stem + ".wav"), text.upper()))
    return found


class Folder:
    """A folder in LibriSpeech's form. `paths` are the recordings, `texts` what is said in them, {name: text}."""

    def __init__(self, root, split="train-clean-100"):
        self.root, self.split = root, split
        self.paths, self.texts = {}, {}

    def add(self, samples, text, ending="flac", speaker="19", chapter="198", rate=16000, subtype="PCM_16"):
        """Write a recording and its line; its name is its number in the order of all."""
        folder = self.root / self.split / speaker / chapter
        folder.mkdir(parents=True, exist_ok=True)
        name = "%s-%s-%04d" % (speaker, chapter, len(self.paths))
        self.paths[name] = folder / (name + "." + ending)
        soundfile.write(str(self.paths[name]), samples, rate, subtype=subtype)
        self.texts[name] = text
        with open(str(folder / ("%s-%s.trans.txt" % (speaker, chapter))), "a", encoding="utf-8") as file:
            file.write("%s %s\n" % (name, text) if text is not None else "")
        return self.paths[name]

    def add_readings(self):
        """All that is read aloud, by turns as FLAC and as wav, by two speakers."""
        for number, (path, text) in enumerate(read_aloud()):
            samples, _ = soundfile.read(str(path), dtype="int16")
            ending = ("flac", "wav")[number % 2]
            self.add(samples, text, ending, speaker=("19", "26")[number % 3 == 0])
        return self


def tone(seconds, pitch=440.0, rate=16000):
    """A tone with a little noise, int16."""
    time = numpy.arange(int(seconds * rate)) / rate
    noise = numpy.random.RandomState(0).standard_normal(len(time))
    return numpy.int16(8000 * numpy.sin(2 * numpy.pi * pitch * time) + 100 * noise)
