"""Tensor parallelism to read first: each rank has a part of every weight, and computes a part of every product.

    MLP         x ──copy──► column ──► gelu ──► row ──sum──► y                          rank r: hidden/N features
    attention   x ──copy──► column (q, k, v) ──► softmax(q·kᵀ)·v ──► row ──sum──► y     rank r: heads/N heads

    mlp = nn.Sequential(PlainColumnLinear(comm, up), nn.GELU(), PlainRowLinear(comm, down))     # up, down: nn.Linear

All ranks have the same whole layers, of which they keep a part, and the same x. Each block sends two all-reduces of its
size: forward one of y, of which each rank has a term; backward one of the gradient of x, of which each has a term, too.

What `linear`, `blocks`, `grouped` and `vocabulary` add: parts of weights that never were whole, activations that are
cut along the sequence, a causal mask, fewer heads of keys and values, a vocabulary that is cut.

Source: M. Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models …", arXiv:1909.08053 (2019).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import linear, scaled_dot_product_attention

from distlib.collectives import all_reduce
from distlib.communicator import Communicator


class CopyToRanks(torch.autograd.Function):
    """Forward: sends nothing. Backward: the sum of all ranks' gradients, since each used the same x for its part."""

    @staticmethod
    def forward(ctx: Any, comm: Communicator, x: torch.Tensor) -> torch.Tensor:
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        total = gradients[0].clone()
        all_reduce(ctx.comm, total)
        return None, total


class SumOverRanks(torch.autograd.Function):
    """Forward: the sum of all ranks' terms. Backward: sends nothing, since a term has the gradient of the sum."""

    @staticmethod
    def forward(ctx: Any, comm: Communicator, term: torch.Tensor) -> torch.Tensor:
        total = term.clone()
        all_reduce(comm, total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return None, gradients[0]


def own_part(comm: Communicator, weight: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """This rank's part of a weight, which is cut along `dim`."""
    return weight.detach().tensor_split(comm.world_size, dim)[comm.rank].clone()


class PlainColumnLinear(nn.Module):
    """This rank's output features (rows of the weight) of a linear layer, or of several that have the same input."""

    def __init__(self, comm: Communicator, *whole: nn.Linear) -> None:
        super().__init__()
        self.comm = comm
        self.weight = nn.Parameter(torch.cat([own_part(comm, each.weight) for each in whole]))
        self.bias = nn.Parameter(torch.cat([own_part(comm, each.bias) for each in whole]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return linear(CopyToRanks.apply(self.comm, x), self.weight, self.bias)


class PlainRowLinear(nn.Module):
    """A linear layer of which each rank has some input features (columns of the weight), and computes a term of y."""

    def __init__(self, comm: Communicator, whole: nn.Linear) -> None:
        super().__init__()
        self.comm, self.weight = comm, nn.Parameter(own_part(comm, whole.weight, dim=1))
        self.bias = nn.Parameter(whole.bias.detach().clone())  # on every rank, and added once: after the sum

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return SumOverRanks.apply(self.comm, linear(x, self.weight)) + self.bias


class PlainParallelAttention(nn.Module):
    """Self-attention with this rank's heads, [batch, sequence, features]. whole: query, key, value and output."""

    def __init__(self, comm: Communicator, num_heads: int, *whole: nn.Linear) -> None:
        super().__init__()
        query, key, value, output = whole
        self.query_key_value, self.output = PlainColumnLinear(comm, query, key, value), PlainRowLinear(comm, output)
        self.head_features = query.out_features // num_heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        split = self.query_key_value(x).unflatten(-1, (3, -1, self.head_features))
        queries, keys, values = split.permute(2, 0, 3, 1, 4)  # each [batch, own heads, sequence, features of a head]
        return self.output(scaled_dot_product_attention(queries, keys, values).transpose(1, 2).flatten(2))
