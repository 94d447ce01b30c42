"""Gossip: mixing matrices by their properties, averages against W^k, messages, training against a single process."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from distlib import Cluster, Communicator, Link, RankError, SimulatedWorld, World
from distlib.training import mixing
from distlib.training.gossip import (
    Schedule,
    consensus_error,
    decentralized_step,
    gossip_average,
    gradient_push_step,
    push_sum,
)
from distlib.training.mixing import (
    check_mixing_matrix,
    check_push_matrix,
    complete,
    contraction,
    metropolis_weights,
    one_peer_exponential,
    push_weights,
    random_matchings,
    ring,
    rounds_for,
    star,
    static_exponential,
    torus,
)

pytestmark = pytest.mark.timeout(60)

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17)
SCHEDULES: dict[str, Callable[[int], Schedule]] = {
    "ring": lambda n: metropolis_weights(ring(n)),
    "star": lambda n: metropolis_weights(star(n)),
    "complete": lambda n: metropolis_weights(complete(n)),
    "torus": lambda n: metropolis_weights(torus(2, n // 2) if n % 2 == 0 else torus(1, n)),
    "static exponential": static_exponential,
    "one-peer exponential": one_peer_exponential,
    "matchings": lambda n: random_matchings(n, 4 * n, seed=3),
}
ONE_WAY = [[1], [2, 0], [3], [0, 1]]  # nobody that rank 0 sends to answers


def listed(schedule: Schedule) -> Sequence[torch.Tensor]:
    return [schedule] if isinstance(schedule, torch.Tensor) else schedule


def values(rank: int) -> torch.Tensor:
    return torch.tensor([[rank**2, 1.0, -rank], [0.5 * rank, 7.0, (-1.0) ** rank]], dtype=torch.float64)


def gossip(comm: Communicator, schedule: Schedule, rounds: int, **options: Any) -> torch.Tensor:
    tensor = values(comm.rank)
    gossip_average(comm, tensor, schedule, rounds, **options)
    return tensor


# Graphs and weights


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("ranks", SIZES)
def test_every_schedule_is_doubly_stochastic_and_connected(name: str, ranks: int) -> None:
    schedule = SCHEDULES[name](ranks)
    check_mixing_matrix(*listed(schedule))
    for matrix in listed(schedule):
        assert matrix.dtype == torch.float64 and matrix.shape == (ranks, ranks)
        assert contraction(matrix) < 1 + 1e-9  # a bye or a single matching may leave all of some difference
    assert contraction(*listed(schedule)) < 1 or ranks == 1


@pytest.mark.parametrize(("ranks", "on_a_ring", "exponential"), [(8, 0.805, 0.5), (16, 0.949, 0.6), (32, 0.987, 2 / 3)])
def test_spectral_norms(ranks: int, on_a_ring: float, exponential: float) -> None:
    matrix = metropolis_weights(ring(ranks))
    assert contraction(matrix) == pytest.approx(on_a_ring, abs=5e-4)
    assert contraction(matrix) == pytest.approx(1 / 3 + 2 / 3 * math.cos(2 * math.pi / ranks))
    assert contraction(static_exponential(ranks)) == pytest.approx(exponential)
    assert contraction(static_exponential(ranks)) == pytest.approx((math.log2(ranks) - 1) / (math.log2(ranks) + 1))
    assert contraction(metropolis_weights(star(ranks))) == pytest.approx(1 - 1 / ranks)
    assert contraction(metropolis_weights(complete(ranks))) == pytest.approx(0, abs=1e-12)


def test_the_table_of_the_module() -> None:
    graphs = {"ring": ring(16), "torus": torus(4, 4), "star": star(16), "complete": complete(16)}
    matrices = {name: metropolis_weights(graph) for name, graph in graphs.items()}
    for name, matrix in {**matrices, "static exponential": static_exponential(16)}.items():
        row = next(line for line in str(mixing.__doc__).splitlines() if line.startswith(f"    {name:22}"))
        assert float(row[41:].split()[0]) == pytest.approx(contraction(matrix), abs=5e-4)


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 32])
def test_one_peer_exponential_is_exact_after_log2_n_rounds(ranks: int) -> None:
    matrices = one_peer_exponential(ranks)
    assert len(matrices) == math.log2(ranks)
    assert contraction(*matrices) == 0
    for matrix in matrices:
        assert ((matrix > 0).sum(dim=0) == 2).all() and ((matrix > 0).sum(dim=1) == 2).all()  # itself and one peer


def test_tori_and_rings() -> None:
    assert ring(5) == [[1, 4], [0, 2], [1, 3], [2, 4], [0, 3]]
    assert ring(2) == [[1], [0]] and ring(1) == [[]]
    assert torus(3, 4)[0] == [1, 3, 4, 8]
    assert torus(2, 3)[0] == [1, 2, 3]


def test_matchings_pair_everybody_or_give_one_a_bye() -> None:
    for ranks, byes in ((6, 0), (7, 1)):
        for matrix in random_matchings(ranks, 5, seed=1):
            assert sorted(Counter(matrix.diagonal().tolist()).items()) == [(0.5, ranks - byes)] + [(1.0, 1)] * byes
            assert torch.equal(matrix, matrix.T)
    first, again, other = (random_matchings(8, 3, seed) for seed in (1, 1, 2))
    assert all(map(torch.equal, first, again)) and not all(map(torch.equal, first, other))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_metropolis_weights_of_any_connected_graph(data: st.DataObject) -> None:
    ranks = data.draw(st.integers(1, 9))
    neighbors: list[set[int]] = [set() for _ in range(ranks)]
    for rank in range(1, ranks):
        for other in data.draw(st.sets(st.integers(0, rank - 1), min_size=1)):
            neighbors[rank].add(other)
            neighbors[other].add(rank)
    matrix = metropolis_weights([sorted(each) for each in neighbors])
    check_mixing_matrix(matrix)
    assert contraction(matrix) < 1
    assert all(bool(matrix[i, j]) == (j in neighbors[i]) for i in range(ranks) for j in range(ranks) if i != j)
    assert matrix[matrix > 0].min() >= 1 / ranks - 1e-12


# Bad matrices


def ring_of_4(row: int, column: int, weight: float) -> torch.Tensor:
    matrix = metropolis_weights(ring(4))
    matrix[row, column] = weight
    return matrix


@pytest.mark.parametrize(
    ("matrices", "words"),
    [
        ([torch.tensor([[0.5, 0.5], [0.4, 0.5]])], "expected every row to add up to 1, got 0.9 in row 1"),
        ([torch.tensor([[0.5, 0.5], [0.4, 0.6]])], "expected every column to add up to 1, got 0.9 in column 0"),
        ([ring_of_4(2, 1, -0.5)], "expected weights of at least 0, got -0.5 in row 2, column 1"),
        ([ring_of_4(3, 3, math.nan)], "expected weights of at least 0, got nan in row 3, column 3"),
        ([torch.eye(3)], "rank 0 never hears of rank 1: it hears of [0] only"),
        ([torch.block_diag(*[torch.full((2, 2), 0.5)] * 2)], "rank 0 never hears of rank 2: it hears of [0, 1] only"),
        ([torch.full((2, 2), 0.5), torch.eye(3)], "matrix 1: expected floating-point numbers of shape [2, 2]"),
        ([torch.full((2, 2), 0.5), torch.zeros(2, 2)], "matrix 1: expected every row to add up to 1, got 0 in row 0"),
        ([torch.ones(2, 3)], "of shape [2, 2], got torch.float32 [2, 3]"),
        ([torch.eye(1, dtype=torch.int64)], "expected floating-point numbers"),
        ([], "expected at least one mixing matrix"),
    ],
)
def test_what_is_no_mixing_matrix(matrices: list[torch.Tensor], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        check_mixing_matrix(*matrices)
    assert words in str(caught.value)


def test_what_push_sum_asks() -> None:
    matrix = push_weights(ONE_WAY)
    check_push_matrix(matrix)
    with pytest.raises(ValueError, match="every row"):
        check_mixing_matrix(matrix)
    with pytest.raises(ValueError, match="every column"):
        check_push_matrix(matrix.T)
    with pytest.raises(ValueError, match="rank 0 never hears of rank 1"):
        check_push_matrix(push_weights([[1], []]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metropolis_weights([[1], []]), "rank 1 is a neighbor of rank 0, but rank 0 is none of rank 1"),
        (lambda: metropolis_weights([[0]]), "rank 0: expected different ranks from 0 to 0, without itself"),
        (lambda: push_weights([[2], [0]]), "rank 0: expected different ranks from 0 to 1, without itself, got [2]"),
        (lambda: push_weights([[1, 1], [0]]), "expected different ranks"),
        (lambda: ring(0), "expected at least one row and column"),
        (lambda: static_exponential(0), "expected at least one rank, got 0"),
        (lambda: random_matchings(2, 0, 0), "expected at least one round"),
        (lambda: rounds_for(torch.eye(2), 0.5), "a contraction below 1"),
    ],
)
def test_bad_graphs(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    assert words in str(caught.value)


def test_rounds_for_a_factor() -> None:
    matrix = metropolis_weights(ring(8))
    rounds = rounds_for(matrix, 0.01)
    assert contraction(matrix) ** rounds <= 0.01 < contraction(matrix) ** (rounds - 1)
    assert rounds_for(metropolis_weights(complete(8)), 0.01) == 1


# Gossip


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("ranks", [1, 2, 5, 8])
def test_gossip_is_the_product_of_the_matrices(name: str, ranks: int) -> None:
    schedule, rounds, first = SCHEDULES[name](ranks), 3, 2
    world = SimulatedWorld(ranks)
    found = torch.stack(world.run(gossip, schedule, rounds, first_round=first))
    start = torch.stack([values(rank) for rank in range(ranks)])
    right, matrices = start, listed(schedule)
    for number in range(first, first + rounds):
        right = torch.tensordot(matrices[number % len(matrices)], right, dims=1)
    assert torch.allclose(found, right, rtol=1e-12, atol=1e-12)
    assert torch.allclose(found.mean(dim=0), start.mean(dim=0), rtol=1e-13, atol=1e-13)
    may_talk = torch.stack([matrix > 0 for matrix in matrices]).any(dim=0)
    assert all(may_talk[message.dst, message.src] for message in world.trace)


@pytest.mark.parametrize("name", ["ring", "star", "static exponential"])
def test_the_error_shrinks_by_rho_in_each_round(name: str) -> None:
    schedule = SCHEDULES[name](8)
    rate = contraction(*listed(schedule))
    start = consensus_error([values(rank) for rank in range(8)])
    for rounds in (1, 5, 20):
        assert consensus_error(SimulatedWorld(8).run(gossip, schedule, rounds)) <= rate**rounds * start * (1 + 1e-12)


def test_a_round_sends_the_tensor_once_to_each_neighbor() -> None:
    world = SimulatedWorld(6)
    world.run(gossip, metropolis_weights(star(6)), 2)
    assert world.trace.bytes_sent == [2 * 5 * 48, *[2 * 48] * 5]
    assert world.trace.messages_sent == [10, *[2] * 5]


def test_gossip_on_real_ranks_equals_simulated_ones() -> None:
    schedule = static_exponential(4)
    with World(4) as world:
        real = world.run(gossip, schedule, 3, timeout=100)
    assert all(map(torch.equal, real, SimulatedWorld(4).run(gossip, schedule, 3)))


def test_gossip_does_not_wait_for_ranks_further_away() -> None:
    """Rank 4 of a ring of 8 is late: after k rounds the ranks up to k places away have noticed, and no other."""

    def late(comm: Communicator, rounds: int) -> float:
        comm.sleep(1.0 if comm.rank == 4 else 0.0)
        gossip(comm, metropolis_weights(ring(8)), rounds)
        return comm.time()

    for rounds in (1, 2, 3):
        times = SimulatedWorld(8, Cluster.flat(8, Link(1e-6, 1e9))).run(late, rounds)
        assert [time > 0.5 for time in times] == [abs(rank - 4) <= rounds for rank in range(8)]


@pytest.mark.parametrize(
    ("schedule", "rounds", "words"),
    [
        (metropolis_weights(ring(3)), 1, "a weight for each pair of 2 ranks, got [3, 3]"),
        (torch.eye(2), 1, "expected a connected graph"),
        (torch.full((2, 2), 0.5), -1, "expected at least 0 rounds, got -1"),
    ],
)
def test_bad_schedules(schedule: torch.Tensor, rounds: int, words: str) -> None:
    with pytest.raises(RankError) as caught:
        SimulatedWorld(2).run(gossip, schedule, rounds)
    assert words in str(caught.value)


def test_whole_numbers_have_no_averages() -> None:
    def program(comm: Communicator) -> None:
        gossip_average(comm, torch.tensor([1]), torch.full((2, 2), 0.5))

    with pytest.raises(RankError, match="averages are fractions"):
        SimulatedWorld(2).run(program)


# Push-sum


def push(comm: Communicator, schedule: Schedule, rounds: int) -> tuple[torch.Tensor, torch.Tensor]:
    tensor, weight = values(comm.rank), torch.ones((), dtype=torch.float64)
    push_sum(comm, tensor, weight, schedule, rounds)
    return tensor, weight


@pytest.mark.parametrize("receivers", [ONE_WAY, ring(5), [[1, 2, 3], [0], [0], [1]]])
def test_push_sum_finds_the_mean_where_nobody_need_answer(receivers: list[list[int]]) -> None:
    ranks = len(receivers)
    mean = torch.stack([values(rank) for rank in range(ranks)]).mean(dim=0)
    for rounds in (0, 3, 60):
        found = SimulatedWorld(ranks).run(push, push_weights(receivers), rounds)
        assert torch.allclose(sum(tensor for tensor, _ in found), ranks * mean)
        assert float(sum(weight for _, weight in found)) == pytest.approx(ranks)
    assert all(torch.allclose(tensor / weight, mean, atol=1e-9) for tensor, weight in found)


def test_without_the_weights_a_directed_graph_gives_another_mean() -> None:
    found = SimulatedWorld(4).run(push, push_weights(ONE_WAY), 60)
    weights = [float(weight) for _, weight in found]
    assert max(weights) - min(weights) > 0.5


def test_parameters_are_averaged_without_a_graph() -> None:
    def average(comm: Communicator) -> list[bool]:
        ours, expected = nn.Parameter(values(comm.rank)), values(comm.rank)
        gossip_average(comm, ours, metropolis_weights(ring(3)))
        gossip_average(comm, expected, metropolis_weights(ring(3)))
        right = [torch.equal(ours, expected)]
        push_sum(comm, ours, nn.Parameter(torch.ones((), dtype=torch.float64)), push_weights(ring(3)))
        push_sum(comm, expected, torch.ones((), dtype=torch.float64), push_weights(ring(3)))
        return [*right, torch.equal(ours, expected), ours.is_leaf]

    assert SimulatedWorld(3).run(average, timeout=60) == [[True] * 3] * 3


# Training


def squared(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs[:, 0] - targets) ** 2 / 2


def linear() -> nn.Module:
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.zeros_(model.weight)
    return model


def batch_of(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """With the input 1 the gradient of the weight w is w - rank."""
    return torch.ones(2, 1, dtype=torch.float64), torch.full((2,), float(rank), dtype=torch.float64)


def train(comm: Communicator, schedule: Schedule, steps: int, rate: float, directed: bool = False) -> float:
    model, weight = linear(), torch.ones((), dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for step in range(steps):
        work = (model, squared, batch_of(comm.rank), optimizer)
        if directed:
            gradient_push_step(comm, *work, weight, schedule, step)
        else:
            decentralized_step(comm, *work, schedule, step)
    return model.weight.item()


@pytest.mark.parametrize("name", SCHEDULES)
def test_decentralized_steps_are_those_of_the_equation(name: str) -> None:
    schedule, targets = SCHEDULES[name](5), torch.arange(5, dtype=torch.float64)
    wanted = torch.zeros(5, dtype=torch.float64)
    for step in range(7):
        matrices = listed(schedule)
        wanted = matrices[step % len(matrices)] @ wanted - 0.3 * (wanted - targets)
    found = SimulatedWorld(5).run(train, schedule, 7, 0.3)
    assert torch.allclose(torch.tensor(found, dtype=torch.float64), wanted)


def test_on_a_complete_graph_the_mean_takes_the_steps_of_all_reduce() -> None:
    found = SimulatedWorld(4).run(train, metropolis_weights(complete(4)), 9, 0.2)
    assert sum(found) / 4 == pytest.approx(1.5 * (1 - 0.8**9))


def test_gradient_push_comes_near_the_mean_of_all_ranks_targets() -> None:
    """The smaller the rate, the nearer. Without the weights the ranks that many send to would count more."""
    schedule, targets = push_weights(ONE_WAY), torch.arange(4, dtype=torch.float64)
    x, weight = torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)
    for _ in range(9):
        x, weight = schedule @ (x - 0.3 * (x / weight - targets)), schedule @ weight
    found = SimulatedWorld(4).run(train, schedule, 9, 0.3, directed=True)
    assert torch.allclose(torch.tensor(found, dtype=torch.float64), x / weight)
    for rate, near in ((0.2, 0.4), (0.05, 0.1)):
        found = SimulatedWorld(4).run(train, schedule, round(8 / rate), rate, directed=True)
        assert max(abs(each - 1.5) for each in found) < near
