"""What the tests must know of deep_speech2."""

import types
import unittest.mock

import numpy

from tests.parity.fault import Fault

# Convolutions 11 x 41 x 32 + 32 x 11 x 21 x 32; recurrent layers 2 x 3 x 1760 x (1312 + 1760 + 1) + 6 x 2 x 3 x 1760 x
# (1760 + 1760 + 1); batch norms 2 x (32 + 32 + 7 x 1760); output 29 x 1760
PARAMETERS = 255_868_224
MEMORY_OPTIONS = {"width": 64, "channels": 8}
COUNT_OPTIONS = {"synthetic_length": 24}  # the operations are so many a step; one of full size takes seconds
CLIP_NORM = 60.0  # the gradients' norms here are 70 and more
VARIANTS = {"rnn": {"cell": "rnn"}}


def full(arrays):
    """Every utterance as long as its row."""
    return dict(arrays, frame_length=numpy.full_like(arrays["frame_length"], arrays["frames"].shape[1]))


def spread(specification, found):
    """A channel of the second convolution seven times as wide: it is clipped at 20, in one step in 500, and beyond 6.

    Not of the first, whose batch norm moves so little that float32 can hardly add it to a 7.
    """
    wide = found["bn2.weight"].copy()
    wide[0] = 7
    return dict(found, **{"bn2.weight": wide})


class OfGru(Fault):
    @classmethod
    def fits(cls, specification):
        return specification.options["cell"] == "gru"


class GateOrder(OfGru):
    """The gates taken in Keras's order z, r, n."""

    def weights_in(self, weights):
        return of_recurrent(weights, lambda r, z, n: (z, r, n))

    weights_out = weights_in


class UpdateGate(OfGru):
    """The paper's h' = (1 - z) h + z n: the same as the other sign of all that goes into z."""

    def weights_in(self, weights):
        return of_recurrent(weights, lambda r, z, n: (r, -z, n))

    weights_out = weights_in


class BlankLast(Fault):
    """Blank as the last character and each other one place earlier, as tf.compat.v1.nn.ctc_loss has it."""

    def weights_in(self, weights):
        return dict(weights, output=numpy.roll(weights["output"], 1, 0)) if "output" in weights else weights

    def weights_out(self, weights):
        return dict(weights, output=numpy.roll(weights["output"], -1, 0)) if "output" in weights else weights


class ClipAt6(Fault):
    """ReLU6."""

    def specification(self, specification):
        specification.clip = 6.0
        return specification


class FeaturesByChannel(Fault):
    """The convolutions' output flattened channel by channel, as (batch, channels, time, bins) lends itself to."""

    def __init__(self, framework):
        super().__init__(framework)
        self.channels = None

    def specification(self, specification):
        self.channels = specification.options["channels"]
        return specification

    def weights_in(self, weights):
        return of_first(weights, lambda array: array.reshape(len(array), self.channels, -1).swapaxes(1, 2))

    def weights_out(self, weights):
        return of_first(weights, lambda array: array.reshape(len(array), -1, self.channels).swapaxes(1, 2))


class NoMask(Fault):
    """Batch norm and the backward direction take the padding in; CTC alone knows the lengths."""

    def planted(self):
        return PLANTED[self.framework]("no_mask")


class MeanByLength(Fault):
    """Each utterance's loss divided by its transcript's length, as CTC's "mean" in PyTorch does."""

    def planted(self):
        return PLANTED[self.framework]("mean_by_length")


class ResetBeforeProduct(OfGru):
    """n = tanh(W x + b + U (r h)), as Cho et al. 2014 and the suite's example have it."""

    def planted(self):
        return PLANTED[self.framework]("reset_before_product")


FAULTS = {
    "gate_order": GateOrder,
    "update_gate": UpdateGate,
    "blank_last": BlankLast,
    "clip_at_6": ClipAt6,
    "features_by_channel": FeaturesByChannel,
    "no_mask": NoMask,
    "mean_by_length": MeanByLength,
    "reset_before_product": ResetBeforeProduct,
}


class MorePadding(Fault):
    """No mistake: the same utterances in longer rows."""

    def batch(self, arrays):
        frames = numpy.pad(arrays["frames"], ((0, 0), (0, 23), (0, 0)))
        return dict(arrays, frames=frames, labels=numpy.pad(arrays["labels"], ((0, 0), (0, 5))))


SAME = {"more_padding": MorePadding}


def of_recurrent(weights, changed):
    """The weights with changed(r, z, n) for the gates of each array of a recurrent layer."""
    return {
        name: numpy.concatenate(changed(*numpy.split(array, 3)))
        if ".forward." in name or ".backward." in name
        else array
        for name, array in weights.items()
    }


