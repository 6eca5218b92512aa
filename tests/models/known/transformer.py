"""What the tests must know of transformer."""

import contextlib
import unittest.mock

import numpy

from tbd import models
from tbd.models.specification import learning_rate_at
from tests.parity.fault import Fault
from tests.parity.faults import with_optimizers

# by hand: 32768 x 512 of vocabulary; 6 x (4 x 512 x 512 + 2 x 512 x 2048 + 2048 + 512 + 2 x 1024) of the encoder's
# layers; 6 x (8 x 512 x 512 + 2 x 512 x 2048 + 2048 + 512 + 3 x 1024) of the decoder's; 2 x 1024 of the norms after
# them. Table 3 of arXiv 1706.03762 says 65 million, at a vocabulary of 37,000
PARAMETERS = 60_880_896
MEMORY_OPTIONS = {"width": 64, "feedforward": 128}


def batch_size(specification, rows):
    """Batches are counted in tokens."""
    return rows * specification.options["synthetic_length"]


def full(arrays):
    """Every sentence as long as its row."""
    rows, length = arrays["source"].shape
    lengths = numpy.full(rows, length, numpy.int32)
    return dict(arrays, source_length=lengths, target_length=lengths)


class MorePadding(Fault):
    """Every row 8 positions longer: nothing changes."""

    def batch(self, arrays):
        ids = ("source", "target_input", "target_output")
        return dict(arrays, **{name: numpy.pad(arrays[name], ((0, 0), (0, 8))) for name in ids})


class NoSourceMask(Fault):
    """The attentions fall on the source's padding."""

    def batch(self, arrays):
        return dict(arrays, source_length=full(arrays)["source_length"])


class PaddingInTheLoss(Fault):
    def batch(self, arrays):
        return dict(arrays, target_length=full(arrays)["target_length"])


class NoBegin(Fault):
    """The decoder sees the word that it is to say: its input isn't shifted."""

    def batch(self, arrays):
        return dict(arrays, target_input=arrays["target_output"])


class NoSmoothing(Fault):
    def specification(self, specification):
        specification.options["label_smoothing"] = 0.0
        return specification


class SmoothingSparesTheLabel(Fault):
    """The mass goes to the wrong words alone, as in tensor2tensor: the same as a little more mass for all."""

    def specification(self, specification):
        words = specification.options["vocabulary"]
        specification.options["label_smoothing"] *= words / (words - 1)
        return specification


class EmbeddingNotScaled(Fault):
    def specification(self, specification):
        specification.__class__ = type("Unscaled", (type(specification),), {"embedding_scale": 1.0})
        return specification


class NormEpsilon(Fault):
    """Keras's default, 1e-3, for 1e-6."""

    def specification(self, specification):
        specification.norm_epsilon = 1e-3
        return specification


class WarmUpFromZero(Fault):
    """The schedule counts from 0: the first step moves nothing."""

    def specification(self, specification):
        def late(o):
            return o._replace(learning_rate=lambda step: learning_rate_at(o, step - 1) if step else 0.0)

        return with_optimizers(specification, late)


class AdamBeta2(Fault):
    """The frameworks' default, 0.999, for 0.98."""

    def specification(self, specification):
        return with_optimizers(specification, lambda o: o._replace(beta2=0.999))


class KeyBeforeQuery(Fault):
    """The joined product taken as key, query, value."""

    def weights_in(self, weights):
        return {n: swapped(array) if n.endswith("qkv.weight") else array for n, array in weights.items()}

    weights_out = weights_in


def swapped(array):
    query, key, value = numpy.split(array, 3)
    return numpy.concatenate([key, query, value])


class InTheNetwork(Fault):
    """Something in the module of the framework's network is another thing, which `wrong` makes of the right one."""

    @contextlib.contextmanager
    def planted(self):
        holder = models.network("transformer", self.framework)
        *path, name = (self.IN_PYTORCH if self.framework == "pytorch" else self.ELSEWHERE).split(".")
        for step in path:
            holder = getattr(holder, step)
        with unittest.mock.patch.object(holder, name, self.wrong(getattr(holder, name))):
            yield


class PositionsFromOne(InTheNetwork):
    IN_PYTORCH = ELSEWHERE = "position_table"

    def wrong(self, right):
        def later(specification, length, *others):
            positions = right(specification, length + 1, *others)
            return all_but_the_first(positions) if self.framework == "mxnet" else positions[1:]

        return later


class UntiedSoftmax(InTheNetwork):
    """The matrix of the logits is another one, whose gradient isn't the embedding's."""

    IN_PYTORCH = ELSEWHERE = "logits_of"

    def wrong(self, right):
        return lambda hidden, embedding: right(hidden, constant(self.framework, embedding))


class NormAfter(InTheNetwork):
    """norm(x + sublayer(x)), as in the paper's own equation."""

    IN_PYTORCH, ELSEWHERE = "Sublayer.forward", "Pass.sublayer"

    def wrong(self, right):
        if self.framework == "pytorch":
            return lambda self, x, *others: self.norm(x + self.compute(x, *others))
        return lambda self, x, prefix, compute: self.norm(x + compute(x, prefix), prefix)


class NoCausalMask(InTheNetwork):
    IN_PYTORCH, ELSEWHERE = "functional.scaled_dot_product_attention", "causal_mask"

    def wrong(self, right):
        if self.framework == "pytorch":
            return lambda *arguments, **options: right(*arguments, **dict(options, is_causal=False))
        return lambda *arguments: 0 * right(*arguments)


def all_but_the_first(symbol):
    import mxnet

    return mxnet.sym.slice_axis(symbol, axis=0, begin=1, end=None)


def constant(framework, array):
    """The array, through which no gradient goes."""
    if framework == "pytorch":
        return array.detach()
    if framework == "tensorflow":
        import tensorflow

        return tensorflow.stop_gradient(array)
    if framework == "mxnet":
        import mxnet

        return mxnet.sym.BlockGrad(array)
    if framework == "cntk":
        import cntk

        return cntk.stop_gradient(array)
    import jax

    return jax.lax.stop_gradient(array)


SAME = {"more_padding": MorePadding}
FAULTS = {
    "no_source_mask": NoSourceMask,
    "padding_in_the_loss": PaddingInTheLoss,
    "no_begin": NoBegin,
    "no_smoothing": NoSmoothing,
    "smoothing_spares_the_label": SmoothingSparesTheLabel,
    "embedding_not_scaled": EmbeddingNotScaled,
    "norm_epsilon": NormEpsilon,
    "warm_up_from_zero": WarmUpFromZero,
    "adam_beta2": AdamBeta2,
    "key_before_query": KeyBeforeQuery,
    "positions_from_one": PositionsFromOne,
    "untied_softmax": UntiedSoftmax,
    "norm_after": NormAfter,
    "no_causal_mask": NoCausalMask,
}
