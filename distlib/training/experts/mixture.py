"""A mixture of experts over ranks, in the place of the MLP of a transformer layer.

    tokens ──► router ──► dispatch ──► experts of this rank ──► combine ──► tokens

Each rank has its own tokens, as in data parallelism, and E/N of the experts. The router is the same on every rank.

    gradient of     is, after backward
    an expert       the sum over the tokens of all ranks: they came here
    the router      of this rank's tokens only: `sum_router_gradients` adds the ranks' up
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import gelu

from distlib.arguments import check_by_name, check_integer, check_number, check_tensor
from distlib.collectives import all_reduce
from distlib.communicator import Communicator
from distlib.training.experts.capacity import expert_capacity
from distlib.training.experts.dispatch import Dispatched, combine, dispatch_to_experts
from distlib.training.experts.router import Routing, TopKRouter


class Expert(nn.Module):
    """Two linear layers with a GELU between them.

    Args:
        features, hidden: their sizes.
        seed: of its weights: that of the layer and the expert's number, so that any number of ranks has the same ones.
        dtype: of its weights.
    """

    def __init__(self, features: int, hidden: int, seed: int, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.up = nn.Linear(features, hidden, dtype=dtype)
        self.down = nn.Linear(hidden, features, dtype=dtype)
        generator = torch.Generator().manual_seed(seed)
        for layer in (self.up, self.down):
            bound = layer.in_features**-0.5
            for parameter in layer.parameters():
                drawn = torch.rand(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.data.copy_((2 * drawn - 1) * bound)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """[rows, features] → [rows, features]; also without rows."""
        output: torch.Tensor = self.down(gelu(self.up(rows)))
        return output


class MixtureOfExperts(nn.Module):
    """Experts over ranks, each token with k of them.

    Inside `backward` it communicates, so a SimulatedWorld takes contexts="threads".

    Args:
        comm: the ranks that share the experts.
        features, hidden: of each expert.
        num_experts: on all ranks together.
        k: how many a token goes to.
        capacity_factor: as of `expert_capacity`; None: no token is dropped.
        renormalise: whether the weights of a token's experts are divided by their sum.
        seed: of the router; expert number e has `seed + 1 + e`.
        dtype: of the weights.

    Attributes:
        routing: of the last call; what `load_balancing_loss` takes.
        dispatched: of the last call: `dispatched.dropped` choices found no room, `dispatched.counts` came to each
            expert of this rank.

    Raises:
        TypeError: not a communicator.
        ValueError: experts that the ranks don't divide, k that is not from 1 to their number, or a factor that is not
            above 0.
    """

    def __init__(
        self,
        comm: Communicator,
        features: int,
        hidden: int,
        num_experts: int,
        k: int = 2,
        *,
        capacity_factor: float | None = None,
        renormalise: bool = True,
        seed: int = 0,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_by_name("MixtureOfExperts", comm=comm)
        check_integer("MixtureOfExperts", "num_experts", num_experts, 1)
        if num_experts % comm.world_size:
            raise ValueError(f"expected a number of experts that {comm.world_size} ranks divide, got {num_experts}")
        if capacity_factor is not None:
            check_number("MixtureOfExperts", "capacity_factor", capacity_factor, above=0)
        self.comm, self.num_experts, self.capacity_factor = comm, num_experts, capacity_factor
        self.router = TopKRouter(features, num_experts, k, renormalise=renormalise, seed=seed, dtype=dtype)
        each = num_experts // comm.world_size
        own = range(comm.rank * each, (comm.rank + 1) * each)
        self.experts = nn.ModuleList(Expert(features, hidden, seed + 1 + number, dtype) for number in own)
        self.routing: Routing | None = None
        self.dispatched: Dispatched | None = None

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """[…, features] → the same shape: what each token's experts say, by weight; 0 if it was dropped by all."""
        check_tensor("MixtureOfExperts", tokens, " as tokens")
        flat = tokens.flatten(0, -2)
        routing = self.router(flat)
        capacity = None
        if self.capacity_factor is not None:
            capacity = expert_capacity(len(flat), self.num_experts, self.router.k, self.capacity_factor)
        dispatched = dispatch_to_experts(self.comm, flat, routing.experts, self.num_experts, capacity)
        # An expert without rows computes as well: its gradient is 0 then, and not missing.
        outputs = [expert(rows) for expert, rows in zip(self.experts, dispatched.by_expert(), strict=True)]
        self.routing, self.dispatched = routing, dispatched
        return combine(self.comm, dispatched, torch.cat(outputs), routing.weights).view(tokens.shape)


def sum_router_gradients(layer: MixtureOfExperts) -> None:
    """Add up the router's gradients over the ranks, in place: call it after `backward`, on every rank.

    One all-reduce of experts · features. An expert's gradient is a sum over all ranks' tokens already. If the loss is a
    mean over the tokens of a rank, divide both by N.
    """
    gradient = layer.router.weight.grad
    if gradient is None:
        gradient = layer.router.weight.grad = torch.zeros_like(layer.router.weight)
    all_reduce(layer.comm, gradient)
