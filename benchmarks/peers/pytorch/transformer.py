"""The Transformer on torch.nn.Transformer, normalisation before each sublayer, one embedding for all."""

import torch
from torch import nn
from torch.nn import functional

from peers.pytorch import loop

SOURCE = "torch.nn.Transformer"


class Translator(nn.Module):
    def __init__(self, options):
        super().__init__()
        width, layers, dropout = options["width"], options["layers"], options["dropout"]
        self.scale = width**0.5
        self.embedding = nn.Embedding(options["vocabulary"], width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            width, options["heads"], layers, layers, options["feedforward"], dropout, batch_first=True, norm_first=True
        )
        longest = 1024
        angles = torch.arange(longest)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], 2).flatten(1))
        self.register_buffer("later", torch.ones(longest, longest, dtype=torch.bool).triu(1))

    def embed(self, ids):
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])

    def forward(self, source, target, padding):
        """Logits (batch, target positions, vocabulary)."""
        later = self.later[: target.shape[1], : target.shape[1]]
        y = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=later,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            src_is_causal=False,
            tgt_is_causal=True,
        )
        return functional.linear(y, self.embedding.weight)


def build(options, batch_size, device, precision, compile):
    def loss(network, inputs):
        source, labels = inputs["source"], inputs["target_output"].long()
        positions = torch.arange(source.shape[1], device=source.device)
        logits = network(source, inputs["target_input"], positions >= inputs["source_length"][:, None])
        labels = labels.where(positions < inputs["target_length"][:, None], -100)
        return functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), label_smoothing=options["label_smoothing"]
        )

    def optimizer(parameters):
        return torch.optim.Adam(parameters, 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    return loop.build(Translator(options), loss, optimizer, device, precision, compile)