def of_first(weights, changed):
    """The weights with changed(array) for what the first recurrent layer's input is multiplied by."""
    names = [f"recurrent.0.{direction}.input" for direction in ("forward", "backward")]
    return {n: changed(array).reshape(array.shape) if n in names else array for n, array in weights.items()}


def in_pytorch(fault):
    import torch
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    from tbd.models.deep_speech2 import pytorch

    def bidirectional(cell, packed):
        x, lengths = pad_packed_sequence(packed)
        steps = range(len(x))
        total = run(cell, x, lengths, "", steps) + run(cell, x, lengths, "_reverse", reversed(steps))
        return pack_padded_sequence(total, lengths).data

    def run(cell, x, lengths, ending, steps):
        w, u, b = pytorch.weights_of(cell, ending)
        by_r, by_z, by_n = u.chunk(3)
        h, found = x.new_zeros(x.shape[1], cell.hidden_size), [None] * len(x)
        for t in steps:
            r, z, n = torch.nn.functional.linear(x[t], w, b).chunk(3, 1)
            r, z = torch.sigmoid(r + h @ by_r.t()), torch.sigmoid(z + h @ by_z.t())
            n = torch.tanh(n + (r * h) @ by_n.t())
            h = found[t] = ((1 - z) * n + z * h) * (t < lengths).unsqueeze(1)
        return torch.stack(found)

    def pack(x, lengths, batch_first):
        return pack_padded_sequence(x, torch.full_like(lengths, x.shape[1]), batch_first)

    def ctc_loss(likelihoods, labels, lengths, label_lengths, blank, reduction):
        mean = torch.nn.functional.ctc_loss(likelihoods, labels, lengths, label_lengths, blank, reduction="mean")
        return mean * len(lengths)

    return {
        "no_mask": lambda: unittest.mock.patch.object(pytorch, "pack_padded_sequence", pack),
        "mean_by_length": lambda: unittest.mock.patch.object(
            pytorch, "functional", types.SimpleNamespace(**dict(vars(pytorch.functional), ctc_loss=ctc_loss))
        ),
        "reset_before_product": lambda: unittest.mock.patch.object(pytorch, "bidirectional", bidirectional),
    }[fault]()


def in_tensorflow(fault):
    import tensorflow as tf

    from tbd.models.deep_speech2 import tensorflow

    def bidirectional(cell, x, real, forward, backward):
        ahead = run(x, real, *forward)
        return ahead + tf.reverse(run(tf.reverse(x, [0]), tf.reverse(real, [0]), *backward), [0])

    def run(x, real, w, u, b):
        of_gates, of_n = u[:, : -u.shape[0]], u[:, -u.shape[0] :]

        def step(h, inputs):
            known, real = inputs
            r, z, n = tf.split(known, 3, 1)
            of_r, of_z = tf.split(h @ of_gates, 2, 1)
            n = tf.tanh(n + (tf.sigmoid(r + of_r) * h) @ of_n)
            return (n + tf.sigmoid(z + of_z) * (h - n)) * real

        return tf.scan(step, (tf.tensordot(x, w, 1) + b, real), tf.zeros([tf.shape(x)[1], u.shape[0]], x.dtype))

    def mean_ctc_loss(logits, steps, labels, label_lengths, blank):
        losses = right(logits, steps, labels, label_lengths, blank)
        return losses / tf.cast(label_lengths, losses.dtype)

    right = tensorflow.ctc_loss
    return {
        "no_mask": lambda: unittest.mock.patch.object(
            tensorflow, "real_steps", lambda steps, longest: tf.ones([tf.size(steps), longest], tf.bool)
        ),
        "mean_by_length": lambda: unittest.mock.patch.object(tensorflow, "ctc_loss", mean_ctc_loss),
        "reset_before_product": lambda: unittest.mock.patch.object(tensorflow, "bidirectional", bidirectional),
    }[fault]()


def in_jax(fault):
    import jax.numpy as jnp
    from jax import lax, nn

    from tbd.models.deep_speech2 import jax

    def bidirectional(cell, x, real, forward, backward):
        return run(x, real, *forward) + run(x[::-1], real[::-1], *backward)[::-1]

    def run(x, real, w, u, b):
        of_gates, of_n = u[:, : -len(u)], u[:, -len(u) :]

        def step(h, inputs):
            known, real = inputs
            r, z, n = jnp.split(known, 3, 1)
            of_r, of_z = jnp.split(h @ of_gates, 2, 1)
            n = jnp.tanh(n + (nn.sigmoid(r + of_r) * h) @ of_n)
            h = (n + nn.sigmoid(z + of_z) * (h - n)) * real
            return h, h

        return lax.scan(step, jnp.zeros((x.shape[1], len(u)), x.dtype), (x @ w + b, real))[1]

    def mean_ctc_loss(logits, steps, labels, label_lengths, blank):
        return right(logits, steps, labels, label_lengths, blank) / label_lengths

    right = jax.ctc_loss
    return {
        "no_mask": lambda: unittest.mock.patch.object(
            jax, "real_steps", lambda steps, longest: jnp.ones((len(steps), longest), bool)
        ),
        "mean_by_length": lambda: unittest.mock.patch.object(jax, "ctc_loss", mean_ctc_loss),
        "reset_before_product": lambda: unittest.mock.patch.object(jax, "bidirectional", bidirectional),
    }[fault]()


