"""Tokens to the ranks of their experts, and back: two all-to-alls with counts that differ.

    rank r has           its tokens, and for each the experts it goes to; expert e lives on rank e // (E/N)
    counts      ──►      one all-to-all of E/N integers a message: how many rows come for each of my experts
    rows        ──►      one all-to-all, of as many rows as were counted, sorted by expert
    experts              each computes its rows
    rows        ◄──      the same back, and each token adds up what its experts have said, by weight

Cost for N ranks, with c rows of F bytes for experts on other ranks: (N−1) · E/N · 8 bytes of counts, c·F bytes there,
and for what comes back from the ranks as many as they were sent. Backward the same without counts.

Source: D. Lepikhin et al., "GShard", arXiv:2006.16668 (2020), section 3.1, where each expert gets as many rows as it
has room for, filled up; rows without filling: T. Gale et al., "MegaBlocks", arXiv:2211.15841 (2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.arguments import check_by_name, check_integer, check_tensor, check_type
from distlib.collectives import all_to_all
from distlib.collectives.arguments import announced
from distlib.communicator import Communicator
from distlib.training.experts.capacity import has_room


@dataclass(frozen=True)
class Dispatched:
    """What has come to the experts of this rank, and how it goes back.

    Attributes:
        rows: [all that came, features], sorted by expert; those of one expert by rank, and then as they were sent.
        counts: how many of the rows each expert of this rank has; some may have none.
        kept: [tokens, k], which choices of this rank's own tokens were sent.
        sent, received: how many rows went to each rank, and came from it.
    """

    rows: torch.Tensor
    counts: list[int]
    kept: torch.Tensor
    sent: list[int]
    received: list[int]
    _tokens: torch.Tensor  # which token each sent row is, in the order of sending
    _choices: torch.Tensor  # and which of its k choices
    _by_expert: torch.Tensor  # from the order of arrival to that of the experts

    @property
    def dropped(self) -> int:
        """How many choices of this rank's own tokens found no room."""
        return int((~self.kept).sum())

    def by_expert(self) -> tuple[torch.Tensor, ...]:
        """The rows of each expert of this rank, [its count, features]."""
        return self.rows.split(self.counts)


def dispatch_to_experts(
    comm: Communicator, tokens: torch.Tensor, experts: torch.Tensor, num_experts: int, capacity: int | None = None
) -> Dispatched:
    """Send each token to the ranks of its experts. Backward, the gradients of the rows come back.

    Args:
        tokens: [tokens, features]; ranks may have different numbers of tokens, or none at all.
        experts: [tokens, k], integers from 0 to `num_experts` − 1.
        num_experts: on all ranks together, equally many on each.
        capacity: how many choices of this rank's tokens an expert takes; None: all. See `has_room`.

    Raises:
        TypeError: not a communicator or a tensor.
        ValueError: shapes that don't fit, experts that don't exist, or a number of them that the ranks don't divide.
        MessageMismatch: another number of experts or of features on another rank.
    """
    _check("dispatch_to_experts", comm, tokens, experts, num_experts)
    within = announced(comm, "dispatch_to_experts", features=tokens.shape[1], num_experts=num_experts)
    each = num_experts // comm.world_size
    kept = has_room(experts, capacity)
    token_of, choice_of = _sorted_choices(experts, kept)
    outgoing = torch.bincount(experts[token_of, choice_of], minlength=num_experts).view(comm.world_size, each)
    incoming = torch.empty_like(outgoing)
    all_to_all(within, list(incoming), list(outgoing))
    sent, received = outgoing.sum(dim=1).tolist(), incoming.sum(dim=1).tolist()
    arrived = _ExchangeRows.apply(comm, within, tokens[token_of], sent, received, "dispatch_to_experts")
    expert_of = torch.arange(each, device=tokens.device).repeat(comm.world_size).repeat_interleave(incoming.flatten())
    by_expert = expert_of.argsort(stable=True)
    counts = incoming.sum(dim=0).tolist()
    return Dispatched(arrived[by_expert], counts, kept, sent, received, token_of, choice_of, by_expert)


