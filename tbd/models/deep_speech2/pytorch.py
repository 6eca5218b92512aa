"""Deep Speech 2 in PyTorch, over packed utterances, which hold no padding at all.

Packed, the steps of all utterances lie in one array, (steps, features): batch norm over its rows is batch norm over the
real steps. Only the convolutions need the padded form.
"""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from tbd.frameworks.pytorch.recurrence import Recurrent
from tbd.models.deep_speech2.specification import ALPHABET, BLANK, batch_norm_of, steps_of

CELLS = {"gru": nn.GRU, "rnn": nn.RNN}  # their gates lie in the canonical order r, z, n; RNN's default is tanh


class Network(nn.Module):
    """Gives the loss of a batch."""

    # the inputs that the network wants in the host's memory: packing and CTC read them there
    host_inputs = ("frame_length", "label_length")

    def __init__(self, specification):
        super().__init__()
        options = specification.options
        self.clip = specification.clip
        self.convolutions = nn.ModuleDict()
        for name, channels, out, kernel, stride, _ in specification.convolutions:
            padding = tuple(size // 2 for size in kernel)
            self.convolutions[name] = nn.Conv2d(channels, out, kernel, stride, padding, bias=False)
        # the fused operators take two biases, the specification has one: the other, bias_hh, stays a constant zero
        self.recurrent = nn.ModuleList(
            CELLS[options["cell"]](inputs, options["width"], bidirectional=True)
            for inputs in specification.recurrent_inputs
        )
        epsilon, momentum = specification.batch_norm_epsilon, specification.batch_norm_momentum
        self.norms = {name: nn.BatchNorm1d(features, epsilon, momentum) for name, features in specification.norms}
        for name, norm in self.norms.items():
            norm.num_batches_tracked = None  # a counter that only momentum=None needs, and one more operator a layer
            self.add_module(name.replace(".", "_"), norm)
        self.output = nn.Parameter(torch.empty(len(ALPHABET), options["width"]))

    def canonical(self):
        """{canonical name: tensor}."""
        named = {f"{name}.weight": convolution.weight for name, convolution in self.convolutions.items()}
        for layer, cell in enumerate(self.recurrent):
            for direction, ending in ENDINGS.items():
                parts = zip(("input", "hidden", "bias"), weights_of(cell, ending), strict=True)
                named |= {f"recurrent.{layer}.{direction}.{part}": tensor for part, tensor in parts}
        for name, norm in self.norms.items():
            tensors = (*norm.named_parameters(), *norm.named_buffers())
            named |= {f"{name}.{part}": tensor for part, tensor in tensors}
        return named | {"output": self.output}

    # what is packed is as long as all utterances together: torch.compile would compile it anew for nearly every batch
    @torch.compiler.disable
    def forward(self, arrays, update):
        # longest first, which is how a packed batch lies; the loss is a sum over the utterances in any order
        lengths, order = steps_of(arrays["frame_length"].long()).sort(descending=True)
        there = order.to(arrays["frames"].device, non_blocking=True)
        x = arrays["frames"].index_select(0, there).unsqueeze(1)
        x = self.activated(self.convolved(x, "conv1"), lengths, "conv1")
        x, _ = pad_packed_sequence(x, batch_first=True, total_length=steps_of(arrays["frames"].shape[1]))
        packed = self.activated(self.convolved(x.permute(0, 3, 1, 2), "conv2"), lengths, "conv2")
        x = packed.data.flatten(1)
        for layer, cell in enumerate(self.recurrent):
            if layer:
                x = self.norms[f"recurrent.{layer}.bn"](x)
            x = bidirectional(cell, with_data(packed, x))
        logits = functional.linear(self.norms["output.bn"](x), self.output)
        likelihoods, _ = pad_packed_sequence(with_data(packed, functional.log_softmax(logits, 1)))
        labels, label_lengths = arrays["labels"].index_select(0, there), arrays["label_length"].index_select(0, order)
        loss = functional.ctc_loss(likelihoods, labels.long(), lengths, label_lengths, BLANK, reduction="sum")
        return loss / len(lengths)

    def convolved(self, x, name):
        """The convolution of images that lie channel by channel.

        For channels last oneDNN has no fast gradient by the weights of kernels as large as these: 16 s for 0.1 s.
        """
        layer = self.convolutions[name]
        return functional.conv2d(x.contiguous(), layer.weight.contiguous(), None, layer.stride, layer.padding)

    def activated(self, x, lengths, convolution):
        """Real steps of a convolution's output (batch, channels, time, bins), normalised and clipped, and packed."""
        packed = pack_padded_sequence(x.permute(0, 2, 3, 1), lengths, batch_first=True)
        rows = self.norms[batch_norm_of(convolution)](packed.data.flatten(0, 1))
        return with_data(packed, functional.hardtanh_(rows, 0.0, self.clip).view_as(packed.data))


def with_data(packed, data):
    """A packed batch of the same lengths with other data."""
    return PackedSequence(data, packed.batch_sizes)


ENDINGS = {"forward": "", "backward": "_reverse"}  # of the names of a cell's weights


def weights_of(cell, ending):
    """The weights of a direction of nn.GRU or nn.RNN: by the input and by the state, and the bias."""
    return [getattr(cell, f"{part}_l0{ending}") for part in ("weight_ih", "weight_hh", "bias_ih")]


def bidirectional(cell, packed):
    """The sum of both directions' states after every step, packed (steps, width)."""
    if not packed.data.is_cuda:
        return unrolled(cell, packed)
    forward, backward = cell(packed)[0].data.chunk(2, 1)
    return forward + backward


def unrolled(cell, packed):
    """The same step by step, for a CPU.

    There PyTorch's operators are no faster step by step themselves, and make a gradient of the weight's size in each.
    """
    step = STEPS[type(cell)]
    sizes = packed.batch_sizes.tolist()  # of the utterances that have a step, step by step: fewer and fewer
    total = 0
    for direction, ending in ENDINGS.items():
        of_input, of_state, bias = weights_of(cell, ending)
        known = functional.linear(packed.data, of_input, bias).split(sizes)
        product = Recurrent(of_state)
        state = known[0].new_zeros(sizes[0] if direction == "forward" else sizes[-1], cell.hidden_size)
        states = [None] * len(sizes)
        for t in range(len(sizes)) if direction == "forward" else reversed(range(len(sizes))):
            if sizes[t] < len(state):
                state = state[: sizes[t]]
            elif sizes[t] > len(state):
                state = torch.cat([state, state.new_zeros(sizes[t] - len(state), cell.hidden_size)])
            state = states[t] = step(known[t], product(state), state)
        total = torch.cat(states) + total
    return total


def gru(known, of_state, state):
    """The state after one step from W x + b, U h and h."""
    r, z, n = known.chunk(3, 1)
    of_r, of_z, of_n = of_state.chunk(3, 1)
    n = torch.tanh(torch.addcmul(n, torch.sigmoid(r + of_r), of_n))
    return torch.lerp(n, state, torch.sigmoid(z + of_z))


def rnn(known, of_state, state):
    return torch.tanh(known + of_state)


STEPS = {nn.GRU: gru, nn.RNN: rnn}
NETWORK = Network
