"""Ring attention to read first: queries stay on their rank, keys and values travel once round the ring.

    step s     rank r has the keys and values of rank r−s, computes the scores of its queries with them, corrects its
               softmax for them, and sends them on to rank r+1. In steps s > r they come from later positions: no work

No rank ever has the whole sequence, or all scores of a query at once. Backward the blocks travel again, and each takes
along the gradient of its keys and values, which is complete and back home after N steps. With S bytes of keys on each
of N ranks, a rank sends 2(N−1)·S bytes forward and 2(N−1)·S + 2N·S backward.

The full edition adds: the next block travels while a rank computes (`circulation`); zigzag order, in which all ranks
have the same work (`sequence_order`); attention that is not causal, and half precision (`ring_attention`).
Sources: H. Liu et al., "Ring Attention", arXiv:2310.01889; the gradients: T. Dao et al., arXiv:2205.14135, appendix B.
"""

from __future__ import annotations

from typing import Any

import torch

from distlib.communicator import Communicator


def plain_ring_attention(
    comm: Communicator, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
) -> torch.Tensor:
    """Causal attention: each position of this rank sees itself and all before it, on whichever rank they are.

    Args:
        queries, keys, values: [batch, heads, sequence / N, head]; rank r has part r of the sequence.

    Returns:
        [batch, heads, sequence / N, head]. Its backward pass communicates: a SimulatedWorld takes contexts="threads".
    """
    output: torch.Tensor = _PlainRingAttention.apply(comm, queries, keys, values)
    return output


class _PlainRingAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, comm: Communicator, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        output = torch.zeros_like(queries)  # Σ exp(score − largest)·value, over the keys seen so far
        total = torch.zeros_like(queries[..., :1])  # Σ exp(score − largest)
        largest = torch.full_like(total, -torch.inf)  # the largest score so far
        block = torch.stack([keys, values])
        for step in range(comm.world_size):
            if step <= comm.rank:  # the rank's own block comes first, so each query has seen a key
                scores = _scores(queries, block[0], own=step == 0)
                now_largest = torch.maximum(largest, scores.amax(-1, keepdim=True))
                exponentials, correction = torch.exp(scores - now_largest), torch.exp(largest - now_largest)
                output = output * correction + exponentials @ block[1]
                total = total * correction + exponentials.sum(-1, keepdim=True)
                largest = now_largest
            if step < comm.world_size - 1:
                block = _to_next_rank(comm, block)
        output /= total
        ctx.comm = comm
        ctx.save_for_backward(queries, keys, values, output, largest + total.log())
        return output

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        comm, (queries, keys, values, output, logarithms) = ctx.comm, ctx.saved_tensors
        inner = (gradient * output).sum(-1, keepdim=True)  # Σ over all keys of weight · gradient of that weight
        of_queries = torch.zeros_like(queries)
        block = torch.stack([keys, values])
        of_block = torch.zeros_like(block)  # the gradient of the block travels with it
        for step in range(comm.world_size):
            if step <= comm.rank:
                weights = torch.exp(_scores(queries, block[0], own=step == 0) - logarithms)  # the softmax over all keys
                of_scores = weights * (gradient @ block[1].mT - inner) * queries.shape[-1] ** -0.5
                of_queries += of_scores @ block[0]
                of_block += torch.stack([of_scores.mT @ queries, weights.mT @ gradient])
            if step < comm.world_size - 1:
                block = _to_next_rank(comm, block)
            of_block = _to_next_rank(comm, of_block)  # one send more: the last one brings it home
        return None, of_queries, *of_block


def _scores(queries: torch.Tensor, keys: torch.Tensor, own: bool) -> torch.Tensor:
    """[…, queries, keys]; in the rank's own block −∞ for each key that comes later than the query."""
    scores = queries @ keys.mT * queries.shape[-1] ** -0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(later, -torch.inf) if own else scores


def _to_next_rank(comm: Communicator, tensor: torch.Tensor) -> torch.Tensor:
    """Send the tensor to the next rank of the ring; returns that of the previous rank."""
    if comm.world_size == 1:
        return tensor
    arrived = torch.empty_like(tensor)
    comm.exchange(tensor, (comm.rank + 1) % comm.world_size, arrived, (comm.rank - 1) % comm.world_size)
    return arrived
