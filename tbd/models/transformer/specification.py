"""The Transformer base network for translation, with tensor2tensor's normalisation before each sublayer.

Sources: Vaswani et al., "Attention Is All You Need", arXiv 1706.03762 (the network; section and table numbers below are
its); tensor2tensor's transformer_base_v2 and transformer_base_single_gpu (tensor2tensor/models/transformer.py) for what
was trained: normalisation before, dropout within, initialisers, warm-up. The batch is counted in tokens, as there.

d is `width`, h is `heads`. Both sentences of a pair are padded at their end to one length L.

    norm(x) = (x - mean) / sqrt(variance + 1e-6) * weight + bias       over the features; the variance is the biased one
    embed(ids)[p] = dropout(sqrt(d) * embedding[ids[p]] + position[p])                              sections 3.4 and 3.5
    position[p][2 i], position[p][2 i + 1] = sin(a), cos(a) with a = p / 10000^(2 i / d), p from 0
    attention(x, m): q = W_q x, k = W_k m, v = W_v m, each cut into h heads of d / h features, no biases
        score[t][s] = q[t] . k[s] / sqrt(d / h)                                                            section 3.2.1
        weight[t] = dropout(softmax of score[t] over the positions s that t may see)
        output = W_output [the heads' sums over s of weight[t][s] v[s], side by side]
    feedforward(x) = W_outer dropout(relu(W_inner x + b_inner)) + b_outer                                    section 3.3
    encoder: x = embed(source), then in each of its `layers`
            x = x + dropout(attention(norm(x), norm(x)))                      sees the source's real positions
            x = x + dropout(feedforward(norm(x)))
        memory = norm(x)
    decoder: y = embed(target_input), then in each of its `layers`
            y = y + dropout(attention(norm(y), norm(y)))                      t sees the positions up to itself
            y = y + dropout(attention(norm(y), memory))                       sees the source's real positions
            y = y + dropout(feedforward(norm(y)))
        logits = embedding norm(y)                                            the one embedding of both languages
    loss = mean over the real target tokens of -sum over words w of p[w] log softmax(logits)[w], with
        p = (1 - smoothing) on the right word + smoothing / vocabulary on every word, the right one too
                                        (section 5.4, by Szegedy et al., arXiv 1512.00567, section 7)

Each norm has a weight and a bias of its own. dropout(x) is x / (1 - rate) with probability 1 - rate and 0 otherwise, by
a mask that is new for each use and each step and that the framework draws.

A batch: source, target_input and target_output (batch, L) int32; source_length and target_length (batch,) int32. Ids 0
to 3 are the padding, the unknown word, <s> and </s>. Source and target_output end with </s>, target_input begins with
<s>.
"""

import collections
import math

import numpy

from tbd.data import kinds
from tbd.data.options import Option
from tbd.models.specification import Specification, adam, parameter

PAD, UNKNOWN, BEGIN, END = range(4)
SPECIAL = 4  # ids that no word of a language has
ALIGNED = 8  # lengths are multiples of it: tensor cores and fused attention want sizes that are
SHAPES = 12  # of batches, at most: XLA compiles each

FREQUENCY_BASE = 10000.0  # section 3.5
FACTOR = 2.0  # of the learning rate: 10 times transformer_base_v2's learning_rate of 0.2 (utils/learning_rate.py)


