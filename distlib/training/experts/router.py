"""The router of a mixture of experts: for each token the k experts it goes to, and with what weight.

    scores = token · Wᵀ          [tokens, experts]
    p      = softmax(scores)     over all experts
    top k  of p                  their weights: p itself, or p divided by the sum of the k (renormalised)

Renormalised, the weights of a token add up to 1, and a router with k = 1 gets no gradient from the output, as its only
weight is 1. N. Shazeer et al. take the softmax over the k largest scores, which is the same as renormalising. The
Switch Transformer has k = 1 and does not.

Sources: N. Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer",
arXiv:1701.06538 (2017), section 2.1; W. Fedus et al., "Switch Transformers", arXiv:2101.03961 (2021), section 2.1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from distlib.arguments import check_integer, check_tensor


class Routing(NamedTuple):
    """Where tokens go.

    Attributes:
        experts: [tokens, k], integers; the first is the one with the largest weight.
        weights: [tokens, k], of these experts' outputs.
        probabilities: [tokens, experts], the softmax over all of them.
    """

    experts: torch.Tensor
    weights: torch.Tensor
    probabilities: torch.Tensor


def route(scores: torch.Tensor, k: int, *, renormalise: bool = True) -> Routing:
    """The k experts with the largest scores of each token. Of two that are equal, either.

    Args:
        scores: [tokens, experts].
        k: how many experts a token goes to.
        renormalise: whether the k weights are divided by their sum.

    Raises:
        TypeError: not a tensor.
        ValueError: scores of another shape, or not from 1 to as many as there are experts as k.
    """
    check_tensor("route", scores, " as scores")
    if scores.dim() != 2:
        raise ValueError(f"route expected scores [tokens, experts], got shape {tuple(scores.shape)}")
    check_integer("route", "k", k, 1, scores.shape[1])
    probabilities = scores.softmax(dim=-1)
    weights, experts = probabilities.topk(k, dim=-1)
    if renormalise:
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return Routing(experts, weights, probabilities)


class TopKRouter(nn.Module):
    """A linear layer without bias, and `route`. The same on every rank.

    Args:
        features: of a token.
        num_experts: on all ranks together.
        k, renormalise: as of `route`.
        seed: of its weight.
        dtype: of its weight.
    """

    def __init__(
        self,
        features: int,
        num_experts: int,
        k: int = 2,
        *,
        renormalise: bool = True,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_integer("TopKRouter", "k", k, 1, num_experts)
        self.k, self.renormalise = k, renormalise
        generator = torch.Generator().manual_seed(seed)
        weight = torch.randn(num_experts, features, generator=generator, dtype=torch.float64) * features**-0.5
        self.weight = nn.Parameter(weight.to(dtype or torch.get_default_dtype()))

    def forward(self, tokens: torch.Tensor) -> Routing:
        """[tokens, features] → where they go."""
        return route(tokens @ self.weight.mT, self.k, renormalise=self.renormalise)
