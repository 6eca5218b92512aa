"""Attention-based LSTM translation, as in the NMT tutorial that the TBD paper trained.

Sources: Luong, Brevdo and Zhao, "Neural Machine Translation (seq2seq) Tutorial", 2017 (sizes, reversed source,
vocabularies of IWSLT15 en-vi); Bahdanau et al., arXiv 1409.0473 (the attention); Luong et al., arXiv 1508.04025,
section 3.3 (input feeding); Hochreiter and Schmidhuber 1997 with forget gates (the LSTM).

    LSTM cell, gates in the order i, f, g, o, one bias:
        i, f, g, o = split(W_x x + W_h h + b);  c' = sigmoid(f) c + sigmoid(i) tanh(g);  h' = sigmoid(o) tanh(c')
    encoder: `layers` LSTMs over the embedded, reversed source from zero states. Past a sentence's length the state
        stays as it is; `memory` holds the top layer's outputs, and no attention falls on positions past the length.
    decoder, for each target position t, from the encoder's final states, layer by layer, and attentional[-1] = 0:
        x = [embedding(target_input[t]); attentional[t - 1]]                       input feeding
        h = the LSTM layers over x
        score[s] = v . tanh(W_memory memory[s] + W_query h)                        over real source positions s
        context = sum over s of softmax(score)[s] memory[s]
        attentional[t] = W_attention [h; context]
        logits[t] = W_output attentional[t]
    loss = cross-entropy summed over the real target tokens / number of real target tokens.

A batch: source (batch, S) int32 reversed, target_input and target_output (batch, T) int32, source_length and
target_length (batch,) int32. Ids 0, 1, 2 are <unk>, <s>, </s>, as in the tutorial; rows are padded at their end with
</s>.
"""

import collections

import numpy

from tbd.data import kinds
from tbd.data.options import Option
from tbd.models.specification import Specification, adam, parameter

UNKNOWN, BEGIN, END = 0, 1, 2
SPECIAL = 3  # ids that no word of a language has
BUCKETS = 10  # as in the TBD suite's seq2seq; the tutorial's own settings (standard_hparams/iwslt15.json) have 5


