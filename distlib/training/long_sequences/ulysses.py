"""Attention over a cut sequence by two all-to-alls: from a part of the sequence to a part of the heads, and back.

    rank r has             all heads, sequence/N positions
    all-to-all      ──►    heads/N heads, the whole sequence             queries, keys and values, in one message
    attention              as in one process, for these heads
    all-to-all      ──►    all heads, sequence/N positions               the output

A head needs nothing from another one, so between the all-to-alls any attention will do. The ranks must divide the
heads: no more ranks than heads. And each rank keeps the whole sequence, of few heads.

Cost for N ranks, and keys of S bytes on each: forward a rank sends 4(N−1)/N·S bytes in 2(N−1) messages, backward the
same. A ring sends N/2 times as many forward. See `attention_traffic`.

Source: S. A. Jacobs et al., "DeepSpeed Ulysses", arXiv:2309.14509 (2023), section 3.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from distlib.arguments import check_by_name
from distlib.collectives import all_to_all
from distlib.collectives.arguments import announced
from distlib.communicator import Communicator
from distlib.training.long_sequences.ring_attention import check_attention

HEADS, SEQUENCE = -3, -2  # the dimensions


def ulysses_attention(
    comm: Communicator,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    causal: bool = False,
) -> torch.Tensor:
    """Attention of this rank's queries to the keys of all ranks: what one process computes for these positions.

    Inside `backward` it communicates, so a SimulatedWorld takes contexts="threads".

    Args:
        queries, keys, values: this rank's part, [batch, heads, sequence / N, head], contiguous positions in the order
            of the ranks: the same shape and dtype on every rank.
        causal: whether a position sees only itself and those before it.

    Returns:
        [batch, heads, sequence / N, head], of the same positions.

    Raises:
        TypeError: not a communicator, or not a tensor.
        ValueError: tensors that differ in shape or dtype, or heads that the ranks don't divide.
        MessageMismatch: another shape or another `causal` on another rank.
    """
    check_by_name("ulysses_attention", comm=comm)
    check_attention("ulysses_attention", queries, keys, values)
    name = "ulysses_attention"
    whole = torch.stack([queries, keys, values])
    _check_divides(name, comm, "heads", whole, HEADS)
    own = _Reshard.apply(comm, whole, HEADS, SEQUENCE, name, causal)
    output = scaled_dot_product_attention(own[0], own[1], own[2], is_causal=causal)
    result: torch.Tensor = _Reshard.apply(comm, output, SEQUENCE, HEADS, name, causal)
    return result


def sequence_to_heads(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """[…, heads, sequence / N, head] → [… , heads / N, sequence, head]; backward, gradients go the other way.

    Raises:
        ValueError: the ranks don't divide the heads.
        MessageMismatch: another shape on another rank.
    """
    _check_divides("sequence_to_heads", comm, "heads", tensor, HEADS)
    return _Reshard.apply(comm, tensor, HEADS, SEQUENCE, "sequence_to_heads", None)


def heads_to_sequence(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """[…, heads / N, sequence, head] → [… , heads, sequence / N, head]: undoes `sequence_to_heads`.

    Raises:
        ValueError: the ranks don't divide the sequence.
        MessageMismatch: another shape on another rank.
    """
    _check_divides("heads_to_sequence", comm, "positions", tensor, SEQUENCE)
    return _Reshard.apply(comm, tensor, SEQUENCE, HEADS, "heads_to_sequence", None)


def _check_divides(who: str, comm: Communicator, what: str, tensor: torch.Tensor, dimension: int) -> None:
    check_by_name(who, comm=comm, tensor=tensor)
    if tensor.dim() < 3 or tensor.shape[dimension] % comm.world_size:
        shape = tuple(tensor.shape)
        raise ValueError(f"{who} expected a number of {what} that {comm.world_size} ranks divide, got shape {shape}")


class _Reshard(torch.autograd.Function):
    """Cut along one dimension, and each rank's pieces joined along another one. Backward, the two change places.

    `name` and `causal` are for the messages: ranks that disagree get an error.
    """

    @staticmethod
    def forward(
        ctx: Any, comm: Communicator, tensor: torch.Tensor, cut: int, joined: int, name: str, causal: bool | None
    ) -> torch.Tensor:
        ctx.comm, ctx.cut, ctx.joined, ctx.name, ctx.causal = comm, cut, joined, name, causal
        return _resharded(announced(comm, name, tensor, causal=causal), tensor, cut, joined)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        comm = announced(ctx.comm, f"{ctx.name}_backward", gradient, causal=ctx.causal)
        return None, _resharded(comm, gradient, ctx.joined, ctx.cut), None, None, None, None


def _resharded(comm: Communicator, tensor: torch.Tensor, cut: int, joined: int) -> torch.Tensor:
    pieces = tensor.detach().chunk(comm.world_size, dim=cut)
    arrived = [torch.empty_like(piece, memory_format=torch.contiguous_format) for piece in pieces]
    all_to_all(comm, arrived, pieces)
    return torch.cat(arrived, dim=joined)
