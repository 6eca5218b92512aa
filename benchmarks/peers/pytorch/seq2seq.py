"""The NMT tutorial's translation written by hand: nn.LSTM on packed sentences, a loop of nn.LSTMCell as decoder."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from peers.pytorch import loop

SOURCE = "by hand, torch.nn.LSTM and LSTMCell"


class Translator(nn.Module):
    def __init__(self, options):
        super().__init__()
        width, layers = options["width"], options["layers"]
        self.source_embedding = nn.Embedding(options["source_vocabulary"], width)
        self.target_embedding = nn.Embedding(options["target_vocabulary"], width)
        self.encoder = nn.LSTM(width, width, layers, batch_first=True)
        self.cells = nn.ModuleList(nn.LSTMCell(width * (1 if n else 2), width) for n in range(layers))
        self.memory = nn.Linear(width, width, bias=False)
        self.query = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, 1, bias=False)
        self.attention = nn.Linear(2 * width, width, bias=False)
        self.output = nn.Linear(width, options["target_vocabulary"], bias=False)

    def forward(self, source, source_length, target):
        """Logits (batch, target positions, vocabulary)."""
        packed = pack_padded_sequence(
            self.source_embedding(source), source_length, batch_first=True, enforce_sorted=False
        )
        outputs, states = self.encoder(packed)
        memory, _ = pad_packed_sequence(outputs, batch_first=True, total_length=source.shape[1])
        states = [list(state) for state in zip(*states, strict=True)]
        keys = self.memory(memory)
        length = source_length.to(memory.device, non_blocking=True)
        padding = torch.arange(source.shape[1], device=memory.device) >= length[:, None]
        attentional = memory.new_zeros(len(source), memory.shape[2])
        found = []
        for embedded in self.target_embedding(target).unbind(1):
            x = torch.cat([embedded, attentional], 1)
            for layer, cell in enumerate(self.cells):
                states[layer] = cell(x, states[layer])
                x = states[layer][0]
            score = self.v(torch.tanh(keys + self.query(x)[:, None]))[:, :, 0]
            weight = torch.softmax(score.masked_fill(padding, -torch.inf), 1)
            context = torch.bmm(weight[:, None], memory)[:, 0]
            attentional = self.attention(torch.cat([x, context], 1))
            found.append(attentional)
        return self.output(torch.stack(found, 1))


def build(options, batch_size, device, precision, compile):
    def loss(network, inputs):
        logits = network(inputs["source"], inputs["source_length"], inputs["target_input"])
        labels = inputs["target_output"].long()
        real = torch.arange(labels.shape[1], device=labels.device) < inputs["target_length"][:, None]
        labels = labels.where(real, -100)
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def optimizer(parameters):
        return torch.optim.Adam(parameters, 3e-4, fused=True)

    return loop.build(
        Translator(options), loss, optimizer, device, precision, compile, clip_norm=1.0, on_host=("source_length",)
    )
