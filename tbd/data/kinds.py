"""The kinds of samples: what a source yields, what a model takes, and what a model says about those that it takes.

A source yields samples of one kind and knows no model; a model's specification takes samples of some kinds, whatever
source they are from. For each kind: what a sample is, and what `specification.form(kind)` gives, to which readers keep.
Samples come as columns, one for each part of a sample, each a list or array with an element a sample.

SENTENCE_PAIRS     A sample is (source, target): the ids of a sentence and of its translation, int32 arrays in reading
                   order, without special words and not empty; their lengths are in words. The form is a SentencePairs.
LABELLED_PICTURES  A sample is (picture, label): float32 (size, size, 3), RGB minus ImageNet's mean divided by its
                   standard deviation, and the class's number; all of one shape. The form is a LabelledPictures.
BOXED_PICTURES     A sample is (picture, boxes, classes, scale): float32 (height, width, 3), normalised as above. Its
                   shorter side is `shorter` pixels, or its longer one `longer` where that makes it smaller;
                   float32 (n, 4), n at least 1, of x1, y1, x2, y2 in its pixels with continuous edges; int32 (n,) from
                   1 on; and its pixels a pixel of the file. The form is a BoxedPictures. Pictures differ in size: the
                   reader asks shapes_of before it reads them, with the columns (heights, widths).
UTTERANCES         A sample is (spectrogram, transcript): float32 (frames, window / 2 + 1), and the ids of its
                   characters, an int32 array that is not empty. Frame t of a recording s, samples in -1..1, is
                       log(|DFT of w s[t stride : t stride + window]|^2 + 1e-14), w the symmetric Hann window,
                   for each whole window of it, minus the mean of all its numbers, divided by their standard deviation.
                   The form is an Utterances. The reader asks shapes_of before it reads them, with the columns (frames,
                   transcripts); `longest` is in frames, and an utterance whose shape is None is left out.
SEGMENTS           A sample is (frames, actions, rewards, ends, after): consecutive steps of a player of a game. Of each
                   step the uint8 (size, size, HISTORY) grey frames that the player saw, the oldest first, the action's
                   number and the reward that came of it, and whether it ended an episode; `after` is the player's own
                   value of the state after the last step. A step is FRAME_SKIP of the game's frames. The form is a
                   Segments.
SMALL_PICTURES     A sample is (picture,): uint8 (size, size, 3), RGB as stored; all of one shape. The form is a
                   SmallPictures.
"""

import collections

SENTENCE_PAIRS = "sentence pairs"
LABELLED_PICTURES = "labelled pictures"
BOXED_PICTURES = "pictures with boxes"
SMALL_PICTURES = "small pictures"
UTTERANCES = "utterances"
SEGMENTS = "segments of play"

# The source's and the target's Vocabulary; where both are of the same option, one vocabulary serves both languages.
SentencePairs = collections.namedtuple("SentencePairs", "source target")

# option: the model's option that says how many ids there are. size: its value. special: how many of the ids, the first
# ones, the model keeps for words of its own; they are in no sample. unknown: the special one that stands for every word
# that has no id; that one may be in samples.
Vocabulary = collections.namedtuple("Vocabulary", "option size special unknown")

# size: height and width in pixels. classes: how many there are, at most.
LabelledPictures = collections.namedtuple("LabelledPictures", "size classes")

# sampling_rate: in Hz. window, stride: of the spectrogram, in samples. ids: {character: id}, those of transcripts.
Utterances = collections.namedtuple("Utterances", "sampling_rate window stride ids")

# steps: of a segment. size: height and width of a frame in pixels. actions: how many there are.
Segments = collections.namedtuple("Segments", "steps size actions")
HISTORY, FRAME_SKIP = 4, 4  # arXiv 1312.5602, sections 4.1 and 5

# size: height and width in pixels.
SmallPictures = collections.namedtuple("SmallPictures", "size")

# shorter, longer: see above. classes: how many there are, at most. boxes: how many a picture may have.
BoxedPictures = collections.namedtuple("BoxedPictures", "shorter longer classes boxes")
