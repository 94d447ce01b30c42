"""Gossip: ranks average with their neighbors only, again and again, and all come to the mean. There is no center.

    ● ◄─► ● ◄─► ●     a ring of 8: in each round every rank sends its tensor to both neighbors and replaces it with the
    ▲           ▲     mean of three. What one rank knew has reached 3 ranks after a round, 5 after two, 7 after three
    ▼           ▼
    ●           ●
    ▲           ▲
    ▼           ▼
    ● ◄─► ● ◄─► ●

A rank with d neighbors and a tensor of S bytes sends d·S bytes in d messages, however many ranks there are. All of them
are under way at the same time. In a ring all-reduce a rank sends 2·S·(n - 1)/n bytes, one message after the other, and
everybody waits for everybody. In a round of gossip a rank waits for its neighbors only: what is slow somewhere is felt
one place further in each round.

Read `plain_gossip` first: decentralized SGD with one matrix, in one file.

Which ranks talk, and the weights, are in a matrix: see `mixing`. A *schedule* is one matrix for all rounds, or several
which take turns.

X. Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms? A Case Study for Decentralized Parallel
Stochastic Gradient Descent", NIPS 2017, arXiv:1705.09056 (algorithm 1). D. Kempe, A. Dobra, J. Gehrke, "Gossip-Based
Computation of Aggregate Information", FOCS 2003 (push-sum). M. Assran et al., "Stochastic Gradient Push for Distributed
Deep Learning", ICML 2019, arXiv:1811.10792 (algorithm 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from distlib.arguments import checked, described
from distlib.communicator import Communicator
from distlib.training.mixing import check_mixing_matrix, check_push_matrix

Schedule = torch.Tensor | Sequence[torch.Tensor]
"""One matrix [ranks, ranks], or several: round k uses number k modulo their number."""

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes outputs and targets, returns one loss for each sample, shape [samples]."""

Batch = tuple[torch.Tensor, torch.Tensor]


@checked
@torch.no_grad()
def gossip_average(
    comm: Communicator, tensor: torch.Tensor, schedule: Schedule, rounds: int = 1, first_round: int = 0
) -> None:
    """Average with the neighbors, in place: in each round every rank takes its row of the matrix times all tensors.

    Args:
        comm: the communicator of this rank.
        tensor: floating-point numbers, the same shape and dtype on every rank.
        schedule: doubly stochastic, and connected as a whole (see `check_mixing_matrix`).
        rounds: how many. 0: nothing happens.
        first_round: which matrix of the schedule comes first; for a caller that does one round at a time.

    Each rank sends its whole tensor once in a round to each rank that has a weight for it, and nothing to others.

    Raises:
        ValueError: a schedule that is not as above, for another number of ranks, or a number of rounds below 0.
        TypeError: whole numbers.
    """
    matrices = _matrices(comm, tensor, schedule, rounds)
    check_mixing_matrix(*matrices)
    for number in range(first_round, first_round + rounds):
        _mix(comm, tensor, matrices[number % len(matrices)])


@checked
@torch.no_grad()
def push_sum(
    comm: Communicator,
    tensor: torch.Tensor,
    weight: torch.Tensor,
    schedule: Schedule,
    rounds: int = 1,
    first_round: int = 0,
) -> None:
    """Gossip on a graph with directions, in place: afterwards `tensor / weight` is nearly the mean on every rank.

    Where nobody answers, a rank that many send to gets too much. Push-sum keeps books: each rank begins with a weight
    of 1, and sends it along in the same parts. The sums of all tensors and of all weights stay; their ratios agree.

    Args:
        comm, tensor, rounds, first_round: as for `gossip_average`.
        weight: one number, of the tensor's dtype; 1 at the start.
        schedule: columns add up to 1, rows may not; connected as a whole (see `check_push_matrix`).

    Raises:
        ValueError, TypeError: as for `gossip_average`.
    """
    matrices = _matrices(comm, tensor, schedule, rounds)
    check_push_matrix(*matrices)
    both = torch.cat([tensor.reshape(-1), weight.reshape(1)])  # one message instead of two
    for number in range(first_round, first_round + rounds):
        _mix(comm, both, matrices[number % len(matrices)])
    tensor.copy_(both[:-1].view(tensor.shape))
    weight.copy_(both[-1].view(weight.shape))


def _matrices(comm: Communicator, tensor: torch.Tensor, schedule: Schedule, rounds: int) -> Sequence[torch.Tensor]:
    matrices = [schedule] if isinstance(schedule, torch.Tensor) else schedule
    if not isinstance(matrices, Sequence) or not all(isinstance(matrix, torch.Tensor) for matrix in matrices):
        raise TypeError(f"expected a mixing matrix or a list of them as the schedule, got {described(schedule)}")
    for matrix in matrices:
        if matrix.shape != (comm.world_size, comm.world_size):
            raise ValueError(f"expected a weight for each pair of {comm.world_size} ranks, got {list(matrix.shape)}")
    if rounds < 0:
        raise ValueError(f"expected at least 0 rounds, got {rounds}")
    if not tensor.is_floating_point():
        raise TypeError(f"expected floating-point numbers, got {tensor.dtype}: averages are fractions")
    return matrices


