"""The Transformer in JAX. See specification.py for the definition."""

import jax
import jax.numpy as jnp

from tbd.frameworks.jax.layers import at_least_float32, dense, dropout, layer_norm

NEVER = -1e9  # added to a score: its exponential is then 0


class Network:
    """The loss of a batch (tbd/frameworks/jax/training.py)."""

    def __init__(self, specification):
        self.specification = specification
        self.draws = specification.options["dropout"] > 0

    def __call__(self, weights, inputs, update):
        return Pass(self.specification, weights, inputs.get("key")).loss(inputs), {}


class Pass:
    """One forward pass over `weights`, {canonical name: array}.

    `key`: what its dropouts' masks are drawn from; None where there is no dropout.
    """

    def __init__(self, specification, weights, key):
        self.specification, self.weights, self.key = specification, weights, key
        self.heads, self.layers = specification.options["heads"], range(specification.options["layers"])
        self.draws = 0

    def loss(self, inputs):
        # both sides in one look-up: the backward pass then makes one gradient of the embedding's size
        source, target = jnp.split(self.embed(jnp.concatenate([inputs["source"], inputs["target_input"]])), 2)
        length = source.shape[1]
        source_mask = jnp.where(positions_below(inputs["source_length"], length), 0.0, NEVER)[:, None, None]
        hidden = self.decode(target, self.encode(source, source_mask), source_mask)
        logits = logits_of(hidden, self.weights["embedding.weight"])
        losses = smoothed_cross_entropy(logits, inputs["target_output"], self.specification.options["label_smoothing"])
        real = positions_below(inputs["target_length"], length)
        return jnp.sum(jnp.where(real, losses, 0.0)) / jnp.sum(real)

    def embed(self, ids):
        embedded = self.weights["embedding.weight"][ids]
        positions = position_table(self.specification, ids.shape[1])
        return self.dropout((embedded * self.specification.embedding_scale + positions).astype(embedded.dtype))

    def encode(self, x, mask):
        for n in self.layers:
            x = self.sublayer(x, f"encoder.{n}.attention.", lambda y, p: self.self_attention(y, p, mask))
            x = self.sublayer(x, f"encoder.{n}.feedforward.", self.feedforward)
        return self.norm(x, "encoder.")

    def decode(self, x, memory, source_mask):
        # the padding comes last: no real position sees it, and what it sees itself goes nowhere
        causal = causal_mask(x.shape[1])
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
        """`parts` arrays (batch, length, heads, features of a head) of the product of that name."""
        y = self.product(x, name)
        return jnp.unstack(y.reshape(*y.shape[:2], parts, self.heads, -1), axis=2)

    def attention(self, query_key_value, prefix, mask):
        query, key, value = query_key_value
        # in the products' type, so that the gradients of this product are of it too
        score = at_least_float32(jnp.einsum("bthf,bshf->bhts", query, key))
        weight = jax.nn.softmax(score * query.shape[-1] ** -0.5 + mask.astype(score.dtype)).astype(value.dtype)
        sums = jnp.einsum("bhts,bshf->bthf", self.dropout(weight), value)
        return self.product(sums.reshape(*sums.shape[:2], -1), prefix + "output")

    def feedforward(self, x, prefix):
        return self.product(self.dropout(jax.nn.relu(self.product(x, prefix + "inner"))), prefix + "outer")

    def product(self, x, name):
        y = dense(x, self.weights[name + ".weight"])
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + bias.astype(y.dtype)

    def norm(self, x, prefix):
        weight, bias = self.weights[prefix + "norm.weight"], self.weights[prefix + "norm.bias"]
        return layer_norm(x, weight, bias, self.specification.norm_epsilon)

    def dropout(self, x):
        if self.key is None:
            return x
        self.draws += 1
        return dropout(x, self.specification.options["dropout"], jax.random.fold_in(self.key, self.draws))


def logits_of(hidden, embedding):
    return dense(hidden, embedding.T)


def smoothed_cross_entropy(logits, labels, smoothing):
    """-sum over w of p[w] log softmax(logits)[w] for each label, p as in the specification, in at least float32.

    What picks the label's logit is a comparison, which XLA fuses into the sums; a gather would have a scatter, over an
    array of the logits' size, for its gradient.
    """
    logits = at_least_float32(logits)
    words = jax.lax.broadcasted_iota(labels.dtype, logits.shape, logits.ndim - 1)
    right = jnp.sum(jnp.where(words == labels[..., None], logits, 0.0), -1)
    return jax.nn.logsumexp(logits, -1) - (1 - smoothing) * right - smoothing * jnp.mean(logits, -1)


def position_table(specification, length):
    """position[p] of the specification, (length, width)."""
    return jnp.asarray(specification.positions(length))


def causal_mask(length):
    """What is added to the scores (queries, keys)."""
    return jnp.triu(jnp.full((length, length), NEVER), 1)


def positions_below(lengths, size):
    """(batch, size) booleans: whether a position is within its row's length."""
    return jnp.arange(size) < lengths[:, None]


NETWORK = Network
