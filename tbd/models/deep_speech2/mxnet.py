"""Deep Speech 2 in MXNet: fused recurrent operators over padded utterances. See specification.py for the definition.

Time is the first axis from the recurrent layers on. What a forward direction makes of the padding at an utterance's end
goes nowhere; a backward direction begins at its end.
"""

from mxnet import sym

from tbd.frameworks.mxnet.ctc import ctc_loss
from tbd.frameworks.mxnet.layers import convolution, dense, positions_below, shape_of, type_of
from tbd.models.deep_speech2.specification import batch_norm_of

MODES = {"gru": "gru", "rnn": "rnn_tanh"}  # the fused operator's gates lie in the canonical order r, z, n


class Network:
    """The loss of a batch, and its moved statistics (tbd/frameworks/mxnet/training.py)."""

    def __init__(self, specification):
        self.specification = specification

    def __call__(self, weights, inputs, update):
        build = Build(self.specification, weights, inputs["frames"], inputs["frame_length"])
        logits = build.logits(inputs["frames"])
        losses = ctc_loss(logits, build.steps, inputs["labels"], inputs["label_length"])
        return sym.mean(losses), build.moved


class Build:
    """One symbol of the network in the making: `moved` collects the statistics."""

    def __init__(self, specification, weights, frames, frame_length):
        self.specification, self.weights, self.moved = specification, weights, {}
        self.dtype = type_of(frames)
        self.batch, frames, _ = shape_of(frames)
        self.longest = -(-frames // 2)
        self.steps = sym.floor((sym.cast(frame_length, self.dtype) + 1) / 2)
        self.real = real_steps(self.steps, self.longest, self.dtype)
        self.count = sym.sum(self.real)

    def logits(self, frames):
        """(time, batch, characters)."""
        real = sym.reshape(self.real, (self.batch, 1, self.longest, 1))
        x = sym.expand_dims(frames, 1)
        for name, _, channels, _, stride, bins in self.specification.convolutions:
            x = convolution(x, self.weights[name + ".weight"], stride)
            norm = self.batch_norm(x, real, batch_norm_of(name), (1, channels, 1, 1), self.count * bins)
            x = sym.broadcast_mul(sym.clip(norm, 0.0, self.specification.clip), real)
        x = sym.reshape(sym.transpose(x, (2, 0, 3, 1)), (self.longest, self.batch, -1))
        real = sym.reshape(sym.transpose(self.real), (self.longest, self.batch, 1))
        options = self.specification.options
        for layer in range(options["layers"]):
            prefix = f"recurrent.{layer}."
            if layer:
                x = self.batch_norm(x, real, prefix + "bn", (1, 1, options["width"]), self.count)
            directions = [
                [self.weights[f"{prefix}{direction}.{part}"] for part in ("input", "hidden", "bias")]
                for direction in ("forward", "backward")
            ]
            x = bidirectional(options["cell"], x, self.steps, *directions)
        x = self.batch_norm(x, real, "output.bn", (1, 1, options["width"]), self.count)
        return dense(x, self.weights["output"])

    def batch_norm(self, x, real, name, shape, count):
        """Batch norm over the `count` real values of each feature; `shape` is that of a feature's numbers beside x."""
        s = self.specification
        axes = [axis for axis, size in enumerate(shape) if size == 1]
        weight, bias = (sym.reshape(self.weights[f"{name}.{part}"], shape) for part in ("weight", "bias"))
        mean = sym.broadcast_div(sym.sum(sym.broadcast_mul(x, real), axis=axes, keepdims=True), count)
        centred = sym.broadcast_mul(sym.broadcast_sub(x, mean), real)
        variance = sym.broadcast_div(sym.sum(sym.square(centred), axis=axes, keepdims=True), count)
        for part, new in (
            ("running_mean", mean),
            ("running_var", sym.broadcast_mul(variance, count / sym.maximum(count - 1, 1))),
        ):
            kept = self.weights[f"{name}.{part}"]
            moved = s.batch_norm_momentum * sym.reshape(new, (-1,))
            self.moved[f"{name}.{part}"] = (1 - s.batch_norm_momentum) * kept + moved
        scale = weight * sym.rsqrt(variance + s.batch_norm_epsilon)
        return sym.broadcast_add(sym.broadcast_mul(centred, scale), bias)


def real_steps(steps, longest, dtype):
    """(batch, time) of 1 where a step is within its utterance, else 0."""
    return positions_below(steps, longest, dtype)


def bidirectional(cell, x, steps, forward, backward):
    """The sum of both directions over x (time, batch, features), each with its weights: input, hidden, bias."""
    reverse = {"use_sequence_length": True}
    behind = recurrent(cell, sym.SequenceReverse(x, steps, **reverse), *backward)
    return recurrent(cell, x, *forward) + sym.SequenceReverse(behind, steps, **reverse)


def recurrent(cell, x, by_input, by_hidden, bias):
    """The fused operator takes two biases, the specification has one: the other is zero."""
    _, width = shape_of(by_hidden)
    _, batch, _ = shape_of(x)
    dtype = type_of(x)
    both = [sym.reshape(weight, (-1,)) for weight in (by_input, by_hidden)]
    parameters = sym.concat(*both, bias, sym.zeros_like(bias), dim=0)
    state = sym.zeros((1, batch, width), dtype=dtype)
    return sym.RNN(x, parameters, state, mode=MODES[cell], state_size=width, num_layers=1, state_outputs=False)


NETWORK = Network
