"""Attention over a sequence that is cut over ranks: queries stay, keys and values travel round the ring.

    step s      rank r has the keys and values of rank r−s, computes its queries' scores with them, and mends its
                softmax (see `online_softmax`), while the next block is on its way

No rank ever has the whole sequence, nor a matrix of all its scores. Backward, keys and values travel once more, and
their gradients after them: each rank adds what its queries contribute, and the last send brings them home.

Cost for N ranks, and keys of S bytes on each: forward a rank sends N−1 messages and 2(N−1)·S bytes, backward 2N−1
messages and 2(N−1)·S + 2N·S bytes. See `attention_traffic`.

Source: H. Liu, M. Zaharia, P. Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite Context",
arXiv:2310.01889 (2023). The gradients are those of T. Dao et al., arXiv:2205.14135 (2022), appendix B.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from distlib.arguments import check_by_name, check_tensor
from distlib.collectives.arguments import announced
from distlib.communicator import Communicator
from distlib.training.long_sequences.circulation import circulate, circulate_and_collect
from distlib.training.long_sequences.online_softmax import OnlineSoftmax
from distlib.training.long_sequences.sequence_order import BlockPair, block_pairs, blocks_of, check_length, check_order


def ring_attention(
    comm: Communicator,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    causal: bool = False,
    order: str = "contiguous",
) -> torch.Tensor:
    """Attention of this rank's queries to the keys of all ranks: what one process computes for these positions.

    Inside `backward` it communicates, so a SimulatedWorld takes contexts="threads". Half precision is computed in
    float32, and the gradients of keys and values travel so.

    Args:
        queries, keys, values: this rank's part, [batch, heads, sequence / N, head], as `own_sequence` cuts it: the same
            shape and dtype on every rank.
        causal: whether a position sees only itself and those before it. Blocks that no query sees are skipped.
        order: which positions the part has, "contiguous" or "zigzag"; with `causal` only zigzag is balanced.

    Returns:
        [batch, heads, sequence / N, head], of the same positions.

    Raises:
        TypeError: not a communicator, or not a tensor.
        ValueError: tensors that differ in shape or dtype, an unknown order, or in zigzag order an odd length.
        MessageMismatch: another shape, `causal` or `order` on another rank.
    """
    check_by_name("ring_attention", comm=comm)
    check_attention("ring_attention", queries, keys, values)
    check_order("ring_attention", order)
    check_length("ring_attention", "a part", queries.shape[-2], len(blocks_of(0, 1, order)))
    result: torch.Tensor = _RingAttention.apply(comm, queries, keys, values, causal, order)
    return result


def check_attention(who: str, queries: object, keys: object, values: object) -> None:
    """Check that queries, keys and values are [batch, heads, length, head], all alike. Raises TypeError, ValueError."""
    for name, tensor in (("queries", queries), ("keys", keys), ("values", values)):
        check_tensor(who, tensor, f" as {name}")
        assert isinstance(tensor, torch.Tensor) and isinstance(queries, torch.Tensor)
        if tensor.dim() != 4 or not tensor.is_floating_point():
            shape = f"{tuple(tensor.shape)} of {tensor.dtype}"
            raise ValueError(f"{who} expected floats [batch, heads, length, head] as {name}, got shape {shape}")
        if tensor.shape != queries.shape or tensor.dtype != queries.dtype:
            raise ValueError(
                f"{who} expected {name} of the shape and dtype of the queries, {tuple(queries.shape)} of "
                f"{queries.dtype}, got {tuple(tensor.shape)} of {tensor.dtype}"
            )


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        comm: Communicator,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        causal: bool,
        order: str,
    ) -> torch.Tensor:
        ctx.comm, ctx.causal, ctx.order = comm, causal, order
        within = announced(comm, "ring_attention", queries, causal=causal, order=order)
        output, logarithms = _forward(_CutSequence(within, causal, order), queries, keys, values)
        output = output.to(queries.dtype)
        ctx.save_for_backward(queries, keys, values, output, logarithms)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        queries, keys, values, output, logarithms = ctx.saved_tensors
        within = announced(ctx.comm, "ring_attention_backward", queries, causal=ctx.causal, order=ctx.order)
        inner = (_precise(gradient) * _precise(output)).sum(dim=-1, keepdim=True)
        rows = _Rows(_precise(queries), logarithms, _precise(gradient), inner)
        found = _backward(_CutSequence(within, ctx.causal, ctx.order), rows, keys, values)
        return None, *(each.to(queries.dtype) for each in found), None, None


class _CutSequence:
    """The blocks of this rank and of the others, as pieces of their tensors [..., length, features]."""

    def __init__(self, comm: Communicator, causal: bool, order: str) -> None:
        self.comm, self._causal, self._order = comm, causal, order
        self._count = len(blocks_of(comm.rank, comm.world_size, order))

    def pairs(self, source: int) -> Iterator[BlockPair]:
        """What this rank computes with the keys of rank `source`."""
        return block_pairs(self.comm.rank, source, self.comm.world_size, self._order, self._causal)

    def of(self, tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Views of a tensor's blocks."""
        return tensor.chunk(self._count, dim=-2)


