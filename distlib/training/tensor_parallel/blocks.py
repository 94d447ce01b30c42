"""The two blocks of a transformer layer over N ranks, each with one all-reduce forward and one backward.

    MLP          x ──copy──► column ──► gelu ──► row ──sum──► y         rank r: hidden/N of the hidden features
    attention    x ──copy──► q, k, v ──► softmax(q·kᵀ)·v ──► row ──sum──► y      rank r: heads/N of the heads

    layer        x + attention(norm(x)), then x + mlp(norm(x)): 4 all-reduces, 2 of them forward

Each all-reduce has the size of x: batch · sequence · features. Queries, keys and values are one column-parallel layer
with three sections: as three layers they would need three all-reduces backward.

Where `sequence` is set, x is cut along the sequence between the blocks, and each all-reduce becomes a reduce-scatter
and an all-gather: the same bytes, and the norms are computed once instead of on every rank.

Source: Shoeybi et al., arXiv:1909.08053, sections 3 and 5; sequence parallelism: Korthikanti et al., arXiv:2205.05198.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention

from distlib.arguments import checked
from distlib.communicator import Communicator
from distlib.training.tensor_parallel.linear import ColumnParallelLinear, RowParallelLinear
from distlib.training.tensor_parallel.shares import share


class ParallelMLP(nn.Module):
    """Two linear layers with a GELU between them; each rank has its part of the hidden features.

    Args:
        comm: the ranks that share it.
        features, hidden: of the whole block.
        sequence, dtype: as of the linear layers.
        seed: of the first layer; the second one has the next seed.

    Raises:
        ValueError: the ranks do not divide the hidden features.
    """

    @checked
    def __init__(self, comm: Communicator, features: int, hidden: int, *, seed: int = 0, **options: Any) -> None:
        super().__init__()
        share(comm, "hidden features", hidden)
        self.up = ColumnParallelLinear(comm, features, hidden, seed=seed, **options)
        self.down = RowParallelLinear(comm, hidden, features, seed=seed + 1, **options)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[…, features] → […, features], the same on every rank."""
        return self.down(gelu(self.up(inputs)))

    def load_whole(self, up: nn.Linear, down: nn.Linear) -> None:
        """Copy this rank's part of two whole layers."""
        self.up.load_whole(up.weight, up.bias)
        self.down.load_whole(down.weight, down.bias)


class ParallelAttention(nn.Module):
    """Self-attention of which each rank has some of the heads: a head needs nothing from another one.

    Args:
        comm: the ranks that share it.
        features: of the whole block.
        heads: of all ranks together; each has features / heads features.
        causal: whether a position sees only itself and those before it.
        sequence, dtype: as of the linear layers.
        seed: of queries, keys and values; the output layer has the next seed.

    Raises:
        ValueError: the ranks do not divide the heads, or the heads do not divide the features.
    """

    @checked
    def __init__(
        self, comm: Communicator, features: int, heads: int, *, causal: bool = False, seed: int = 0, **options: Any
    ) -> None:
        super().__init__()
        self.heads, self.causal = share(comm, "heads", heads), causal
        if features % heads:
            raise ValueError(f"expected a number of features that {heads} heads divide, got {features}")
        self.queries_keys_values = ColumnParallelLinear(comm, features, 3 * features, sections=3, seed=seed, **options)
        self.output = RowParallelLinear(comm, features, features, seed=seed + 1, **options)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[batch, sequence, features] → [batch, sequence, features], the same on every rank."""
        split = self.queries_keys_values(inputs).unflatten(-1, (3, self.heads, -1))
        queries, keys, values = split.permute(2, 0, 3, 1, 4)  # each [batch, heads of this rank, sequence, head]
        mixed = scaled_dot_product_attention(queries, keys, values, is_causal=self.causal)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def load_whole(self, attention: nn.MultiheadAttention) -> None:
        """Copy this rank's heads of torch's attention."""
        assert attention.in_proj_weight is not None
        self.queries_keys_values.load_whole(attention.in_proj_weight, attention.in_proj_bias)
        self.output.load_whole(attention.out_proj.weight, attention.out_proj.bias)


class ParallelTransformerLayer(nn.Module):
    """Attention and MLP, each behind a norm and added to its input: torch's TransformerEncoderLayer, norms first.

    Args:
        comm: the ranks that share it.
        features, hidden, heads, causal: as of its blocks.
        sequence: whether input and output are cut along the sequence; then call `sum_sequence_gradients` after
            `backward`.
        seed: the first of four, one for each linear layer. The next transformer layer takes `seed + 4`.
        dtype: of the weights.

    Raises:
        ValueError: the ranks do not divide heads or hidden features.
    """

    @checked
    def __init__(
        self,
        comm: Communicator,
        features: int,
        hidden: int,
        heads: int,
        *,
        causal: bool = False,
        sequence: bool = False,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"sequence": sequence, "dtype": dtype}
        self.attention = ParallelAttention(comm, features, heads, causal=causal, seed=seed, **options)
        self.mlp = ParallelMLP(comm, features, hidden, seed=seed + 2, **options)
        self.attention_norm, self.mlp_norm = (nn.LayerNorm(features, dtype=dtype) for _ in range(2))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[batch, sequence, features] → the same shape. With `sequence`: [batch, sequence / ranks, features]."""
        inputs = inputs + self.attention(self.attention_norm(inputs))
        return inputs + self.mlp(self.mlp_norm(inputs))

    def load_whole(self, layer: nn.TransformerEncoderLayer) -> None:
        """Copy this rank's part of torch's layer."""
        self.attention.load_whole(layer.self_attn)
        self.mlp.load_whole(layer.linear1, layer.linear2)
        self.attention_norm.load_state_dict(layer.norm1.state_dict())
        self.mlp_norm.load_state_dict(layer.norm2.state_dict())
