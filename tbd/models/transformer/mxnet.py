"""The Transformer in MXNet. See specification.py for the definition."""

from mxnet import sym

from tbd.frameworks.mxnet.layers import (
    cross_entropy,
    dense,
    dropout,
    embedding,
    layer_norm,
    positions_below,
    relu,
    shape_of,
    type_of,
    unstacked,
)
from tbd.models.transformer.specification import FREQUENCY_BASE

NEVER = -1e9  # added to a score: its exponential is then 0


class Network:
    """The loss of a batch (tbd/frameworks/mxnet/training.py)."""

    def __init__(self, specification):
        self.specification = specification

    def __call__(self, weights, inputs, update):
        return Pass(self.specification, weights).loss(inputs), {}


class Pass:
    """One forward pass over `weights`, {canonical name: symbol}."""

    def __init__(self, specification, weights):
        self.specification, self.weights = specification, weights
        self.heads, self.layers = specification.options["heads"], range(specification.options["layers"])
        self.width = specification.options["width"]
        self.dtype = type_of(weights["embedding.weight"])

    def loss(self, batch):
        self.batch, self.length = shape_of(batch["source"])
        # both sides in one look-up: the backward pass then makes one gradient of the embedding's size
        both = self.embed(sym.concat(batch["source"], batch["target_input"], dim=0))
        source, target = sym.SliceChannel(both, num_outputs=2, axis=0)
        real = positions_below(batch["source_length"], self.length, self.dtype)
        source_mask = sym.reshape((1 - real) * NEVER, (self.batch, 1, 1, self.length))
        hidden = self.decode(target, self.encode(source, source_mask), source_mask)
        logits = logits_of(sym.reshape(hidden, (-1, self.width)), self.weights["embedding.weight"])
        labels = sym.reshape(batch["target_output"], (-1,))
        losses = cross_entropy(logits, labels, self.specification.options["label_smoothing"])
        real = sym.reshape(positions_below(batch["target_length"], self.length, self.dtype), (-1,))
        return sym.sum(losses * real) / sym.sum(real)

    def embed(self, ids):
        embedded = embedding(ids, self.weights["embedding.weight"]) * self.specification.embedding_scale
        positions = sym.cast(position_table(self.specification, self.length), self.dtype)
        return self.dropout(sym.broadcast_add(embedded, sym.expand_dims(positions, 0)))

    def encode(self, x, mask):
        for n in self.layers:
            x = self.sublayer(x, f"encoder.{n}.attention.", lambda y, p: self.self_attention(y, p, mask))
            x = self.sublayer(x, f"encoder.{n}.feedforward.", self.feedforward)
        return self.norm(x, "encoder.")

    def decode(self, x, memory, source_mask):
        # the padding comes last: no real position sees it, and what it sees itself goes nowhere
        causal = causal_mask(self.length, self.dtype)
        for n in self.layers:
            x = self.sublayer(x, f"decoder.{n}.attention.", lambda y, p: self.self_attention(y, p, causal))
            x = self.sublayer(x, f"decoder.{n}.memory.", lambda y, p: self.memory_attention(y, p, memory, source_mask))
            x = self.sublayer(x, f"decoder.{n}.feedforward.", self.feedforward)
        return self.norm(x, "decoder.")

    def sublayer(self, x, prefix, compute):
        return x + self.dropout(compute(self.norm(x, prefix), prefix))

    def self_attention(self, x, prefix, mask):
        return self.attention(self.split(x, prefix + "qkv", 3), prefix, mask)

    def memory_attention(self, x, prefix, memory, mask):
        query, key_value = self.split(x, prefix + "query", 1), self.split(memory, prefix + "key_value", 2)
        return self.attention([*query, *key_value], prefix, mask)

    def split(self, x, name, parts):
        """`parts` symbols (batch x heads, length, features of a head) of the product of that name."""
        features = self.width // self.heads
        y = sym.reshape(self.product(x, name), (self.batch, self.length, parts, self.heads, features))
        shape = (parts, self.batch * self.heads, self.length, features)
        return unstacked(sym.reshape(sym.transpose(y, (2, 0, 3, 1, 4)), shape), parts)

    def attention(self, query_key_value, prefix, mask):
        query, key, value = query_key_value
        score = sym.batch_dot(query * (self.width // self.heads) ** -0.5, key, transpose_b=True)
        apart = (self.batch, self.heads, self.length, self.length)
        weight = self.dropout(sym.softmax(sym.broadcast_add(sym.reshape(score, apart), mask)))
        sums = sym.batch_dot(sym.reshape(weight, (-1, self.length, self.length)), value)
        sums = sym.transpose(sym.reshape(sums, (self.batch, self.heads, self.length, -1)), (0, 2, 1, 3))
        return self.product(sym.reshape(sums, (self.batch, self.length, self.width)), prefix + "output")

    def feedforward(self, x, prefix):
        return self.product(self.dropout(relu(self.product(x, prefix + "inner"))), prefix + "outer")

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
    width = specification.options["width"]
    pairs = sym.reshape(sym.arange(0, width, 2, dtype="float64"), (1, -1))
    frequencies = FREQUENCY_BASE ** (pairs * (-1.0 / width))
    angles = sym.broadcast_mul(sym.reshape(sym.arange(length, dtype="float64"), (-1, 1)), frequencies)
    return sym.reshape(sym.stack(sym.sin(angles), sym.cos(angles), axis=2), (length, width))


def causal_mask(length, dtype):
    """What is added to the scores (1, 1, queries, keys)."""
    positions = sym.arange(length, dtype=dtype)
    later = sym.broadcast_greater(sym.reshape(positions, (1, -1)), sym.reshape(positions, (-1, 1)))
    return sym.reshape(later * NEVER, (1, 1, length, length))


NETWORK = Network
