"""The Transformer in PyTorch: the parameters are named as in the specification."""

import torch
from torch import nn
from torch.nn import functional

from tbd.models.transformer.specification import FREQUENCY_BASE


class Network(nn.Module):
    """Gives the loss of a batch. Masks of dropout are drawn by PyTorch's own generator."""

    host_inputs = ()  # the inputs that the network wants in the host's memory

    def __init__(self, specification):
        super().__init__()
        options = specification.options
        self.specification = specification
        self.scale, self.dropout = specification.embedding_scale, options["dropout"]
        self.label_smoothing = options["label_smoothing"]
        self.embedding = nn.Embedding(options["vocabulary"], options["width"])
        self.encoder, self.decoder = (Stack(specification, layer) for layer in (EncoderLayer, DecoderLayer))

    def canonical(self):
        """{canonical name: tensor}."""
        return dict(self.named_parameters())

    def forward(self, arrays, update):
        # both sides in one look-up: the backward pass then makes one gradient of the embedding's size
        source, target = self.embed(torch.cat([arrays["source"], arrays["target_input"]])).chunk(2)
        length = source.shape[1]
        unreal = ~positions_below(arrays["source_length"], length)
        # added to the scores (batch, heads, queries, keys)
        mask = torch.zeros(unreal.shape, dtype=source.dtype, device=source.device).masked_fill_(unreal, -torch.inf)
        mask = mask[:, None, None]
        hidden = self.decoder(target, self.encoder(source, mask), mask)
        logits = logits_of(hidden, self.embedding.weight)
        ignored = -100
        labels = torch.where(positions_below(arrays["target_length"], length), arrays["target_output"].long(), ignored)
        return functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), ignore_index=ignored, label_smoothing=self.label_smoothing
        )

    def embed(self, ids):
        embedded = self.embedding(ids)
        positions = position_table(self.specification, ids.shape[1], ids.device).to(embedded.dtype)
        return functional.dropout(torch.add(positions, embedded, alpha=self.scale), self.dropout)


class Stack(nn.Module):
    """The layers of one side, "0", "1", ..., and the norm after them."""

    def __init__(self, specification, layer):
        super().__init__()
        self.layers = [str(n) for n in range(specification.options["layers"])]
        for name in self.layers:
            self.add_module(name, layer(specification))
        self.norm = norm(specification)

    def forward(self, x, *others):
        for name in self.layers:
            x = getattr(self, name)(x, *others)
        return self.norm(x)


class EncoderLayer(nn.Module):
    def __init__(self, specification):
        super().__init__()
        self.attention = SelfAttention(specification)
        self.feedforward = FeedForward(specification)

    def forward(self, x, mask):
        return self.feedforward(self.attention(x, mask))


class DecoderLayer(nn.Module):
    def __init__(self, specification):
        super().__init__()
        self.attention = SelfAttention(specification)
        self.memory = MemoryAttention(specification)
        self.feedforward = FeedForward(specification)

    def forward(self, x, memory, mask):
        # the padding comes last: no real position sees it, and what it sees itself goes nowhere
        return self.feedforward(self.memory(self.attention(x, None), memory, mask))


class Sublayer(nn.Module):
    """x + dropout(compute(norm(x), ...))."""

    def __init__(self, specification):
        super().__init__()
        self.dropout, self.heads = specification.options["dropout"], specification.options["heads"]
        self.norm = norm(specification)

    def forward(self, x, *others):
        return x + functional.dropout(self.compute(self.norm(x), *others), self.dropout)


class SelfAttention(Sublayer):
    """Causal where it has no mask."""

    def __init__(self, specification):
        super().__init__(specification)
        width = specification.options["width"]
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def compute(self, x, mask):
        return self.output(attention(split(self.qkv(x), 3, self.heads), mask, self.dropout))


class MemoryAttention(Sublayer):
    """The decoder's on the encoder's output."""

    def __init__(self, specification):
        super().__init__(specification)
        width = specification.options["width"]
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def compute(self, x, memory, mask):
        query_key_value = *split(self.query(x), 1, self.heads), *split(self.key_value(memory), 2, self.heads)
        return self.output(attention(query_key_value, mask, self.dropout))


class FeedForward(Sublayer):
    def __init__(self, specification):
        super().__init__(specification)
        width, inner = specification.options["width"], specification.options["feedforward"]
        self.inner = nn.Linear(width, inner)
        self.outer = nn.Linear(inner, width)

    def compute(self, x):
        return self.outer(functional.dropout(functional.relu(self.inner(x)), self.dropout))


def norm(specification):
    return nn.LayerNorm(specification.options["width"], eps=specification.norm_epsilon)


def split(x, parts, heads):
    """`parts` arrays (batch, heads, length, features of a head) from (batch, length, parts x width)."""
    return x.unflatten(2, (parts, heads, -1)).permute(2, 0, 3, 1, 4).unbind()


def attention(query_key_value, mask, dropout):
    """The heads' sums side by side, (batch, length, width)."""
    causal = mask is None
    sums = functional.scaled_dot_product_attention(
        *query_key_value, attn_mask=mask, dropout_p=dropout, is_causal=causal
    )
    return sums.transpose(1, 2).flatten(2)


def logits_of(hidden, embedding):
    return functional.linear(hidden, embedding)


def position_table(specification, length, device):
    """position[p] of the specification, (length, width) float64, worked out on the device."""
    width = specification.options["width"]
    frequencies = FREQUENCY_BASE ** (torch.arange(0, width, 2, dtype=torch.float64, device=device) / -width)
    angles = torch.arange(length, dtype=torch.float64, device=device).unsqueeze(1) * frequencies
    return torch.stack([angles.sin(), angles.cos()], 2).flatten(1)


def positions_below(lengths, size):
    """(batch, size) booleans: whether a position is within its row's length."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(1)


NETWORK = Network
