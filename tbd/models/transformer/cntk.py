"""The Transformer in CNTK. See specification.py for the definition. Python 3.6 syntax.

A row of the batch is a sentence, (positions, width). In the attentions it is one head of a sentence: CNTK multiplies
two matrices that both are of the batch row by row.
"""

import cntk as C
import numpy

from tbd.frameworks.cntk.layers import cross_entropy, dense, dropout, layer_norm, sum_of_all

NEVER = -1e9  # added to a score: its exponential is then 0


class Network:
    """The loss of a batch (tbd/frameworks/cntk/training.py)."""

    def __init__(self, specification, weights):
        self.specification, self.weights = specification, weights

    def __call__(self, inputs, update, rows):
        return Pass(self.specification, self.weights, rows).loss(inputs), []


class Pass:
    """One forward pass over so many rows."""

    def __init__(self, specification, weights, rows):
        self.specification, self.weights, self.rows = specification, weights, rows
        self.heads, self.layers = specification.options["heads"], range(specification.options["layers"])
        self.width = specification.options["width"]
        self.dtype = weights["embedding.weight"].dtype

    def loss(self, batch):
        self.length = batch["source"].shape[0]
        source, target = self.embed(batch["source"]), self.embed(batch["target_input"])
        memory_mask = self.for_each_head((1 - self.real(batch["source_length"])) * NEVER)
        hidden = self.decode(target, self.encode(source, memory_mask), memory_mask)
        # every position is a row from here on
        hidden, labels, real = (
            self.positions(x) for x in (hidden, batch["target_output"], self.real(batch["target_length"]))
        )
        logits = logits_of(hidden, self.weights["embedding.weight"])
        losses = cross_entropy(logits, labels, self.specification.options["label_smoothing"])
        return sum_of_all(losses * real) / sum_of_all(batch["target_length"])

    def positions(self, x):
        return C.to_batch(C.reshape(C.unpack_batch(x), (self.rows * self.length,) + x.shape[1:]))

    def real(self, lengths):
        """1 at the positions within a row's length, else 0: (positions,)."""
        return C.less(C.Constant(numpy.arange(self.length, dtype=self.dtype)), lengths)

    def for_each_head(self, mask):
        """(1, positions) for each head of each sentence."""
        zeros = C.Constant(numpy.zeros((self.heads, 1), self.dtype))
        return self.joined(C.reshape(C.reshape(mask, (1, self.length)) + zeros, (self.heads, 1, self.length)))

    def joined(self, x):
        """(heads, ...) of each sentence as rows of the batch."""
        return C.to_batch(C.reshape(C.unpack_batch(x), (self.rows * self.heads,) + x.shape[1:]))

    def apart(self, x):
        """The other way round."""
        return C.to_batch(C.reshape(C.unpack_batch(x), (self.rows, self.heads) + x.shape))

    def embed(self, ids):
        embedded = C.gather(self.weights["embedding.weight"], ids) * self.specification.embedding_scale
        return self.dropout(embedded + C.Constant(position_table(self.specification, self.length).astype(self.dtype)))

    def encode(self, x, mask):
        for n in self.layers:
            x = self.sublayer(x, "encoder.%d.attention." % n, lambda y, p: self.self_attention(y, p, mask))
            x = self.sublayer(x, "encoder.%d.feedforward." % n, self.feedforward)
        return self.norm(x, "encoder.")

    def decode(self, x, memory, memory_mask):
        # the padding comes last: no real position sees it, and what it sees itself goes nowhere
        causal = C.Constant(causal_mask(self.length).astype(self.dtype))
        for n in self.layers:
            x = self.sublayer(x, "decoder.%d.attention." % n, lambda y, p: self.self_attention(y, p, causal))
            x = self.sublayer(
                x, "decoder.%d.memory." % n, lambda y, p: self.memory_attention(y, p, memory, memory_mask)
            )
            x = self.sublayer(x, "decoder.%d.feedforward." % n, self.feedforward)
        return self.norm(x, "decoder.")

    def sublayer(self, x, prefix, compute):
        return x + self.dropout(compute(self.norm(x, prefix), prefix))

    def self_attention(self, x, prefix, mask):
        return self.attention(self.split(x, prefix + "qkv", 3), prefix, mask)

    def memory_attention(self, x, prefix, memory, mask):
        query, key_value = self.split(x, prefix + "query", 1), self.split(memory, prefix + "key_value", 2)
        return self.attention(query + key_value, prefix, mask)

    def split(self, x, name, parts):
        """`parts` Functions, (positions, features of a head) for each head, of the product of that name."""
        features = self.width // self.heads
        y = C.reshape(self.product(x, name), (self.length, parts, self.heads, features))
        y = C.transpose(y, (1, 2, 0, 3))
        shape = self.heads, self.length, features
        return [self.joined(C.reshape(C.slice(y, 0, n, n + 1), shape)) for n in range(parts)]

    def attention(self, query_key_value, prefix, mask):
        query, key, value = query_key_value
        score = C.times_transpose(query * (self.width // self.heads) ** -0.5, key)
        sums = C.times(self.dropout(C.softmax(score + mask, axis=-1)), value)
        sums = C.transpose(self.apart(sums), (1, 0, 2))
        return self.product(C.reshape(sums, (self.length, self.width)), prefix + "output")

    def feedforward(self, x, prefix):
        return self.product(self.dropout(C.relu(self.product(x, prefix + "inner"))), prefix + "outer")

    def product(self, x, name):
        return dense(x, self.weights[name + ".weight"], self.weights.get(name + ".bias"))

    def norm(self, x, prefix):
        weight, bias = self.weights[prefix + "norm.weight"], self.weights[prefix + "norm.bias"]
        return layer_norm(x, weight, bias, self.specification.norm_epsilon)

    def dropout(self, x):
        return dropout(x, self.specification.options["dropout"])


def logits_of(hidden, embedding):
    return dense(hidden, embedding)


def position_table(specification, length):
    """position[p] of the specification, (length, width) float64."""
    return specification.positions(length)


def causal_mask(length):
    """What is added to the scores (queries, keys)."""
    return numpy.triu(numpy.full((length, length), NEVER), 1)


NETWORK = Network