def _mix(comm: Communicator, tensor: torch.Tensor, matrix: torch.Tensor) -> None:
    """One round, in place. All receives begin before any send, so that no order of the ranks can be a deadlock.

    A port sends one message at a time. So every rank sends to the nearest one after it first, and receives from the
    nearest one before it. If each began with rank 0, they would stand in line.
    """
    mine, ranks = comm.rank, comm.world_size
    sources = [rank for rank in ((mine - hop) % ranks for hop in range(1, ranks)) if matrix[mine, rank]]
    targets = [rank for rank in ((mine + hop) % ranks for hop in range(1, ranks)) if matrix[rank, mine]]
    arrived = [torch.empty_like(tensor) for _ in sources]
    receiving = [comm.irecv(buffer, source) for buffer, source in zip(arrived, sources, strict=True)]
    sending = [comm.isend(tensor, target) for target in targets]
    for work in (*sending, *receiving):
        work.wait()
    tensor.mul_(float(matrix[mine, mine]))  # not before the sends are done: they read it
    for buffer, source in zip(arrived, sources, strict=True):
        tensor.add_(buffer, alpha=float(matrix[mine, source]))


# Training


@checked
def decentralized_step(
    comm: Communicator,
    model: nn.Module,
    loss_function: LossFunction,
    batch: Batch,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    step: int = 0,
) -> None:
    """A step of decentralized SGD, in place: x_i ← sum over j of W[i, j] x_j, minus the rate times rank i's gradient.

    The gradient is that of this rank's own batch, at its own parameters before the mixing. So the ranks' models differ,
    and stay near each other.

    Args:
        comm: the communicator of this rank.
        model: its parameters are mixed, all of them as one message to each neighbor; its buffers stay.
        loss_function, batch: this rank's; the mean of the losses counts.
        optimizer: of the parameters. Its state stays with its rank.
        schedule: as for `gossip_average`.
        step: the number of this step, which chooses the matrix.

    Raises:
        ValueError: as `gossip_average`.
    """
    _backward(model, loss_function, batch, optimizer)
    flat = _flat(model)
    gossip_average(comm, flat, schedule, first_round=step)
    _write(model, flat)
    optimizer.step()


@checked
def gradient_push_step(
    comm: Communicator,
    model: nn.Module,
    loss_function: LossFunction,
    batch: Batch,
    optimizer: torch.optim.Optimizer,
    weight: torch.Tensor,
    schedule: Schedule,
    step: int = 0,
) -> None:
    """A step of stochastic gradient push, in place: as `decentralized_step`, on a graph with directions.

    The model holds z = x / weight, where gradients are computed. The optimizer moves x; then x and weight are pushed.

    Args:
        weight: one number, 1 before the first step. Hand over the same tensor in each step.
        schedule: as for `push_sum`.
        comm, model, loss_function, batch, optimizer, step: as for `decentralized_step`.

    Raises:
        ValueError: as `push_sum`.
    """
    _backward(model, loss_function, batch, optimizer)
    _write(model, _flat(model) * weight)
    optimizer.step()
    flat = _flat(model)
    push_sum(comm, flat, weight, schedule, first_round=step)
    _write(model, flat / weight)


def _backward(model: nn.Module, loss_function: LossFunction, batch: Batch, optimizer: torch.optim.Optimizer) -> None:
    inputs, targets = batch
    optimizer.zero_grad()
    loss_function(model(inputs), targets).mean().backward()


def _flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def _write(model: nn.Module, flat: torch.Tensor) -> None:
    parameters = list(model.parameters())
    with torch.no_grad():
        for parameter, part in zip(parameters, flat.split([each.numel() for each in parameters]), strict=True):
            parameter.copy_(part.view(parameter.shape))


@checked
def consensus_error(tensors: Sequence[torch.Tensor]) -> float:
    """How far the ranks are from their mean, all together: the root of the summed squares of all differences.

    Raises:
        ValueError: no tensors, or tensors of different sizes.
    """
    sizes = sorted({tensor.numel() for tensor in tensors})
    if len(sizes) != 1:
        came = f"tensors of {' and '.join(map(str, sizes))} numbers" if sizes else "none"
        raise ValueError(f"consensus_error expected a tensor of each rank, all of one size, got {came}")
    stacked = torch.stack([tensor.detach().reshape(-1).double() for tensor in tensors])
    return float((stacked - stacked.mean(dim=0)).norm())
