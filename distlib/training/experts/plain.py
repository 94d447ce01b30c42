"""A mixture of experts to read first: every token goes to two experts, on whichever ranks they are.

    tokens ──► router ──► all-to-all ──► experts of this rank ──► all-to-all ──► tokens

Each rank has its own tokens, as in data parallelism, and E/N of the E experts: expert e is on rank e // (E/N). One
all-to-all of counts says how many rows will come, one takes the rows to their experts, and one brings the answers back.

The full edition adds: a capacity, beyond which an expert drops tokens (`capacity`); a loss that keeps all experts busy
(`load_balance`); k experts per token, and weights that are not renormalised (`router`); experts that have the same
initial weights on any number of ranks (`mixture`); checks (`dispatch`).
Sources: N. Shazeer et al., "Outrageously Large Neural Networks", arXiv:1701.06538 (2017); D. Lepikhin et al., "GShard",
arXiv:2006.16668 (2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from distlib.collectives import all_reduce, all_to_all
from distlib.communicator import Communicator

K = 2  # experts per token


class PlainMixture(nn.Module):
    """A layer of experts over ranks. Backward communicates too, so a SimulatedWorld takes contexts="threads".

    After backward an expert's gradient has the tokens of all ranks; the router's needs `plain_sum_router_gradients`.

    Args:
        router: tokens [tokens, features] → scores [tokens, experts], the same weights on every rank.
        experts: those of this rank, equally many on each; each takes and returns rows [any number, features].
    """

    def __init__(self, comm: Communicator, router: nn.Module, experts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.comm, self.router, self.experts = comm, router, nn.ModuleList(experts)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """[tokens, features] → the same shape: for each token what its experts say, by weight."""
        ranks, per_rank = self.comm.world_size, len(self.experts)
        weights, choices = self.router(tokens).softmax(-1).topk(K)  # both [tokens, K]
        weights = weights / weights.sum(-1, keepdim=True)
        by_expert = choices.flatten().argsort(stable=True)  # all choices, those of expert 0 first
        token_of = by_expert // K  # which token each of them is of

        # How many rows go from here to each expert, [rank, its expert], and come to mine, [from rank, my expert].
        going = torch.bincount(choices.flatten(), minlength=ranks * per_rank).view(ranks, per_rank)
        coming = torch.empty_like(going)
        all_to_all(self.comm, list(coming), list(going))
        sent, received = going.sum(1).tolist(), coming.sum(1).tolist()

        # The rows come sorted by rank, and those of one rank by expert.
        rows = _AllToAllOfRows.apply(self.comm, tokens[token_of], sent, received)
        expert_of = torch.arange(per_rank, device=rows.device).repeat(ranks).repeat_interleave(coming.flatten())
        outputs = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            outputs[expert_of == number] = expert(rows[expert_of == number])  # there may be none
        answers = _AllToAllOfRows.apply(self.comm, outputs, received, sent)

        weighted = answers * weights.flatten()[by_expert].unsqueeze(1)
        return torch.zeros_like(tokens).index_add(0, token_of, weighted)


class _AllToAllOfRows(torch.autograd.Function):
    """An all-to-all of rows: the first `sent[0]` go to rank 0, and so on. Backward, their gradients come back."""

    @staticmethod
    def forward(ctx: Any, comm: Communicator, rows: torch.Tensor, sent: list[int], received: list[int]) -> torch.Tensor:
        ctx.comm, ctx.sent, ctx.received = comm, sent, received
        arrived = rows.new_empty(sum(received), rows.shape[1])
        all_to_all(comm, arrived.split(received), rows.detach().split(sent))
        return arrived

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        returned = gradient.new_empty(sum(ctx.sent), gradient.shape[1])
        all_to_all(ctx.comm, returned.split(ctx.sent), gradient.split(ctx.received))
        return None, returned, None, None


def plain_sum_router_gradients(layer: PlainMixture) -> None:
    """Add the router's gradients up over the ranks, in place: each rank has those of its own tokens."""
    for parameter in layer.router.parameters():
        if parameter.grad is not None:
            all_reduce(layer.comm, parameter.grad)