class Seq2Seq(Specification):
    name = "seq2seq"
    unit = "tokens"
    source = "NMT tutorial (Luong, Brevdo, Zhao 2017); arXiv 1409.0473; arXiv 1508.04025 section 3.3"
    SIZES = {
        # 17,191 and 7,709 are the vocabularies of the tutorial's IWSLT15 en-vi files, the three special words included
        "full": {
            "source_vocabulary": 17191,
            "target_vocabulary": 7709,
            "width": 512,
            "layers": 2,
            "synthetic_length": 20,
        },
        "small": {
            "source_vocabulary": 60,
            "target_vocabulary": 50,
            "width": 16,
            "layers": 2,
            "synthetic_length": 7,
        },
    }
    OPTIONS = {
        "source_vocabulary": Option(int, SPECIAL + 1),
        "target_vocabulary": Option(int, SPECIAL + 1),
        "width": Option(int, 1),
        "layers": Option(int, 1),
        "synthetic_length": Option(int, 1),
    }
    takes = (kinds.SENTENCE_PAIRS,)

    @property
    def parameters(self):
        o = self.options
        width = o["width"]
        uniform = ("uniform", 0.1)  # the tutorial's init_weight
        zero = ("constant", 0.0)
        found = [
            parameter("encoder.embedding", (o["source_vocabulary"], width), "embedding", uniform),
            parameter("decoder.embedding", (o["target_vocabulary"], width), "embedding", uniform),
        ]
        for side in ("encoder", "decoder"):
            for layer in range(o["layers"]):
                inputs = self.lstm_inputs(side, layer)
                prefix = "%s.%d." % (side, layer)
                found.append(parameter(prefix + "input", (4 * width, inputs), "dense", uniform))
                found.append(parameter(prefix + "hidden", (4 * width, width), "dense", uniform))
                found.append(parameter(prefix + "bias", (4 * width,), "vector", zero))
        found.append(parameter("attention.memory", (width, width), "dense", uniform))
        found.append(parameter("attention.query", (width, width), "dense", uniform))
        found.append(parameter("attention.v", (width,), "vector", uniform))
        found.append(parameter("attention.output", (width, 2 * width), "dense", uniform))
        found.append(parameter("output", (o["target_vocabulary"], width), "dense", uniform))
        return found

    def lstm_inputs(self, side, layer):
        """Input features of one LSTM: the decoder's first takes the embedding and the fed attentional vector."""
        return self.options["width"] * (2 if side == "decoder" and layer == 0 else 1)

    def optimizer(self, batch_size):
        # Adam with the defaults of arXiv 1412.6980; 3e-4 and the clipping at 1.0 as in Sockeye's and the paper's runs
        return adam(learning_rate=3e-4, clip_norm=1.0)

    def synthetic_batch(self, batch_size, random):
        """Sentences whose words are translated one by one from a dictionary of 40 words: learnable, in one shape."""
        o = self.options
        words = min(40, o["source_vocabulary"] - SPECIAL, o["target_vocabulary"] - SPECIAL)
        longest = o["synthetic_length"]
        sources, targets = [], []
        for _ in range(batch_size):
            sentence = random.randint(0, words, random.randint((longest + 1) // 2, longest + 1))
            sources.append(SPECIAL + sentence)
            targets.append(SPECIAL + (sentence * 7 + 1) % words)
        return batch_of(sources, targets, longest, longest + 1)

    def form(self, kind):
        o = self.options
        return kinds.SentencePairs(
            source=kinds.Vocabulary("source_vocabulary", o["source_vocabulary"], SPECIAL, UNKNOWN),
            target=kinds.Vocabulary("target_vocabulary", o["target_vocabulary"], SPECIAL, UNKNOWN),
        )

    def shapes_of(self, samples, longest):
        """The ceiling of the pair's bucket: pairs of similar length, by the longer side, are padded to one length.

        A bucket is ceil(longest / BUCKETS) lengths wide, as in the tutorial's nmt/utils/iterator_utils.py, whose
        buckets begin where these end: a ceiling is itself in the bucket, so that there are BUCKETS shapes and none is
        padded beyond `longest`.
        """
        width = -(-longest // BUCKETS)
        lengths = numpy.array([max(len(source), len(target)) for source, target in zip(*samples)])
        return numpy.minimum(-(-lengths // width) * width, longest).tolist()

    def batch_of(self, samples, shape, seeds):
        """Padded to `shape` words a side, of which the target has one more, <s> or </s>."""
        sources, targets = samples
        return batch_of(sources, targets, shape, shape + 1)

    def items(self, arrays):
        lengths = arrays["target_length"]
        return collections.OrderedDict([("tokens", int(lengths.sum())), ("sentences", len(lengths))])

    def loss_weight(self, arrays):
        return int(arrays["target_length"].sum())

    def macs(self, arrays):
        source, target = arrays["source_length"].astype(numpy.int64), arrays["target_length"].astype(numpy.int64)
        return self.macs_of(int(source.sum()), int(target.sum()), int((source * target).sum()))

    def macs_of(self, source, target, pairs):
        """Multiply-accumulates of a forward pass over so many source positions, target positions and pairs of both."""
        o = self.options
        width = o["width"]
        encoder = sum((self.lstm_inputs("encoder", n) + width) * 4 * width for n in range(o["layers"]))
        decoder = sum((self.lstm_inputs("decoder", n) + width) * 4 * width for n in range(o["layers"]))
        # attention: W_memory once a source position; W_query and W_attention once a target position; v and the weighted
        # sum once a pair of positions
        per_source = encoder + width * width
        per_target = decoder + width * width + 2 * width * width + width * o["target_vocabulary"]
        return source * per_source + target * per_target + pairs * 2 * width

    def flops(self, arrays):
        # forward, gradient by the weights and gradient by the input: 3 products, 2 operations a multiply-accumulate
        return 6 * self.macs(arrays)

    def work(self, arrays):
        batch, source = (int(n) for n in arrays["source"].shape)
        target = int(arrays["target_input"].shape[1])
        return 6 * self.macs_of(batch * source, batch * target, batch * source * target)


def batch_of(sources, targets, source_size, target_size):
    """The arrays of one batch from lists of id arrays (no special words in them), padded to the given sizes.

    The source is reversed; the target's input begins with <s> and its output ends with </s>.
    """
    count = len(sources)
    batch = {
        "source": numpy.full((count, source_size), END, numpy.int32),
        "target_input": numpy.full((count, target_size), END, numpy.int32),
        "target_output": numpy.full((count, target_size), END, numpy.int32),
        "source_length": numpy.array([len(s) for s in sources], numpy.int32),
        "target_length": numpy.array([len(t) + 1 for t in targets], numpy.int32),
    }
    for row, (source, target) in enumerate(zip(sources, targets)):
        batch["source"][row, : len(source)] = source[::-1]
        batch["target_input"][row, 0] = BEGIN
        batch["target_input"][row, 1 : len(target) + 1] = target
        batch["target_output"][row, : len(target)] = target
        batch["target_output"][row, len(target)] = END
    return batch


SPECIFICATION = Seq2Seq
