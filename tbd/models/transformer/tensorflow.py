"""The Transformer in TensorFlow. See specification.py for the definition."""

import tensorflow as tf

from tbd.frameworks.tensorflow.layers import at_least_float32, dropout, layer_norm

NEVER = -1e9  # added to a score: its exponential is then 0


class Network:
    """The loss of a batch (tbd/frameworks/tensorflow/training.py)."""

    generator = None  # what dropout draws from, given by the adapter

    def __init__(self, specification, variables):
        self.specification = specification
        self.variables = variables

    def signature(self, dtype, update):
        """The batch's TensorSpecs; batch size and length are free, so that all shapes share one graph."""
        ids, lengths = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)
        return {
            "source": ids,
            "target_input": ids,
            "target_output": ids,
            "source_length": lengths,
            "target_length": lengths,
        }

    def __call__(self, batch, update):
        # each weight is read once: its gradient is then one tensor
        weights = {name: tf.convert_to_tensor(array) for name, array in self.variables.items()}
        return Pass(self.specification, weights, self.generator).loss(batch)


class Pass:
    """One forward pass over `weights`, {canonical name: tensor}. Its dropouts draw from `generator`."""

    def __init__(self, specification, weights, generator):
        self.specification, self.weights, self.generator = specification, weights, generator
        self.heads, self.layers = specification.options["heads"], range(specification.options["layers"])
        self.width = specification.options["width"]

    def loss(self, batch):
        # both sides in one look-up: the backward pass then makes one gradient of the embedding's size
        source, target = tf.split(self.embed(tf.concat([batch["source"], batch["target_input"]], 0)), 2)
        length = tf.shape(source)[1]
        unreal = tf.logical_not(tf.sequence_mask(batch["source_length"], length))[:, None, None]
        source_mask = tf.cast(unreal, self.wide(source)) * NEVER
        hidden = self.decode(target, self.encode(source, source_mask), source_mask)
        logits = logits_of(tf.reshape(hidden, [-1, self.width]), self.weights["embedding.weight"])
        labels = tf.reshape(batch["target_output"], [-1])
        losses = smoothed_cross_entropy(logits, labels, self.specification.options["label_smoothing"])
        real = tf.sequence_mask(batch["target_length"], length, losses.dtype)
        return tf.reduce_sum(losses * tf.reshape(real, [-1])) / tf.reduce_sum(real)

    def embed(self, ids):
        embedded = tf.gather(self.weights["embedding.weight"], ids)
        positions = tf.cast(position_table(self.specification, tf.shape(ids)[1]), embedded.dtype)
        return self.dropout(embedded * self.specification.embedding_scale + positions)

    def encode(self, x, mask):
        for n in self.layers:
            x = self.sublayer(x, f"encoder.{n}.attention.", lambda y, p: self.self_attention(y, p, mask))
            x = self.sublayer(x, f"encoder.{n}.feedforward.", self.feedforward)
        return self.norm(x, "encoder.")

    def decode(self, x, memory, source_mask):
        # the padding comes last: no real position sees it, and what it sees itself goes nowhere
        causal = causal_mask(tf.shape(x)[1], self.wide(x))
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
        """`parts` arrays (batch, heads, length, features of a head) of the product of that name."""
        batch, length = tf.unstack(tf.shape(x)[:2])
        y = tf.reshape(self.product(x, name), [batch, length, parts, self.heads, self.width // self.heads])
        return tf.unstack(tf.transpose(y, [2, 0, 3, 1, 4]))

    def attention(self, query_key_value, prefix, mask):
        query, key, value = query_key_value
        score = tf.matmul(query * (self.width // self.heads) ** -0.5, key, transpose_b=True)
        weight = tf.cast(tf.nn.softmax(at_least_float32(score) + mask), value.dtype)
        sums = tf.transpose(tf.matmul(self.dropout(weight), value), [0, 2, 1, 3])
        batch, length = tf.unstack(tf.shape(sums)[:2])
        return self.product(tf.reshape(sums, [batch, length, self.width]), prefix + "output")

    def feedforward(self, x, prefix):
        return self.product(self.dropout(tf.nn.relu(self.product(x, prefix + "inner"))), prefix + "outer")

    def product(self, x, name):
        weight, bias = self.weights[name + ".weight"], self.weights.get(name + ".bias")
        y = tf.matmul(tf.reshape(x, [-1, weight.shape[0]]), weight)
        if bias is not None:
            y = tf.nn.bias_add(y, tf.cast(bias, y.dtype))
        return tf.reshape(y, tf.concat([tf.shape(x)[:2], [weight.shape[1]]], 0))

    def norm(self, x, prefix):
        weight, bias = self.weights[prefix + "norm.weight"], self.weights[prefix + "norm.bias"]
        return layer_norm(x, weight, bias, self.specification.norm_epsilon)

    def dropout(self, x):
        return dropout(x, self.specification.options["dropout"], self.generator)

    def wide(self, x):
        """The type of scores."""
        return tf.float64 if x.dtype == tf.float64 else tf.float32


def logits_of(hidden, embedding):
    return tf.matmul(hidden, embedding, transpose_b=True)


def smoothed_cross_entropy(logits, labels, smoothing):
    """-sum over w of p[w] log softmax(logits)[w] for each row's label, p as in the specification, in at least float32.

    That is the plain cross-entropy + smoothing * (the label's logit - the mean of all). Its gradient by the logits,
    softmax - p, is the plain one, which the operator makes beside the loss, moved where p is: no array of p is made.
    """
    words = logits.shape[-1]

    @tf.custom_gradient
    def losses_of(logits):
        plain, gradient = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=logits, labels=labels)
        right = tf.gather(logits, labels, batch_dims=1)
        losses = plain + smoothing * (right - tf.reduce_mean(logits, 1))

        def by_logits(by_losses):
            moved = (gradient - smoothing / words) * by_losses[:, None]
            places = tf.stack([tf.range(tf.size(labels)), labels], 1)
            return tf.tensor_scatter_nd_add(moved, places, smoothing * by_losses)

        return losses, by_logits

    return losses_of(at_least_float32(logits))


def position_table(specification, length):
    """position[p] of the specification, (length, width) float64."""
    angles = tf.range(tf.cast(length, tf.float64), dtype=tf.float64)[:, None] * specification.frequencies
    return tf.reshape(tf.stack([tf.sin(angles), tf.cos(angles)], 2), [length, -1])


def causal_mask(length, dtype):
    """What is added to the scores (queries, keys)."""
    return (1 - tf.linalg.band_part(tf.ones([length, length], dtype), -1, 0)) * NEVER


NETWORK = Network
