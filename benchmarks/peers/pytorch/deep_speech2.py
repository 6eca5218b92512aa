"""Deep Speech 2 as deepspeech.pytorch builds it: masked convolutions, nn.GRU on packed utterances, nn.CTCLoss.

Its batch norms count the padding in, which takes less time than leaving it out.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from peers.pytorch import loop

SOURCE = "by hand, torch.nn.GRU, after deepspeech.pytorch"
BINS, CHARACTERS = 161, 29


class DeepSpeech(nn.Module):
    def __init__(self, options):
        super().__init__()
        width, channels = options["width"], options["channels"]
        self.convolutions = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(inputs, channels, kernel, stride, padding, bias=False),
                nn.BatchNorm2d(channels),
                nn.Hardtanh(0, 20, inplace=True),
            )
            for inputs, kernel, stride, padding in (
                (1, (11, 41), (2, 2), (5, 20)),
                (channels, (11, 21), (1, 2), (5, 10)),
            )
        )
        bins = (BINS + 3) // 4
        cell = {"gru": nn.GRU, "rnn": nn.RNN}[options["cell"]]
        self.recurrent = nn.ModuleList(
            cell(width if layer else channels * bins, width, bidirectional=True) for layer in range(options["layers"])
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(options["layers"]))
        self.output = nn.Linear(width, CHARACTERS, bias=False)

    def forward(self, frames, lengths):
        """Logits (steps, batch, characters)."""
        x = frames.unsqueeze(1)
        for convolution in self.convolutions:
            x = convolution(x)
            real = torch.arange(x.shape[2], device=x.device) < lengths.to(x.device, non_blocking=True)[:, None]
            x = x * real[:, None, :, None]
        x = x.permute(2, 0, 1, 3).flatten(2)
        for layer, cell in enumerate(self.recurrent):
            if layer:
                x = self.normalised(x, layer - 1)
            packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
            x, _ = pad_packed_sequence(cell(packed)[0], total_length=x.shape[0])
            x = sum(x.chunk(2, 2))
        return self.output(self.normalised(x, -1))

    def normalised(self, x, layer):
        return self.norms[layer](x.flatten(0, 1)).view_as(x)


def build(options, batch_size, device, precision, compile):
    criterion = nn.CTCLoss(reduction="sum")

    def loss(network, inputs):
        lengths = (inputs["frame_length"].long() + 1) // 2
        likelihoods = torch.log_softmax(network(inputs["frames"], lengths).float(), 2)
        return criterion(likelihoods, inputs["labels"], lengths, inputs["label_length"]) / len(lengths)

    def optimizer(parameters):
        return torch.optim.SGD(parameters, 3e-4, momentum=0.9, fused=True)

    network, on_host = DeepSpeech(options), ("frame_length", "label_length")
    built = loop.build(network, loss, optimizer, device, precision, compile, clip_norm=100.0, on_host=on_host)
    # not channels last, for which oneDNN has no fast gradients of kernels as large as these
    network.to(memory_format=torch.contiguous_format)
    return built
