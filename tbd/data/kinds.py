"""The kinds of samples: what a source yields, what a model takes, and what a model says about those that it takes.

A source yields samples of one kind and knows no model; a model's specification takes samples of some kinds, whatever
source they are from. For each kind: what a sample is, and what `specification.form(kind)` gives, to which readers keep.
Samples come as columns, one for each part of a sample, each a list or array with an element a sample.

SENTENCE_PAIRS     A sample is (source, target): the ids of a sentence and of its translation, int32 arrays in reading
                   order, without special words and not empty; their lengths are in words. The form is a SentencePairs.
LABELLED_PICTURES  A sample is (picture, label): float32 (size, size, 3), RGB minus ImageNet's mean divided by its
                   standard deviation, and the class's number; all of one shape. The form is a LabelledPictures.
"""

import collections

SENTENCE_PAIRS = "sentence pairs"
LABELLED_PICTURES = "labelled pictures"

# The source's and the target's Vocabulary; where both are of the same option, one vocabulary serves both languages.
SentencePairs = collections.namedtuple("SentencePairs", "source target")

# option: the model's option that says how many ids there are. size: its value. special: how many of the ids, the first
# ones, the model keeps for words of its own; they are in no sample. unknown: the special one that stands for every word
# that has no id; that one may be in samples.
Vocabulary = collections.namedtuple("Vocabulary", "option size special unknown")

# size: height and width in pixels. classes: how many there are, at most.
LabelledPictures = collections.namedtuple("LabelledPictures", "size classes")