def in_mxnet(fault):
    from mxnet import sym

    from tbd.frameworks.mxnet import layers
    from tbd.models.deep_speech2 import mxnet

    def bidirectional(cell, x, steps, forward, backward):
        reverse = {"use_sequence_length": True}
        behind = run(sym.SequenceReverse(x, steps, **reverse), *backward)
        return run(x, *forward) + sym.SequenceReverse(behind, steps, **reverse)

    def run(x, w, u, b):
        _, width = layers.shape_of(u)
        longest, batch, _ = layers.shape_of(x)
        of_gates = sym.slice_axis(u, axis=0, begin=0, end=2 * width)
        of_n = sym.slice_axis(u, axis=0, begin=2 * width, end=3 * width)
        h, found = sym.zeros((batch, width), dtype=layers.type_of(x)), []
        for known in layers.unstacked(layers.dense(x, w, b), longest):
            r, z, n = sym.SliceChannel(known, num_outputs=3, axis=1)
            of_r, of_z = sym.SliceChannel(layers.dense(h, of_gates), num_outputs=2, axis=1)
            n = sym.tanh(n + layers.dense(sym.sigmoid(r + of_r) * h, of_n))
            h = n + sym.sigmoid(z + of_z) * (h - n)
            found.append(h)
        return sym.stack(*found)

    def mean_ctc_loss(logits, steps, labels, label_lengths):
        return right(logits, steps, labels, label_lengths) / sym.cast(label_lengths, layers.type_of(logits))

    def ones(steps, longest, dtype):
        return sym.ones((*layers.shape_of(steps), longest), dtype=dtype)

    right = mxnet.ctc_loss
    return {
        "no_mask": lambda: unittest.mock.patch.object(mxnet, "real_steps", ones),
        "mean_by_length": lambda: unittest.mock.patch.object(mxnet, "ctc_loss", mean_ctc_loss),
        "reset_before_product": lambda: unittest.mock.patch.object(mxnet, "bidirectional", bidirectional),
    }[fault]()


def in_cntk(fault):
    import cntk as C

    from tbd.frameworks.cntk import recurrence
    from tbd.frameworks.cntk.layers import dense
    from tbd.models.deep_speech2 import cntk

    def recurrent(cell, x, delay, w, u, b):
        width = u.shape[1]
        of_gates, of_n = C.slice(u, 0, 0, 2 * width), C.slice(u, 0, 2 * width, 3 * width)
        holder, h = recurrence.delayed(x, width, delay=delay)
        r = C.sigmoid(C.slice(dense(x, w, b), 0, 0, width) + C.slice(dense(h, of_gates), 0, 0, width))
        # the reset gate is in the product, so the cell's own is to be 1
        of_state = C.splice(dense(h, of_gates), dense(r * h, of_n))
        known = C.splice(C.slice(dense(x, w, b), 0, 0, width) * 0 + 1e4, C.slice(dense(x, w, b), 0, width, 3 * width))
        return recurrence.looped([holder], [cell(known, of_state, h)])[0]

    def mean_ctc_loss(logits, longest, steps, labels, label_lengths):
        # CNTK has the sum over all utterances alone: divided by their mean length
        mean = C.reduce_mean(label_lengths, C.Axis.all_axes())
        return right["ctc_loss"](logits, longest, steps, labels, label_lengths) / mean

    right = dict(vars(cntk))
    return {
        "no_mask": lambda: unittest.mock.patch.object(
            cntk, "real_steps", lambda steps, longest: right["real_steps"](steps + longest, longest)
        ),
        "mean_by_length": lambda: unittest.mock.patch.object(cntk, "ctc_loss", mean_ctc_loss),
        "reset_before_product": lambda: unittest.mock.patch.object(cntk, "recurrent", recurrent),
    }[fault]()


PLANTED = {"pytorch": in_pytorch, "tensorflow": in_tensorflow, "jax": in_jax, "mxnet": in_mxnet, "cntk": in_cntk}
