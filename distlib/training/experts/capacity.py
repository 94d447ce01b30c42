"""Which tokens an expert has room for. Pure: no communication.

A token's first choice comes before any second choice, and among equal choices the earlier token. What comes after
`capacity` choices of an expert is dropped: that expert adds nothing to the token. With 1 choice and room for 2:

    token     0   1   2   3   4
    expert    A   A   B   A   B
    kept      ✓   ✓   ✓   –   ✓        token 3 is dropped: the third for expert A

Each rank counts its own tokens, so nothing is sent to find out; D. Lepikhin et al. call the tokens of a rank a group.

Sources: D. Lepikhin et al., "GShard", arXiv:2006.16668 (2020), section 2.2, algorithm 1; W. Fedus et al., "Switch
Transformers", arXiv:2101.03961 (2021), equation 3.
"""

from __future__ import annotations

import math

import torch

from distlib.arguments import check_integer, check_number, check_tensor


def expert_capacity(tokens: int, num_experts: int, k: int = 1, factor: float = 1.0) -> int:
    """How many of a rank's choices an expert takes: factor · k · tokens / experts, rounded up.

    With factor 1 there is room for all, if the router sends every expert the same.

    Raises:
        ValueError: a negative number of tokens, no experts, no choice, or a factor that is not above 0.
    """
    check_integer("expert_capacity", "tokens", tokens, 0)
    check_integer("expert_capacity", "num_experts", num_experts, 1)
    check_integer("expert_capacity", "k", k, 1)
    check_number("expert_capacity", "factor", factor, above=0)
    return math.ceil(factor * k * tokens / num_experts)


def has_room(experts: torch.Tensor, capacity: int | None) -> torch.Tensor:
    """Which choices are kept: [tokens, k], truth values.

    Args:
        experts: [tokens, k], the choices, the first one first.
        capacity: how many each expert takes; None: all.

    Raises:
        TypeError: not a tensor.
        ValueError: another shape, or a capacity that is not an integer of at least 0.
    """
    check_tensor("has_room", experts, " as experts")
    if experts.dim() != 2:
        raise ValueError(f"has_room expected experts [tokens, k], got shape {tuple(experts.shape)}")
    if capacity is None:
        return torch.ones_like(experts, dtype=torch.bool)
    check_integer("has_room", "capacity", capacity, 0)
    in_order = experts.T.flatten()  # all first choices, then all second ones
    by_expert = in_order.argsort(stable=True)
    sorted_experts = in_order[by_expert]
    first = torch.searchsorted(sorted_experts, sorted_experts)  # where the choices of the same expert begin
    position = torch.empty_like(in_order)
    position[by_expert] = torch.arange(len(in_order), device=experts.device) - first
    return (position < capacity).unflatten(0, (experts.shape[1], experts.shape[0])).T
