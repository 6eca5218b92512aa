"""The attention-based LSTM translation in PyTorch: a fused nn.LSTM as encoder, an unrolled decoder."""

import functools

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tbd.frameworks.pytorch.recurrence import Recurrent
from tbd.frameworks.pytorch.training import product_type


class Network(nn.Module):
    """Gives the loss of a batch. PyTorch's gate order (i, f, g, o) and layouts are the canonical ones."""

    host_inputs = ("source_length",)  # the inputs that the network wants in the host's memory: packing reads them there

    def __init__(self, specification):
        super().__init__()
        options = specification.options
        width, self.layers = options["width"], options["layers"]
        self.encoder_embedding = nn.Parameter(torch.empty(options["source_vocabulary"], width))
        self.decoder_embedding = nn.Parameter(torch.empty(options["target_vocabulary"], width))
        # the fused operator takes two biases, the specification has one: the other, bias_hh, stays a constant zero
        self.encoder = nn.LSTM(width, width, self.layers, batch_first=True)
        self.decoder_input, self.decoder_hidden, self.decoder_bias = (nn.ParameterList() for _ in range(3))
        for layer in range(self.layers):
            self.decoder_input.append(torch.empty(4 * width, specification.lstm_inputs("decoder", layer)))
            self.decoder_hidden.append(torch.empty(4 * width, width))
            self.decoder_bias.append(torch.empty(4 * width))
        self.attention_memory = nn.Parameter(torch.empty(width, width))
        self.attention_query = nn.Parameter(torch.empty(width, width))
        self.attention_v = nn.Parameter(torch.empty(width))
        self.attention_output = nn.Parameter(torch.empty(width, 2 * width))
        self.output = nn.Parameter(torch.empty(options["target_vocabulary"], width))

    def canonical(self):
        """{canonical name: tensor}."""
        named = {
            "encoder.embedding": self.encoder_embedding,
            "decoder.embedding": self.decoder_embedding,
            "attention.memory": self.attention_memory,
            "attention.query": self.attention_query,
            "attention.v": self.attention_v,
            "attention.output": self.attention_output,
            "output": self.output,
        }
        for layer in range(self.layers):
            named["encoder.%d.input" % layer] = getattr(self.encoder, "weight_ih_l%d" % layer)
            named["encoder.%d.hidden" % layer] = getattr(self.encoder, "weight_hh_l%d" % layer)
            named["encoder.%d.bias" % layer] = getattr(self.encoder, "bias_ih_l%d" % layer)
            named["decoder.%d.input" % layer] = self.decoder_input[layer]
            named["decoder.%d.hidden" % layer] = self.decoder_hidden[layer]
            named["decoder.%d.bias" % layer] = self.decoder_bias[layer]
        return named

    def forward(self, arrays, update):
        memory, hidden, cell = self.encode(arrays["source"], arrays["source_length"])
        attentional = self.decode(arrays, memory, hidden, cell)
        logits = functional.linear(attentional, self.output)
        real = positions_below(arrays["target_length"], arrays["target_output"].shape[1])
        ignored = -100
        labels = torch.where(real, arrays["target_output"].long(), ignored)
        # both are (target position, batch)
        return functional.cross_entropy(logits.flatten(0, 1), labels.t().flatten(), ignore_index=ignored)

    def encode(self, source, length):
        """The top layer's outputs (batch, S, width) and the final states, a list over the layers of (batch, width)."""
        embedded = functional.embedding(source, self.encoder_embedding)
        packed = pack_padded_sequence(embedded, length, batch_first=True, enforce_sorted=False)
        outputs, (hidden, cell) = self.encoder(packed)
        memory, _ = pad_packed_sequence(outputs, batch_first=True, total_length=source.shape[1])
        return memory, list(hidden), list(cell)

    def decode(self, arrays, memory, hidden, cell):
        """The attentional vectors (T, batch, width)."""
        length = arrays["source_length"].to(memory.device, non_blocking=True)
        mask = torch.zeros(memory.shape[:2], dtype=memory.dtype, device=memory.device)
        mask.masked_fill_(~positions_below(length, memory.shape[1]), -torch.inf)
        keys = functional.linear(memory, self.attention_memory)
        embedded = functional.embedding(arrays["target_input"].t(), self.decoder_embedding)
        layers = (FusedLayers if memory.is_cuda else GatheredLayers)(self, embedded)
        of_query, of_output = (layers.product(weight) for weight in (self.attention_query, self.attention_output))
        attentional = torch.zeros_like(hidden[0])
        outputs = []
        for word in layers.words:
            x = attentional
            for layer in range(self.layers):
                hidden[layer], cell[layer] = layers(layer, word, x, hidden[layer], cell[layer])
                x = hidden[layer]
            query = of_query(hidden[-1])
            score = torch.tanh(keys + query.unsqueeze(1)) @ self.attention_v
            weight = torch.softmax(score + mask, 1)
            context = torch.bmm(weight.unsqueeze(1), memory).squeeze(1)
            attentional = of_output(torch.cat([hidden[-1], context], 1))
            outputs.append(attentional)
        return torch.stack(outputs)


class GatheredLayers:
    """The decoder's LSTM layers for a CPU, where arithmetic counts: the weights' gradients are gathered."""

    def __init__(self, network, embedded):
        # the first layer's product with the embeddings doesn't wait for the recurrence: one product for all positions
        of_embedded, of_attentional = network.decoder_input[0].split(embedded.shape[2], 1)
        self.bias = network.decoder_bias
        self.words = functional.linear(embedded, of_embedded, self.bias[0]).unbind(0)
        self.input = [Recurrent(weight) for weight in (of_attentional, *network.decoder_input[1:])]
        self.hidden = [Recurrent(weight) for weight in network.decoder_hidden]

    def __call__(self, layer, word, x, hidden, cell):
        """The layer's new hidden and cell states (batch, width)."""
        sums = self.input[layer](x) + self.hidden[layer](hidden) + (self.bias[layer] if layer else word)
        return lstm_cell(sums, cell)

    def product(self, weight):
        return Recurrent(weight)


class FusedLayers:
    """The same for a GPU, where the number of kernels counts: PyTorch's fused cell."""

    def __init__(self, network, embedded):
        self.words = embedded.to(product_type(embedded)).unbind(0)
        self.input, self.hidden, self.bias = network.decoder_input, network.decoder_hidden, network.decoder_bias
        self.other_bias = torch.zeros_like(self.bias[0])  # of two that the cell takes; the specification has one

    def __call__(self, layer, word, x, hidden, cell):
        x = x if layer else torch.cat([word, x], 1)
        weights = self.input[layer], self.hidden[layer], self.bias[layer], self.other_bias
        return torch.lstm_cell(x, (hidden, cell), *weights)

    def product(self, weight):
        return functools.partial(functional.linear, weight=weight)


def lstm_cell(gates, cell):
    """The new hidden and cell states from the sums of the gates i, f, g, o (batch, 4 width)."""
    i, f, g, o = gates.chunk(4, 1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def positions_below(lengths, size):
    """(batch, size) booleans: whether a position is within its row's length."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(1)


NETWORK = Network