def _forward(
    cut: _CutSequence, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output, and the logarithm of the sum in each query's softmax, [batch, heads, length, 1]."""
    precise = _precise(queries)
    softmaxes = [OnlineSoftmax(piece) for piece in cut.of(precise)]

    def visit(source: int, block: torch.Tensor) -> None:
        for own, other, diagonal in cut.pairs(source):
            key, value = cut.of(_precise(block))[other]
            softmaxes[own].add(_scores(cut.of(precise)[own], key, diagonal), value)

    circulate(cut.comm, torch.stack([keys, values]), visit)
    outputs, logarithms = zip(*(softmax.result() for softmax in softmaxes), strict=True)
    return torch.cat(outputs, dim=-2), torch.cat(logarithms, dim=-2)


class _Rows(NamedTuple):
    """What backward needs of each query: [batch, heads, length, head] or […, length, 1].

    Attributes:
        queries: themselves.
        logarithms: of the sums in their softmax.
        gradients: of their outputs.
        inner: Σ over the keys of each weight times its gradient, which is output · gradient.
    """

    queries: torch.Tensor
    logarithms: torch.Tensor
    gradients: torch.Tensor
    inner: torch.Tensor


def _backward(
    cut: _CutSequence, rows: _Rows, keys: torch.Tensor, values: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of queries, keys and values."""
    of_queries = torch.zeros_like(rows.queries)

    def addend(source: int, block: torch.Tensor) -> torch.Tensor:
        block = _precise(block)
        of_block = torch.zeros_like(block)
        for own, other, diagonal in cut.pairs(source):
            seen = _Rows(*(cut.of(each)[own] for each in rows))
            of_seen, of_keys_and_values = _gradients(seen, cut.of(block)[other], diagonal)
            cut.of(of_queries)[own].add_(of_seen)
            cut.of(of_block)[other].add_(of_keys_and_values)
        return of_block

    of_keys, of_values = circulate_and_collect(cut.comm, torch.stack([keys, values]), addend)
    return of_queries, of_keys, of_values


def _gradients(rows: _Rows, block: torch.Tensor, diagonal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """What one pair of blocks adds to the gradient of its queries, and to that of its keys and values, stacked."""
    keys, values = block
    weights = torch.exp(_scores(rows.queries, keys, diagonal) - rows.logarithms)
    of_scores = weights * (rows.gradients @ values.mT - rows.inner) * keys.shape[-1] ** -0.5
    return of_scores @ keys, torch.stack([of_scores.mT @ rows.queries, weights.mT @ rows.gradients])


def _scores(queries: torch.Tensor, keys: torch.Tensor, diagonal: bool) -> torch.Tensor:
    """[…, queries, keys]; −inf above the diagonal where both are the same block."""
    scores = queries @ keys.mT * queries.shape[-1] ** -0.5
    if diagonal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return scores


def _precise(tensor: torch.Tensor) -> torch.Tensor:
    """In float32 at least."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
