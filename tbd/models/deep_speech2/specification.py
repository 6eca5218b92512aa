"""Deep Speech 2: speech to characters by convolutions and bidirectional recurrent layers, trained by CTC.

Sources: Amodei et al., arXiv 1512.02595, section 3 (the network); the TBD suite's MXNet example/speech_recognition
(sizes, spectrogram, optimizer); SeanNaren/deepspeech.pytorch, which MLPerf Training v0.5 took over (what these leave
open).

    frames: a log spectrogram, 161 bins of windows of 20 ms every 10 ms (tbd/data/kinds.py, UTTERANCES, has the formula)
    conv1 11x41 (time x frequency) stride 2x2, conv2 11x21 stride 1x2, each `channels` wide, padding (kernel - 1) / 2 on
        both sides ("same", section 3.5), no bias; after each bn and min(max(x, 0), 20). n frames give ceil(n / 2) steps
        of 41 x channels features, the channel running fastest.
    `layers` bidirectional recurrent layers of `width`, both directions from zero states:
        gru   r, z, n: three parts of W x + b, and r', z', n' those of U h:
              r = sigmoid(r + r');  z = sigmoid(z + z');  n = tanh(n + r n');  h' = (1 - z) n + z h
        rnn   h' = tanh(W x + b + U h)
        A layer's output is the sum of both directions (section 3.1). The reset gate acts after the product with U, one
        bias (section 3.4), tanh for the paper's clipped ReLU, of which it says that they do equally well: what fused
        operators compute. The suite's example resets before the product, and joins whole stacks of one direction.
    Before every recurrent layer but the first, and before the output, bn. As in deepspeech.pytorch it acts on the
        layer's input; section 3.2 has it on W x, which no fused operator can do.
    logits = W_output x, without bias: 29 characters a step, of which 0 is CTC's blank.
    bn: batch norm with statistics over all real steps of the batch ("sequence-wise", section 3.2), in the convolutions
        over the frequencies too. Steps past an utterance's end are no part of them, and are 0 for the next convolution.
    loss = the mean over the utterances of -log P(transcript | frames) by CTC (Graves et al. 2006), over the real steps.
        It is not divided by the transcript's length.

So nothing past the end of an utterance changes anything: it may be padded to any length.

A batch: frames (batch, T, 161) float32 and labels (batch, T / 4) int32, both 0 past their lengths frame_length and
label_length (batch,) int32.
"""

import collections

import numpy

from tbd.data import kinds
from tbd.data.options import Option
from tbd.models.specification import Specification, parameter, sgd

SAMPLING_RATE, WINDOW, STRIDE = 16000, 320, 160  # samples: 20 ms every 10 ms (stt_utils.py of the suite's example)
BINS = WINDOW // 2 + 1
ALPHABET = "_'ABCDEFGHIJKLMNOPQRSTUVWXYZ "  # of deepspeech.pytorch (labels.json); a character's id is its place
BLANK = 0

KERNELS = ((11, 41), (11, 21))  # time, frequency
STRIDES = ((2, 2), (1, 2))
BUCKETS = 8  # half as many as the example's deepspeech.cfg, which has one a second: a framework may compile each
FRAMES_PER_CHARACTER = 4  # 25 characters a second are room enough: readers come to about 15
SPOKEN = (6, 13)  # frames of a synthetic character, from and below: more than CTC needs


