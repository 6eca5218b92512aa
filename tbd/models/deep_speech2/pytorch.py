"""Deep Speech 2 in PyTorch: fused recurrent operators over packed utterances, which hold no padding at all.

Packed, the steps of all utterances lie in one array, (steps, features): batch norm over its rows is batch norm over the
real steps. Only the convolutions need the padded form.
"""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from tbd.models.deep_speech2.specification import ALPHABET, BLANK, batch_norm_of, steps_of

CELLS = {"gru": nn.GRU, "rnn": nn.RNN}  # their gates lie in the canonical order r, z, n; RNN's default is tanh


class Network(nn.Module):
    """Gives the loss of a batch."""

    # the inputs that the network wants in the host's memory: packing and CTC read them there
    host_inputs = ("frame_length", "label_length")

    def __init__(self, specification):
        super().__init__()
        options = specification.options
        self.width, self.clip = options["width"], specification.clip
        self.convolutions = nn.ModuleDict()
        for name, channels, out, kernel, stride, _ in specification.convolutions:
            padding = tuple(size // 2 for size in kernel)
            self.convolutions[name] = nn.Conv2d(channels, out, kernel, stride, padding, bias=False)
        # the fused operators take two biases, the specification has one: the other, bias_hh, stays a constant zero
        self.recurrent = nn.ModuleList(
            CELLS[options["cell"]](inputs, self.width, bidirectional=True) for inputs in specification.recurrent_inputs
        )
        epsilon, momentum = specification.batch_norm_epsilon, specification.batch_norm_momentum
        self.norms = {name: nn.BatchNorm1d(features, epsilon, momentum) for name, features in specification.norms}
        for name, norm in self.norms.items():
            norm.num_batches_tracked = None  # a counter that only momentum=None needs, and one more operator a layer
            self.add_module(name.replace(".", "_"), norm)
        self.output = nn.Parameter(torch.empty(len(ALPHABET), self.width))

    def canonical(self):
        """{canonical name: tensor}."""
        named = {f"{name}.weight": convolution.weight for name, convolution in self.convolutions.items()}
        for layer, cell in enumerate(self.recurrent):
            for direction, ending in (("forward", ""), ("backward", "_reverse")):
                for part, ours in (("input", "weight_ih"), ("hidden", "weight_hh"), ("bias", "bias_ih")):
                    named[f"recurrent.{layer}.{direction}.{part}"] = getattr(cell, f"{ours}_l0{ending}")
        for name, norm in self.norms.items():
            tensors = (*norm.named_parameters(), *norm.named_buffers())
            named |= {f"{name}.{part}": tensor for part, tensor in tensors}
        return named | {"output": self.output}

    def forward(self, arrays, update):
        # longest first, which is how a packed batch lies; the loss is a sum over the utterances in any order
        lengths, order = steps_of(arrays["frame_length"].long()).sort(descending=True)
        there = order.to(arrays["frames"].device, non_blocking=True)
        x = arrays["frames"].index_select(0, there).unsqueeze(1)
        for name, convolution in self.convolutions.items():
            packed = self.activated(convolution(x), lengths, batch_norm_of(name))
            if name != "conv2":
                x, _ = pad_packed_sequence(packed, batch_first=True, total_length=-(-x.shape[2] // 2))
                x = x.permute(0, 3, 1, 2)
        x = packed.data.flatten(1)
        for layer, cell in enumerate(self.recurrent):
            if layer:
                x = self.norms[f"recurrent.{layer}.bn"](x)
            both, _ = cell(with_data(packed, x))
            forward, backward = both.data.split(self.width, 1)
            x = forward + backward
        logits = functional.linear(self.norms["output.bn"](x), self.output)
        likelihoods, _ = pad_packed_sequence(with_data(packed, functional.log_softmax(logits, 1)))
        labels, label_lengths = arrays["labels"].index_select(0, there), arrays["label_length"].index_select(0, order)
        loss = functional.ctc_loss(likelihoods, labels.long(), lengths, label_lengths, BLANK, reduction="sum")
        return loss / len(lengths)

    def activated(self, x, lengths, norm):
        """Real steps of a convolution's output (batch, channels, time, bins), normalised and clipped, and packed."""
        packed = pack_padded_sequence(x.permute(0, 2, 3, 1), lengths, batch_first=True)
        rows = self.norms[norm](packed.data.flatten(0, 1))
        return with_data(packed, functional.hardtanh_(rows, 0.0, self.clip).view_as(packed.data))


def with_data(packed, data):
    """A packed batch of the same lengths with other data."""
    return PackedSequence(data, packed.batch_sizes)


NETWORK = Network
