"""Mixing matrices: which ranks talk to each other in gossip, and how much weight each voice has.

    W[i, j]    what rank i multiplies the numbers of rank j by; 0: rank j sends it nothing

                  rank 0 1 2 3 4
    ring of 5          ⅓ ⅓ · · ⅓      rank 0 keeps a third of its own, and takes thirds from ranks 1 and 4
                       ⅓ ⅓ ⅓ · ·
                       · ⅓ ⅓ ⅓ ·      a row adds up to 1:    if all agree, nobody changes
                       · · ⅓ ⅓ ⅓      a column adds up to 1: every rank counts 1 in all, so the mean stays
                       ⅓ · · ⅓ ⅓

A round of gossip is x ← W x. What remains of the differences shrinks in each round by the second-largest singular value
ρ of W or faster, since a doubly stochastic W keeps the mean:

    |x_k - mean| ≤ ρᵏ |x_0 - mean|,    ρ = |W - 11ᵀ/n|, the spectral norm;    1 - ρ is the *spectral gap*

    graph                 neighbors      ρ with n = 16    how 1 - ρ goes with n
    ring                  2              0.949            1/n²
    torus                 4              0.6              1/n
    star                  n - 1 or 1     0.9375           1/n
    static exponential    log2 n         0.6              1/log n
    one-peer exponential  1 in a round   0 in log2 n      exact after log2 n rounds, if n is a power of 2
    complete              n - 1          0                exact after a round

L. Xiao and S. Boyd, "Fast linear iterations for distributed averaging", Systems & Control Letters 53, 2004 (mixing
matrices, their convergence, Metropolis weights). B. Ying et al., "Exponential Graph is Provably Efficient for
Decentralized Deep Training", NeurIPS 2021, arXiv:2110.13363 (both exponential graphs). S. Boyd et al., "Randomized
Gossip Algorithms", IEEE Transactions on Information Theory 52, 2006 (random pairs).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import torch

from distlib.arguments import check_integer, checked

Neighbors = Sequence[Sequence[int]]
"""For each rank the ranks that it talks to, without itself."""

_ROUNDING = 1e-9


# Graphs


@checked
def ring(ranks: int) -> list[list[int]]:
    """Each rank talks to the one before it and the one after it."""
    return torus(1, ranks)


def torus(rows: int, columns: int) -> list[list[int]]:
    """Each rank talks to the ones above, below, left and right, in a grid without an edge.

    Rank = row * columns + column. In a dimension of 2 above is below: such a rank has fewer neighbors.

    Raises:
        ValueError: fewer than one row or column.
    """
    check_integer("torus", "rows", rows, None)
    check_integer("torus", "columns", columns, None)
    _at_least_one(min(rows, columns), "row and column")
    cells = [divmod(rank, columns) for rank in range(rows * columns)]
    steps = ((0, -1), (0, 1), (-1, 0), (1, 0))
    around = [{(r + dr) % rows * columns + (c + dc) % columns for dr, dc in steps} for r, c in cells]
    return [sorted(others - {rank}) for rank, others in enumerate(around)]


@checked
def star(ranks: int) -> list[list[int]]:
    """Each rank talks to rank 0."""
    _at_least_one(ranks)
    return [[*range(1, ranks)], *([0] for _ in range(1, ranks))]


@checked
def complete(ranks: int) -> list[list[int]]:
    """Each rank talks to all others."""
    _at_least_one(ranks)
    return [[other for other in range(ranks) if other != rank] for rank in range(ranks)]


def _at_least_one(number: int, noun: str = "rank") -> None:
    if number < 1:
        raise ValueError(f"expected at least one {noun}, got {number}")


# Weights


def metropolis_weights(neighbors: Neighbors) -> torch.Tensor:
    """A mixing matrix for any graph without directions: between i and j the weight 1 / (1 + the larger degree).

    What is missing to 1 in a row is the rank's own weight. The matrix is symmetric, so columns add up to 1 as rows do.

    Args:
        neighbors: for each rank its neighbors. If j is a neighbor of i, i is one of j.

    Returns:
        float64 [ranks, ranks].

    Raises:
        ValueError: a neighbor that does not exist, a rank that is its own, or an edge that one end does not know.
    """
    _check_neighbors(neighbors)
    matrix = torch.zeros(len(neighbors), len(neighbors), dtype=torch.float64)
    for rank, others in enumerate(neighbors):
        for other in others:
            if rank not in neighbors[other]:
                raise ValueError(f"rank {other} is a neighbor of rank {rank}, but rank {rank} is none of rank {other}")
            matrix[rank, other] = 1 / (1 + max(len(others), len(neighbors[other])))
    return matrix + torch.diag(1 - matrix.sum(dim=1))


def push_weights(receivers: Neighbors) -> torch.Tensor:
    """A matrix for push-sum: each rank keeps one part of what it has and sends equal parts to its receivers.

    Columns add up to 1. Rows do not, unless every rank hears from as many as it sends to.

    Args:
        receivers: for each rank the ranks that it sends to, without itself; they need not answer.

    Returns:
        float64 [ranks, ranks].

    Raises:
        ValueError: a receiver that does not exist, or a rank that is its own.
    """
    _check_neighbors(receivers)
    matrix = torch.zeros(len(receivers), len(receivers), dtype=torch.float64)
    for rank, others in enumerate(receivers):
        matrix[[rank, *others], rank] = 1 / (1 + len(others))
    return matrix


def _check_neighbors(neighbors: Neighbors) -> None:
    _at_least_one(len(neighbors))
    for rank, others in enumerate(neighbors):
        if len({*others} & ({*range(len(neighbors))} - {rank})) != len(others):
            raise ValueError(
                f"rank {rank}: expected different ranks from 0 to {len(neighbors) - 1}, without itself, "
                f"got {list(others)}"
            )


@checked
def static_exponential(ranks: int) -> torch.Tensor:
    """Each rank sends to the ones that are 1, 2, 4, … places further on, in equal parts. float64 [ranks, ranks]."""
    _at_least_one(ranks)
    hops = [2**power for power in range((ranks - 1).bit_length())]
    return push_weights([[(rank + hop) % ranks for hop in hops] for rank in range(ranks)])


@checked
def one_peer_exponential(ranks: int) -> list[torch.Tensor]:
    """In round k each rank sends half to the one that is 2^k places further on. A matrix for each of log2 n rounds.

    If the number of ranks is a power of 2, all ranks have the mean after these rounds.
    """
    _at_least_one(ranks)
    hops = [2**power for power in range((ranks - 1).bit_length())] or [0]
    return [push_weights([[(rank + hop) % ranks] if hop else [] for rank in range(ranks)]) for hop in hops]


@checked
def random_matchings(ranks: int, rounds: int, seed: int) -> list[torch.Tensor]:
    """In each round the ranks meet in pairs, drawn anew, and both take their mean. A matrix for each round.

    If the number of ranks is odd, one of them, drawn anew in each round, has a bye: it keeps what it has.
    Few rounds may leave some ranks that never meet, even by way of others. Then `check_mixing_matrix` names them.

    Raises:
        ValueError: fewer than one rank or round.
    """
    _at_least_one(ranks)
    _at_least_one(rounds, "round")
    draw, matrices = random.Random(seed), []
    for _ in range(rounds):
        order = draw.sample(range(ranks), ranks)
        matrix = torch.eye(ranks, dtype=torch.float64)
        for one, other in zip(order[::2], order[1::2], strict=False):
            pair = torch.tensor([one, other])
            matrix[pair[:, None], pair] = 0.5
        matrices.append(matrix)
    return matrices


# What a matrix must be, and how well it mixes


def check_mixing_matrix(*matrices: torch.Tensor) -> None:
    """What gossip asks of its matrices: each is doubly stochastic, and all together connect the ranks.

    How fast the ranks agree, `contraction` says. It may be 1: with [[0, 1], [1, 0]] two ranks swap forever.

    Raises:
        ValueError: a matrix that is not square, of a size different from the first or not finite; a negative weight; a
            row or a column that does not add up to 1; ranks that never hear of each other.
    """
    _check_weights(matrices)
    for number, matrix in enumerate(matrices):
        _adds_up(matrix.sum(dim=1), "row", _name(number, matrices), "if all ranks agree, they must not change")
    _check_columns(matrices)
    _check_connected(matrices)


def check_push_matrix(*matrices: torch.Tensor) -> None:
    """What push-sum asks of its matrices: as `check_mixing_matrix`, but rows may add up to anything.

    Raises:
        ValueError: as `check_mixing_matrix`.
    """
    _check_weights(matrices)
    _check_columns(matrices)
    _check_connected(matrices)


def _name(number: int, matrices: Sequence[torch.Tensor]) -> str:
    return f"matrix {number}: " if len(matrices) > 1 else ""


def _check_weights(matrices: Sequence[torch.Tensor]) -> None:
    if not matrices:
        raise ValueError("expected at least one mixing matrix, got none")
    for number, matrix in enumerate(matrices):
        name, size = _name(number, matrices), len(matrices[0])
        if matrix.shape != (size, size) or not size or not matrix.is_floating_point():
            raise ValueError(
                f"{name}expected floating-point numbers of shape [{size}, {size}], got {matrix.dtype} "
                f"{list(matrix.shape)}"
            )
        bad = (~(matrix >= 0) | matrix.isinf()).nonzero()
        if len(bad):
            row, column = bad[0].tolist()
            raise ValueError(
                f"{name}expected weights of at least 0, got {matrix[row, column]:g} in row {row}, column {column}"
            )


def _check_columns(matrices: Sequence[torch.Tensor]) -> None:
    for number, matrix in enumerate(matrices):
        _adds_up(
            matrix.sum(dim=0), "column", _name(number, matrices), "each rank must count 1 in all, or the mean moves"
        )


def _adds_up(sums: torch.Tensor, noun: str, name: str, why: str) -> None:
    tolerance = max(_ROUNDING, 8 * len(sums) * torch.finfo(sums.dtype).eps)
    wrong = ((sums - 1).abs() > tolerance).nonzero()
    if len(wrong):
        index = int(wrong[0])
        raise ValueError(
            f"{name}expected every {noun} to add up to 1, got {sums[index].item():.6g} in {noun} {index}: {why}"
        )


def _check_connected(matrices: Sequence[torch.Tensor]) -> None:
    """Every rank's numbers must reach every other rank, if the rounds are repeated often enough."""
    size = len(matrices[0])
    reaches = torch.stack([matrix > 0 for matrix in matrices]).any(dim=0) | torch.eye(size, dtype=torch.bool)
    for _ in range((size - 1).bit_length()):  # paths of 1, 2, 4, … hops
        reaches = (reaches.float() @ reaches.float()) > 0
    missing = (~reaches).nonzero()
    if len(missing):
        to, source = missing[0].tolist()
        heard = reaches[to].nonzero().flatten().tolist()
        raise ValueError(
            f"expected a connected graph, but rank {to} never hears of rank {source}: it hears of {heard} only"
        )


def contraction(*matrices: torch.Tensor) -> float:
    """How much of the differences between the ranks remains after a round for each matrix, in the worst case.

    The spectral norm of (the product of the matrices - 11ᵀ/n): for one doubly stochastic matrix its second-largest
    singular value ρ. 0: all ranks have the mean. 1: there are differences that never shrink.
    """
    product = torch.linalg.multi_dot([*reversed(matrices)]) if len(matrices) > 1 else matrices[0]
    return float(torch.linalg.matrix_norm(product - 1 / len(product), ord=2))


@checked
def rounds_for(matrix: torch.Tensor, factor: float) -> int:
    """After how many rounds the differences have surely shrunk to this part of what they were (ρᵏ ≤ factor).

    Raises:
        ValueError: a factor that is not between 0 and 1, or a matrix whose differences need not shrink.
    """
    rate = contraction(matrix)
    if not 0 < factor < 1 or rate > 1 - _ROUNDING:
        raise ValueError(f"expected a factor between 0 and 1 and a contraction below 1, got {factor} and {rate:.6g}")
    return max(1, math.ceil(math.log(factor) / math.log(rate) - _ROUNDING)) if rate > _ROUNDING else 1