class DeepSpeech2(Specification):
    name = "deep_speech2"
    unit = "audio_seconds"
    source = "arXiv 1512.02595; MXNet example/speech_recognition; SeanNaren/deepspeech.pytorch"
    SIZES = {
        "full": {"cell": "gru", "width": 1760, "layers": 7, "channels": 32, "synthetic_length": 200},
        "small": {"cell": "gru", "width": 16, "layers": 2, "channels": 4, "synthetic_length": 40},
    }
    OPTIONS = {
        "cell": Option(str, choices=("gru", "rnn")),
        "width": Option(int, 1),
        "layers": Option(int, 1),
        "channels": Option(int, 1),
        "synthetic_length": Option(int, 4 * SPOKEN[0]),
    }
    takes = (kinds.UTTERANCES,)

    # Batch norm as tbd/models/resnet50/specification.py defines it; PyTorch's defaults, as in deepspeech.pytorch.
    batch_norm_epsilon = 1e-5
    batch_norm_momentum = 0.1
    clip = 20.0  # the convolutions' outputs are at most that (section 3.1)

    @property
    def gates(self):
        """Rows of a recurrent weight, in widths."""
        return {"gru": 3, "rnn": 1}[self.options["cell"]]

    @property
    def convolutions(self):
        """(name, in channels, out channels, kernel, stride, output bins) of both."""
        channels, bins, found = 1, BINS, []
        for n, (kernel, stride) in enumerate(zip(KERNELS, STRIDES)):
            bins = halved(bins)
            found.append(("conv%d" % (n + 1), channels, self.options["channels"], kernel, stride, bins))
            channels = self.options["channels"]
        return found

    @property
    def recurrent_inputs(self):
        """Features that each recurrent layer takes."""
        _, _, channels, _, _, bins = self.convolutions[-1]
        return [channels * bins] + (self.options["layers"] - 1) * [self.options["width"]]

    @property
    def norms(self):
        """(name, features) of each batch norm, in order."""
        found = [(batch_norm_of(name), out) for name, _, out, _, _, _ in self.convolutions]
        found.extend(("recurrent.%d.bn" % layer, self.options["width"]) for layer in range(1, self.options["layers"]))
        return found + [("output.bn", self.options["width"])]

    @property
    def parameters(self):
        """255,868,224 numbers at full size: conv1 11 x 41 x 32, conv2 32 x 11 x 21 x 32; a recurrent layer
        2 x 3 x 1760 x (inputs + 1760 + 1), with 1312 inputs in the first and 1760 in the six others; batch norms 2 a
        feature, of which there are 32 + 32 + 7 x 1760; the output 29 x 1760.

        Weights are uniform within 1 / sqrt(inputs), those of recurrent layers within 1 / sqrt(width): PyTorch's
        defaults, with which deepspeech.pytorch begins. The paper names none.
        """
        width = self.options["width"]
        found = []
        for name, channels, out, kernel, _, _ in self.convolutions:
            shape = (out, channels) + kernel
            found.append(parameter(name + ".weight", shape, "conv", within(channels * kernel[0] * kernel[1])))
        for layer, inputs in enumerate(self.recurrent_inputs):
            for direction in ("forward", "backward"):
                prefix = "recurrent.%d.%s." % (layer, direction)
                rows = self.gates * width
                found.append(parameter(prefix + "input", (rows, inputs), "dense", within(width)))
                found.append(parameter(prefix + "hidden", (rows, width), "dense", within(width)))
                found.append(parameter(prefix + "bias", (rows,), "vector", ("constant", 0.0)))
        for norm, features in self.norms:
            found.append(parameter(norm + ".weight", (features,), "vector", ("constant", 1.0)))
            found.append(parameter(norm + ".bias", (features,), "vector", ("constant", 0.0)))
            found.append(parameter(norm + ".running_mean", (features,), "vector", ("constant", 0.0), role="statistic"))
            found.append(parameter(norm + ".running_var", (features,), "vector", ("constant", 1.0), role="statistic"))
        found.append(parameter("output", (len(ALPHABET), width), "dense", within(width)))
        return found

    def optimizer(self, batch_size):
        # deepspeech.cfg of the suite's example, without its slower pace in later epochs. Its bound of 100 is one for
        # each number of a gradient; here it is one for the norm of all, as the paper has it
        return sgd(learning_rate=3e-4, momentum=0.9, clip_norm=100.0)

    def synthetic_batch(self, batch_size, random):
        """Utterances of half the longest or more: each character a spectrum of its own, for 60 to 120 ms, and noise."""
        longest = self.options["synthetic_length"]
        spectra = numpy.random.RandomState(0).standard_normal((len(ALPHABET), BINS))
        spectra[BLANK] = 0.0  # what is left after the last whole character
        frames, labels = [], []
        for _ in range(batch_size):
            count = random.randint((longest + 1) // 2, longest + 1)
            ends = numpy.cumsum(random.randint(SPOKEN[0], SPOKEN[1], count // SPOKEN[0]))
            ends = ends[ends <= count]
            label = random.randint(BLANK + 1, len(ALPHABET), len(ends)).astype(numpy.int32)
            spoken = numpy.append(label, BLANK)[numpy.searchsorted(ends, numpy.arange(count), side="right")]
            frames.append(spectra[spoken] + random.standard_normal((count, BINS)))
            labels.append(label)
        return batch_of(frames, labels, longest)

    def form(self, kind):
        ids = {character: place for place, character in enumerate(ALPHABET) if place != BLANK}
        return kinds.Utterances(sampling_rate=SAMPLING_RATE, window=WINDOW, stride=STRIDE, ids=ids)

    def shapes_of(self, samples, longest):
        """The frames of the bucket in which frames and characters have room; BUCKETS of them, equally wide.

        None where CTC has no path: each character needs a step, and a blank between two that are the same.
        """
        width = -(-longest // BUCKETS)
        shapes = []
        for count, label in zip(*samples):
            needed = max(count, len(label) * FRAMES_PER_CHARACTER)
            fits = needed <= longest and len(label) + repeats(label) <= steps_of(count)
            shapes.append(min(-(-needed // width) * width, longest) if fits else None)
        return shapes

    def batch_of(self, samples, shape, seeds):
        frames, labels = samples
        return batch_of(frames, labels, shape)

    def items(self, arrays):
        lengths = arrays["frame_length"]
        seconds = float(lengths.sum()) * STRIDE / SAMPLING_RATE
        return collections.OrderedDict([("audio_seconds", seconds), ("utterances", len(lengths))])

    def macs(self, arrays):
        return int(steps_of(arrays["frame_length"].astype(numpy.int64)).sum()) * sum(self.macs_of_a_step())

    def macs_of_a_step(self):
        """(of conv1, of the rest): multiply-accumulates of a forward pass for one step, which is 20 ms of sound.

        At full size 1,168,992 = 11 x 41 x 32 x 81 and 265,216,864: conv2 32 x 11 x 21 x 32 x 41, seven recurrent layers
        of 2 x 3 x 1760 x (inputs + 1760), with 1312 inputs in the first and 1760 in the others, the output 29 x 1760.
        """
        width = self.options["width"]
        first, second = (c * out * k[0] * k[1] * bins for _, c, out, k, _, bins in self.convolutions)
        recurrent = sum(2 * self.gates * width * (inputs + width) for inputs in self.recurrent_inputs)
        return first, second + recurrent + len(ALPHABET) * width

    def flops(self, arrays):
        return self.flops_of(int(steps_of(arrays["frame_length"].astype(numpy.int64)).sum()))

    def flops_of(self, steps):
        # forward, gradient by the weights and gradient by the input are one product each; the first convolution needs
        # no gradient by its input (the frames)
        first, rest = self.macs_of_a_step()
        return 2 * steps * (2 * first + 3 * rest)

    def work(self, arrays):
        batch, frames = (int(n) for n in arrays["frames"].shape[:2])
        return self.flops_of(batch * steps_of(frames))


def within(inputs):
    return ("uniform", inputs**-0.5)


def halved(size):
    """Outputs of a layer of stride 2 here, all of which pad to ceil(size / 2)."""
    return (size + 1) // 2


def steps_of(frames):
    """Steps that so many frames give."""
    return halved(frames)


def repeats(label):
    """How often a character follows its like."""
    label = numpy.asarray(label)
    return int((label[1:] == label[:-1]).sum())


def batch_norm_of(convolution):
    """The name of the batch norm that follows a convolution: conv1 -> bn1."""
    return convolution.replace("conv", "bn")


def batch_of(frames, labels, size):
    """The arrays of one batch from lists of spectrograms and id arrays, padded to `size` frames."""
    count = len(frames)
    batch = {
        "frames": numpy.zeros((count, size, BINS), numpy.float32),
        "labels": numpy.full((count, size // FRAMES_PER_CHARACTER), BLANK, numpy.int32),
        "frame_length": numpy.array([len(f) for f in frames], numpy.int32),
        "label_length": numpy.array([len(label) for label in labels], numpy.int32),
    }
    for row, (spectrogram, label) in enumerate(zip(frames, labels)):
        batch["frames"][row, : len(spectrogram)] = spectrogram
        batch["labels"][row, : len(label)] = label
    return batch


SPECIFICATION = DeepSpeech2
