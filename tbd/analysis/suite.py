"""The suite of the TBD paper (Zhu et al., IISWC 2018): which model stands for which field, and what it is made of."""

from typing import NamedTuple


class Entry(NamedTuple):
    """One model: the field it stands for, and the kind of layer that most of its work is in."""

    field: str
    layer: str


CONVOLUTION, RECURRENT_LAYER, ATTENTION = "convolution", "recurrent", "attention"
SUITE = {
    "resnet50": Entry("image classification", CONVOLUTION),
    "inception_v3": Entry("image classification", CONVOLUTION),
    "seq2seq": Entry("machine translation", RECURRENT_LAYER),
    "transformer": Entry("machine translation", ATTENTION),
    "faster_rcnn": Entry("object detection", CONVOLUTION),
    "deep_speech2": Entry("speech recognition", RECURRENT_LAYER),
    "wgan": Entry("adversarial learning", CONVOLUTION),
    "a3c": Entry("reinforcement learning", CONVOLUTION),
}
# What the paper's abstract compares: recurrent networks with image classification.
CLASSIFIERS = tuple(model for model, entry in SUITE.items() if entry.field == "image classification")
RECURRENT = tuple(model for model, entry in SUITE.items() if entry.layer == RECURRENT_LAYER)
LSTM = ("seq2seq",)  # deep_speech2's cells are GRUs or plain ones
FIXED_BATCH = ("faster_rcnn",)  # one picture a step, as in its source: there is no sweep over it
