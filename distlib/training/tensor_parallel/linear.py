"""A linear layer over N ranks, cut in one of two ways.

    y = x·Wᵀ      W is [out, in]                        needs          gives

    by columns of Wᵀ:  rank r has out/N rows of W       all of x       its out/N features of y
    by rows of Wᵀ:     rank r has in/N columns of W     its in/N       a part of the sum of all of y
                                                        features of x

One after the other they fit: what the first gives is what the second needs, so between them nothing is sent, and a
function that works on each feature by itself can stand there. The other way round, or with a function of that kind
behind a part of a sum, it is wrong: gelu(a + b) is not gelu(a) + gelu(b).

    x ──copy_to_ranks──► column ──► gelu ──► row ──sum_over_ranks──► y       1 all-reduce forward, 1 backward

Names of the two cuts, and this pairing: Shoeybi et al., arXiv:1909.08053, section 3.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.functional import linear

from distlib.arguments import checked
from distlib.collectives import all_reduce
from distlib.communicator import Communicator
from distlib.training.tensor_parallel.drawing import draw_linear
from distlib.training.tensor_parallel.operators import copy_to_ranks, gather_sequence, scatter_sum, sum_over_ranks
from distlib.training.tensor_parallel.shares import note_cut, own_indices, own_range


class ColumnParallelLinear(nn.Module):
    """A linear layer of which each rank computes some of the output features.

    Sends nothing forward, and the gradient of its input backward: one all-reduce.

    Args:
        comm: the ranks that share the layer.
        in_features, out_features: of the whole layer.
        bias: whether it has one; each rank has its part.
        sections: the outputs are this many sections of equal size, and each is cut by itself: 3 for queries, keys and
            values.
        sequence: whether the input is cut along the sequence; it is gathered then (see operators).
        seed: of the weights; the same for every number of ranks.
        dtype: of the weights.

    Attributes:
        weight: [out_features / ranks, in_features], this rank's rows.
        bias: [out_features / ranks], or None.

    Raises:
        ValueError: the ranks do not divide the output features.
    """

    @checked
    def __init__(
        self,
        comm: Communicator,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        sections: int = 1,
        sequence: bool = False,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.comm, self.sequence = comm, sequence
        self.rows = own_indices(comm, "output features", out_features, sections)
        weight, whole_bias = draw_linear(in_features, out_features, self.rows, slice(None), seed, dtype)
        self.weight = note_cut(comm, weight)
        self.bias = note_cut(comm, whole_bias[self.rows]) if bias else None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[…, in_features], the same on every rank → […, out_features / ranks], this rank's features."""
        enter = gather_sequence if self.sequence else copy_to_ranks
        return linear(enter(self.comm, inputs), self.weight, self.bias)

    @torch.no_grad()
    def load_whole(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """Copy this rank's part of a whole layer: weight [out_features, in_features], bias [out_features]."""
        self.weight.copy_(weight[self.rows])
        if self.bias is not None and bias is not None:
            self.bias.copy_(bias[self.rows])


class RowParallelLinear(nn.Module):
    """A linear layer of which each rank has some of the input features, and computes its part of the sum.

    Sends the output forward: one all-reduce. Sends nothing backward. The bias is on every rank, and is added after the
    sum: added before, it would count once per rank.

    Args:
        comm, in_features, out_features, bias, seed, dtype: as of a `ColumnParallelLinear`.
        sequence: whether the output is to be cut along the sequence (see operators).

    Attributes:
        weight: [out_features, in_features / ranks], this rank's columns.
        bias: [out_features], or None.

    Raises:
        ValueError: the ranks do not divide the input features.
    """

    @checked
    def __init__(
        self,
        comm: Communicator,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        sequence: bool = False,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.comm, self.sequence = comm, sequence
        self.columns = own_range(comm, "input features", in_features)
        weight, whole_bias = draw_linear(in_features, out_features, range(out_features), self.columns, seed, dtype)
        self.weight = note_cut(comm, weight)
        self.bias = nn.Parameter(whole_bias) if bias else None

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """[…, in_features / ranks], this rank's features → […, out_features], the same on every rank."""
        leave = scatter_sum if self.sequence else sum_over_ranks
        outputs = leave(self.comm, linear(inputs, self.weight))
        return outputs if self.bias is None else outputs + self.bias

    @torch.no_grad()
    def load_whole(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """Copy this rank's part of a whole layer: weight [out_features, in_features], bias [out_features]."""
        self.weight.copy_(weight[:, self.columns])
        if self.bias is not None and bias is not None:
            self.bias.copy_(bias)


@checked
def sum_sequence_gradients(comm: Communicator, module: nn.Module) -> None:
    """With sequence parallelism: add up the gradients of what every rank has and uses on its part of the sequence.

    These are the parameters of each LayerNorm and the bias of each RowParallelLinear. Call it after `backward`. One
    all-reduce for all of them together.
    """
    gradients = [each.grad for each in _used_on_parts(module) if each.grad is not None]
    if gradients:
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        all_reduce(comm, flat)
        for gradient, total in zip(gradients, flat.split([each.numel() for each in gradients]), strict=True):
            gradient.copy_(total.view_as(gradient))


def _used_on_parts(module: nn.Module) -> Iterator[nn.Parameter]:
    for part in module.modules():
        if isinstance(part, nn.LayerNorm):
            yield from part.parameters()
        elif isinstance(part, RowParallelLinear) and part.sequence and part.bias is not None:
            yield part.bias