def _sorted_choices(experts: torch.Tensor, kept: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The choices that are kept, sorted by expert: which token each is of, and which of its k choices."""
    token_of, choice_of = kept.nonzero(as_tuple=True)
    order = experts[token_of, choice_of].argsort(stable=True)
    return token_of[order], choice_of[order]


def combine(comm: Communicator, dispatched: Dispatched, outputs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Send what the experts have computed back, and add it up for each token, by weight.

    Args:
        dispatched: from `dispatch_to_experts`.
        outputs: [rows, features], of `dispatched.rows`, in their order.
        weights: [tokens, k], of this rank's tokens. A choice that was dropped adds nothing, and the others don't
            make up for it.

    Returns:
        [tokens, features], of this rank's tokens; zeros for a token that was dropped by all its experts.

    Raises:
        TypeError: not a communicator or a tensor.
        ValueError: not one output for each row, or not one weight for each choice.
    """
    _check_back("combine", comm, dispatched, outputs, weights)
    within = announced(comm, "combine", features=outputs.shape[1])
    in_arrival = torch.empty_like(dispatched._by_expert)
    in_arrival[dispatched._by_expert] = torch.arange(len(outputs), device=outputs.device)
    returned = _ExchangeRows.apply(comm, within, outputs[in_arrival], dispatched.received, dispatched.sent, "combine")
    weighted = returned * weights[dispatched._tokens, dispatched._choices].unsqueeze(1)
    whole = weighted.new_zeros(len(weights), outputs.shape[1])
    return whole.index_add(0, dispatched._tokens, weighted)


def _check(who: str, comm: Communicator, tokens: object, experts: object, num_experts: int) -> None:
    check_by_name(who, comm=comm)
    check_tensor(who, tokens, " as tokens")
    check_tensor(who, experts, " as experts")
    assert isinstance(tokens, torch.Tensor) and isinstance(experts, torch.Tensor)
    check_integer(who, "num_experts", num_experts, 1)
    if num_experts % comm.world_size:
        raise ValueError(
            f"{who} expected a number of experts that {comm.world_size} ranks divide, got {num_experts}: "
            f"each rank must have as many experts as the others"
        )
    if tokens.dim() != 2 or experts.dim() != 2 or len(tokens) != len(experts):
        raise ValueError(
            f"{who} expected tokens [tokens, features] and experts [tokens, k], got shapes {tuple(tokens.shape)} "
            f"and {tuple(experts.shape)}"
        )
    if experts.dtype != torch.int64:
        raise ValueError(f"{who} expected int64 numbers as experts, got {experts.dtype}")
    if experts.numel() and not 0 <= int(experts.min()) <= int(experts.max()) < num_experts:
        wrong = [number for number in experts.flatten().tolist() if not 0 <= number < num_experts]
        raise ValueError(f"{who} expected experts from 0 to {num_experts - 1}, got {wrong[0]}")


def _check_back(who: str, comm: Communicator, dispatched: object, outputs: object, weights: object) -> None:
    check_by_name(who, comm=comm)
    check_type(who, "dispatched", dispatched, Dispatched, "dispatch_to_experts(…)")
    check_tensor(who, outputs, " as outputs")
    check_tensor(who, weights, " as weights")
    assert isinstance(dispatched, Dispatched)
    assert isinstance(outputs, torch.Tensor) and isinstance(weights, torch.Tensor)
    if outputs.dim() != 2 or len(outputs) != len(dispatched.rows):
        rows = len(dispatched.rows)
        raise ValueError(f"{who} expected outputs [{rows} rows, features], got shape {tuple(outputs.shape)}")
    if weights.shape != dispatched.kept.shape:
        expected, got = tuple(dispatched.kept.shape), tuple(weights.shape)
        raise ValueError(f"{who} expected weights of shape {expected}, as the choices, got {got}")


class _ExchangeRows(torch.autograd.Function):
    """Rows sorted by the rank they go to → rows sorted by the rank they come from. Backward, the other way.

    `within` is for the messages forward; those backward are announced by `name`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        comm: Communicator,
        within: Communicator,
        rows: torch.Tensor,
        sent: Sequence[int],
        received: Sequence[int],
        name: str,
    ) -> torch.Tensor:
        ctx.comm, ctx.sent, ctx.received, ctx.name = comm, sent, received, name
        return exchange_rows(within, rows.detach(), sent, received)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        comm = announced(ctx.comm, f"{ctx.name}_backward", features=gradient.shape[1])
        return None, None, exchange_rows(comm, gradient, ctx.received, ctx.sent), None, None, None


def exchange_rows(comm: Communicator, rows: torch.Tensor, sent: Sequence[int], received: Sequence[int]) -> torch.Tensor:
    """An all-to-all of rows: the first `sent[0]` of them to rank 0, and so on; `received[j]` come from rank j."""
    arrived = rows.new_empty(sum(received), *rows.shape[1:])
    all_to_all(comm, arrived.split(list(received)), rows.split(list(sent)))
    return arrived
