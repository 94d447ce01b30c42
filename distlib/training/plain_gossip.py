"""Decentralized SGD to read first: every rank averages its parameters with those of its neighbors. There is no center.

    ● ◄─► ● ◄─► ● ◄─► ●     Row i of the mixing matrix W says how rank i mixes the parameters of all ranks:
    ▲                 ▲
    └─────────────────┘     x_i  ←  Σ_j W[i, j]·x_j  −  rate · gradient of rank i's own batch, at x_i

W[i, j] is 0 where i and j do not talk. Rows and columns add up to 1, so a round keeps the mean of all ranks and brings
every rank nearer to it. With P bytes of parameters a rank sends P to each neighbor, however many ranks there are.

The full edition, `gossip`, adds matrices that take turns, and graphs with one-way edges (push-sum). `mixing` makes
matrices for many graphs, checks them, and says how fast each brings the ranks to their mean.
Source: X. Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?", NIPS 2017, algorithm 1.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from distlib.communicator import Communicator


def ring_weights(ranks: int) -> torch.Tensor:
    """The mixing matrix of a ring, [ranks, ranks]: a rank counts as much as each of its two neighbors."""
    identity = torch.eye(ranks, dtype=torch.float64)
    if ranks < 3:
        return torch.full_like(identity, 1 / ranks)  # both neighbors are the same rank
    return (identity + identity.roll(1, dims=1) + identity.roll(-1, dims=1)) / 3


@torch.no_grad()
def plain_mix(comm: Communicator, tensor: torch.Tensor, weights: torch.Tensor) -> None:
    """One round of gossip, in place: this rank's row of the mixing matrix times the tensors of all ranks.

    Args:
        weights: the mixing matrix, [ranks, ranks].
    """
    mine, ranks = comm.rank, comm.world_size
    hops = range(1, ranks)  # the nearest rank first: if everybody began with rank 0, they would stand in line
    sources = [rank for rank in ((mine - hop) % ranks for hop in hops) if weights[mine, rank] != 0]
    targets = [rank for rank in ((mine + hop) % ranks for hop in hops) if weights[rank, mine] != 0]
    arrived = {source: torch.empty_like(tensor) for source in sources}
    receiving = [comm.irecv(buffer, source) for source, buffer in arrived.items()]  # before any send: no deadlock
    sending = [comm.isend(tensor, target) for target in targets]
    for work in (*sending, *receiving):
        work.wait()
    tensor *= float(weights[mine, mine])  # not before the sends are done: they read it
    for source, buffer in arrived.items():
        tensor += float(weights[mine, source]) * buffer


def plain_decentralized_step(
    comm: Communicator, model: nn.Module, loss: torch.Tensor, optimizer: torch.optim.Optimizer, weights: torch.Tensor
) -> None:
    """One step of D-PSGD, in place. The models of the ranks differ, and stay near each other.

    Args:
        loss: of this rank's own batch, computed by its own model.
        optimizer: of the model's parameters; its state is this rank's own.
        weights: as of `plain_mix`.
    """
    optimizer.zero_grad()
    loss.backward()
    with torch.no_grad():
        flat = parameters_to_vector(model.parameters())  # all parameters in one message
        plain_mix(comm, flat, weights)
        vector_to_parameters(flat, model.parameters())
    optimizer.step()  # with the gradient from before the mixing