class Transformer(Specification):
    name = "transformer"
    unit = "tokens"
    source = "arXiv 1706.03762; tensor2tensor's transformer_base_v2 and transformer_base_single_gpu"
    SIZES = {
        "full": {
            "vocabulary": 32768,
            "width": 512,
            "feedforward": 2048,
            "heads": 8,
            "layers": 6,
            "dropout": 0.1,
            "label_smoothing": 0.1,
            "warmup_steps": 16000,
            "synthetic_length": 64,
        },
        # without dropout, so that frameworks can be compared; a warm-up with which a few steps move something
        "small": {
            "vocabulary": 60,
            "width": 16,
            "feedforward": 32,
            "heads": 2,
            "layers": 2,
            "dropout": 0.0,
            "label_smoothing": 0.1,
            "warmup_steps": 400,
            "synthetic_length": 8,
        },
    }
    OPTIONS = {
        "vocabulary": Option(int, SPECIAL + 1),
        "width": Option(int, 2),
        "feedforward": Option(int, 1),
        "heads": Option(int, 1),
        "layers": Option(int, 1),
        "dropout": Option(float, 0.0, 0.9),
        "label_smoothing": Option(float, 0.0, 1.0),
        "warmup_steps": Option(int, 1),
        "synthetic_length": Option(int, 3),
    }
    takes = (kinds.SENTENCE_PAIRS,)

    norm_epsilon = 1e-6  # tensor2tensor's layer_norm (layers/common_layers.py); the paper has no figure

    def check(self, batch_size):
        width, heads = self.options["width"], self.options["heads"]
        if width % 2 or width % heads:
            message = "model.width=%d must be even, and a multiple of model.heads=%d"
            raise ValueError(message % (width, heads))

    @property
    def parameters(self):
        o = self.options
        width, inner = o["width"], o["feedforward"]
        # tensor2tensor's symbol modality
        found = [parameter("embedding.weight", (o["vocabulary"], width), "embedding", ("normal", width**-0.5))]

        def dense(name, shape, fans):
            # "uniform_unit_scaling" with gain 1: variance 1 / the mean of what goes in and out, of each product alone
            half = math.sqrt(6.0 / sum(fans))
            found.append(parameter(name + ".weight", shape, "dense", ("uniform", half)))

        def vector(name, size, value):
            found.append(parameter(name, (size,), "vector", ("constant", value)))

        def norm(prefix):
            vector(prefix + "weight", width, 1.0)
            vector(prefix + "bias", width, 0.0)

        def attention(prefix, joined):
            norm(prefix + "norm.")
            for name, products in joined:
                dense(prefix + name, (products * width, width), (width, width))
            dense(prefix + "output", (width, width), (width, width))

        def feedforward(prefix):
            norm(prefix + "norm.")
            dense(prefix + "inner", (inner, width), (inner, width))
            vector(prefix + "inner.bias", inner, 0.0)
            dense(prefix + "outer", (width, inner), (inner, width))
            vector(prefix + "outer.bias", width, 0.0)

        for side in ("encoder", "decoder"):
            for layer in range(o["layers"]):
                prefix = "%s.%d." % (side, layer)
                # W_q, W_k and W_v one below the other where they have the same input; then W_k and W_v
                attention(prefix + "attention.", [("qkv", 3)])
                if side == "decoder":
                    attention(prefix + "memory.", [("query", 1), ("key_value", 2)])
                feedforward(prefix + "feedforward.")
            norm(side + ".norm.")
        return found

    def optimizer(self, batch_size):
        # section 5.3, with a factor and the warm-up of one GPU; the first step's learning rate is not 0
        width, warmup = self.options["width"], self.options["warmup_steps"]

        def rate(step):
            return FACTOR * width**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5)

        return adam(rate, beta1=0.9, beta2=0.98, epsilon=1e-9)

    @property
    def embedding_scale(self):
        return self.options["width"] ** 0.5

    def positions(self, length):
        """position[p] for p below `length`: float64 (length, d)."""
        angles = numpy.arange(length)[:, None] * self.frequencies
        return numpy.stack([numpy.sin(angles), numpy.cos(angles)], 2).reshape(length, -1)

    @property
    def frequencies(self):
        """10000^(-2 i / d) for i from 0 to d / 2 - 1, float64."""
        width = self.options["width"]
        return FREQUENCY_BASE ** (-numpy.arange(0, width, 2) / float(width))

    def synthetic_batch(self, batch_size, random):
        """Sentences whose words, all but the first, are translated one by one from a dictionary of 40: learnable.

        All of one shape, `synthetic_length` with </s>, and as long as the pairs of one bucket are.
        """
        longest = self.options["synthetic_length"] - 1
        words = min(40, self.options["vocabulary"] - SPECIAL)
        sources, targets = [], []
        for _ in range(self.rows(longest + 1, batch_size)):
            sentence = random.randint(0, words, random.randint(max(2, longest + 1 - ALIGNED), longest + 1))
            sources.append(SPECIAL + sentence)
            targets.append(SPECIAL + (sentence[1:] * 7 + 1) % words)
        return batch_of(sources, targets, longest + 1)

    def form(self, kind):
        both = kinds.Vocabulary("vocabulary", self.options["vocabulary"], SPECIAL, UNKNOWN)
        return kinds.SentencePairs(source=both, target=both)

    def shapes_of(self, samples, longest):
        """L: the longer side's length with </s>, rounded up to a multiple of 8, or of as much as leaves 12 shapes."""
        step = ALIGNED * -(-(longest + 1) // (ALIGNED * SHAPES))
        lengths = numpy.array([max(len(source), len(target)) + 1 for source, target in zip(*samples)])
        return (-(-lengths // step) * step).tolist()

    def rows(self, shape, batch_size):
        """As many pairs as have `batch_size` target tokens, padding included."""
        return batch_size // shape

    def batch_of(self, samples, shape, seeds):
        sources, targets = samples
        return batch_of(sources, targets, shape)

    def items(self, arrays):
        lengths = arrays["target_length"]
        return collections.OrderedDict([("tokens", int(lengths.sum())), ("sentences", len(lengths))])

    def loss_weight(self, arrays):
        return int(arrays["target_length"].sum())

    def macs(self, arrays):
        """A score counts wherever both its positions are real; those above the diagonal too, as in torch's counter."""
        source, target = arrays["source_length"].astype(numpy.int64), arrays["target_length"].astype(numpy.int64)
        pairs = [int((a * b).sum()) for a, b in ((source, source), (target, target), (source, target))]
        return self.macs_of(int(source.sum()), int(target.sum()), sum(pairs))

    def macs_of(self, source, target, pairs):
        """From the numbers of source positions, of target positions and of pairs of positions in all attentions."""
        o = self.options
        width, layers = o["width"], o["layers"]
        feedforward = 2 * width * o["feedforward"]
        # W_q, W_k, W_v and W_output; the decoder's second attention has W_k and W_v over the source
        per_source = layers * (4 * width * width + feedforward + 2 * width * width)
        per_target = layers * (4 * width * width + feedforward + 2 * width * width) + width * o["vocabulary"]
        return source * per_source + target * per_target + pairs * layers * 2 * width

    def flops(self, arrays):
        # forward, gradient by the weights and gradient by the input: 3 products, 2 operations a multiply-accumulate
        return 6 * self.macs(arrays)

    def work(self, arrays):
        batch, length = (int(n) for n in arrays["source"].shape)
        return 6 * self.macs_of(batch * length, batch * length, 3 * batch * length * length)


def batch_of(sources, targets, length):
    """The arrays of one batch from lists of id arrays (no special words in them), padded to `length` positions."""
    count = len(sources)
    batch = {
        name: numpy.full((count, length), PAD, numpy.int32) for name in ("source", "target_input", "target_output")
    }
    batch["source_length"] = numpy.array([len(s) + 1 for s in sources], numpy.int32)
    batch["target_length"] = numpy.array([len(t) + 1 for t in targets], numpy.int32)
    for row, (source, target) in enumerate(zip(sources, targets)):
        batch["source"][row, : len(source)] = source
        batch["source"][row, len(source)] = END
        batch["target_input"][row, 0] = BEGIN
        batch["target_input"][row, 1 : len(target) + 1] = target
        batch["target_output"][row, : len(target)] = target
        batch["target_output"][row, len(target)] = END
    return batch


SPECIFICATION = Transformer
