"""The auxiliary loss that keeps a router from sending everything to a few experts.

    loss = E · Σᵢ fᵢ·Pᵢ        fᵢ  the share of the choices that expert i gets; Pᵢ  the mean of its probability

E experts; with k choices a token, the shares are of all tokens · k choices. The loss is 1 where all experts get the
same, and at most E. Only P has a gradient: f counts. It lowers the probability of experts that have got much.

Over ranks f counts the tokens of all of them. Each rank's loss has its own tokens' probabilities, so that the mean of
the ranks' losses is the loss of all tokens in one process, and so are the gradients when ranks average them.

Source: W. Fedus et al., "Switch Transformers", arXiv:2101.03961 (2021), equations 4 to 6, with k = 1; there each device
counts its own tokens.
"""

from __future__ import annotations

import torch

from distlib.arguments import check_by_name, check_type
from distlib.collectives import all_reduce
from distlib.communicator import Communicator
from distlib.training.experts.router import Routing


def load_balancing_loss(routing: Routing, comm: Communicator | None = None) -> torch.Tensor:
    """This rank's term of the auxiliary loss, a number; the mean over ranks is the loss. Multiply it by its weight.

    Args:
        routing: of this rank's tokens.
        comm: the ranks whose tokens count, or None for this rank's own. One all-reduce of E + 1 float64 numbers.

    Raises:
        TypeError: not a routing, or not a communicator.
    """
    check_type("load_balancing_loss", "routing", routing, Routing, "router(tokens)")
    tokens, num_experts = routing.probabilities.shape
    counts = torch.bincount(routing.experts.flatten(), minlength=num_experts).to(torch.float64)
    counts = torch.cat([counts, counts.new_tensor([float(tokens)])])
    ranks = 1
    if comm is not None:
        check_by_name("load_balancing_loss", comm=comm)
        ranks = comm.world_size
        all_reduce(comm, counts)
    shares = counts[:-1] / counts[:-1].sum().clamp(min=1)
    means = routing.probabilities.sum(dim=0) * (ranks / counts[-1].clamp(min=1))
    return num_experts * (shares * means).sum().to(routing.probabilities.dtype)
