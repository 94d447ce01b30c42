"""Grouped-query attention over N ranks: several heads of queries share one head of keys and values.

8 query heads, 2 key-value heads, each has features/8 features

    ranks            0           1           2           3
    query heads      0 1         2 3         4 5         6 7         always cut: heads/N on each rank
    key-value head   0           0           1           1           2 heads on 4 ranks: each lies on 2 of them
                     └── shared ──┘           └── shared ──┘

Where the ranks divide the key-value heads, these are cut like the queries. Where the key-value heads divide the ranks,
each of them is copied to the ranks/key-value-heads ranks that have its queries. A copy finds only the part of its
gradient that comes through its own rank's queries. So the gradients of the copies are added up after `backward`
(`sum_shared_gradients`): one all-reduce among the ranks that share it, of the size of a weight and not of x.

Forward and backward through the layer send what any attention sends: one all-reduce of the size of x each. What shrinks
is the weight of keys and values, and what a model keeps while it writes text: keys and values of all positions so far
(the KV cache), 2 · key-value heads · features/heads numbers per position.

Source: J. Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints",
arXiv:2305.13245 (2023). One key-value head for all: N. Shazeer, arXiv:1911.02150 (2019).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import linear, scaled_dot_product_attention

from distlib.arguments import checked
from distlib.collectives import all_reduce
from distlib.communicator import Communicator
from distlib.training.tensor_parallel.drawing import draw_linear
from distlib.training.tensor_parallel.linear import RowParallelLinear
from distlib.training.tensor_parallel.operators import copy_to_ranks
from distlib.training.tensor_parallel.shares import note_cut, share


class GroupedQueryAttention(nn.Module):
    """Self-attention with fewer heads of keys and values than of queries. No bias.

    Args:
        comm: the ranks that share it.
        features: of the whole block.
        heads: of the queries, on all ranks together; each has features / heads features.
        kv_heads: of keys and values, on all ranks together. `heads` as many: any attention. 1: multi-query attention.
        causal: whether a position sees only itself and those before it.
        seed: of queries, keys and values; the output layer has the next seed.
        dtype: of the weights.

    Attributes:
        weight: [(query heads + 2 · key-value heads of this rank) · features / heads, features]: the rows of the
            queries, then of the keys, then of the values.
        output: a `RowParallelLinear`.
        own_kv_heads: the numbers of this rank's key-value heads.
        sharing: the communicator of the ranks that have the same key-value heads.

    Raises:
        ValueError: the ranks do not divide the heads; the key-value heads do not divide the heads; or neither do the
            ranks divide the key-value heads nor these the ranks.
    """

    @checked
    def __init__(
        self,
        comm: Communicator,
        features: int,
        heads: int,
        kv_heads: int,
        *,
        causal: bool = False,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.comm, self.causal = comm, causal
        self.heads, self.head_features = share(comm, "heads", heads), _head_features(features, heads)
        self.own_kv_heads = _own_kv_heads(comm, heads, kv_heads)
        sharing = comm.split(self.own_kv_heads.start)
        assert sharing is not None  # every rank has a color
        self.sharing = sharing
        rows = self._rows(heads, kv_heads)
        outputs = (heads + 2 * kv_heads) * self.head_features
        self.weight = note_cut(comm, draw_linear(features, outputs, rows, slice(None), seed, dtype)[0])
        self.output = RowParallelLinear(comm, features, features, bias=False, seed=seed + 1, dtype=dtype)

    def _rows(self, heads: int, kv_heads: int) -> list[int]:
        """Of the whole weight: those of this rank's queries, of its keys and of its values."""
        first = self.comm.rank * self.heads
        queries = range(first, first + self.heads)
        keys, values = ([start + head for head in self.own_kv_heads] for start in (heads, heads + kv_heads))
        size = self.head_features
        return [head * size + row for head in (*queries, *keys, *values) for row in range(size)]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[batch, sequence, features] → [batch, sequence, features], the same on every rank."""
        queries, keys, values = self.queries_keys_values(inputs)
        mixed = scaled_dot_product_attention(queries, keys, values, is_causal=self.causal, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def queries_keys_values(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        """[batch, sequence, features] → three times [batch, heads of this rank, sequence, features / heads].

        The last two are what a KV cache keeps.
        """
        heads = linear(copy_to_ranks(self.comm, inputs), self.weight).unflatten(-1, (-1, self.head_features))
        kv_heads = len(self.own_kv_heads)
        return [each.transpose(1, 2) for each in heads.split([self.heads, kv_heads, kv_heads], dim=2)]

    def sum_shared_gradients(self) -> None:
        """Add up the gradients of keys' and values' weights over the ranks that share them. Call it after `backward`.

        In place. One all-reduce within `sharing`; nothing is sent where no rank shares.
        """
        if self.sharing.world_size > 1 and self.weight.grad is not None:
            shared = self.weight.grad[self.heads * self.head_features :].contiguous()
            all_reduce(self.sharing, shared)
            self.weight.grad[self.heads * self.head_features :] = shared


def _head_features(features: int, heads: int) -> int:
    if features % heads:
        raise ValueError(f"expected a number of features that {heads} heads divide, got {features}")
    return features // heads


def _own_kv_heads(comm: Communicator, heads: int, kv_heads: int) -> range:
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"expected a number of key-value heads that divides {heads} heads, got {kv_heads}")
    if kv_heads % comm.world_size and comm.world_size % kv_heads:
        raise ValueError(
            f"expected a number of key-value heads that {comm.world_size} ranks divide, or that divides them, "
            f"got {kv_heads}: each must lie on as many ranks as the others"
        )
    first = comm.rank * kv_heads // comm.world_size
    return range(first, first + max(1, kv_heads // comm.world_size))
