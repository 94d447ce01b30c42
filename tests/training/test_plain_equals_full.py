"""The plain files of parameter server, gossip, ring attention and experts: the same numbers and messages as the full
editions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from distlib import Cluster, Communicator, Link, SimulatedWorld
from distlib.training.experts import MixtureOfExperts, sum_router_gradients
from distlib.training.experts.plain import PlainMixture, plain_sum_router_gradients
from distlib.training.gossip import decentralized_step
from distlib.training.long_sequences import ring_attention
from distlib.training.long_sequences.plain import plain_ring_attention
from distlib.training.mixing import check_mixing_matrix, metropolis_weights, ring, star, static_exponential
from distlib.training.parameter_server import ParameterClient, server_loop, worker_loop
from distlib.training.parameter_server.plain import plain_server, plain_worker
from distlib.training.plain_gossip import plain_decentralized_step, ring_weights
from distlib.training.shards import shard_parameters

pytestmark = pytest.mark.timeout(60)
DOUBLE = torch.float64
EPSILON = 1e-12
RankFunction = Callable[..., list[torch.Tensor]]


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def sent(world: SimulatedWorld) -> Counter[tuple[int, int, int]]:
    """How often a rank has sent so many bytes to another one."""
    return Counter((message.src, message.dst, message.nbytes) for message in world.trace.messages)


def hold_equal(ranks: int, plain: RankFunction, full: RankFunction, *arguments: Any) -> None:
    """Run both, and compare what the ranks return, and what they have sent."""
    worlds = [SimulatedWorld(ranks, Cluster.flat(ranks, Link(1e-6, 1e9)), contexts="threads") for _ in range(2)]
    found, expected = (world.run(each, *arguments) for world, each in zip(worlds, (plain, full), strict=True))
    for rank in range(ranks):
        assert len(found[rank]) == len(expected[rank]) > 0
        for ours, theirs in zip(found[rank], expected[rank], strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=EPSILON)
    assert sent(worlds[0]) == sent(worlds[1])
    assert ranks == 1 or sent(worlds[0])


# ── parameter server ─────────────────────────────────────────────────────────────────────────────────────────────────

RATE = 0.1


def computing(comm: Communicator, parameters: torch.Tensor, seconds: list[float]) -> Callable[..., Any]:
    """Each worker draws the parameters to its own rank; some take longer."""

    def compute(*_: int) -> tuple[torch.Tensor, int]:
        comm.sleep(seconds[comm.rank - 1])
        return (parameters - comm.rank) / 3, 10 + comm.rank

    return compute


def by_plain_server(
    comm: Communicator, synchronous: bool, steps: list[int], seconds: list[float]
) -> list[torch.Tensor]:
    parameters = torch.linspace(-1, 1, 7, dtype=DOUBLE)
    if comm.rank == 0:
        applied = plain_server(comm, range(1, comm.world_size), parameters, RATE, synchronous)
        return [parameters, torch.tensor(applied)]
    plain_worker(comm, 0, parameters, computing(comm, parameters, seconds), steps[comm.rank - 1])
    return [parameters]


def by_full_server(comm: Communicator, synchronous: bool, steps: list[int], seconds: list[float]) -> list[torch.Tensor]:
    parameters = torch.linspace(-1, 1, 7, dtype=DOUBLE)
    if comm.rank == 0:
        sgd, bound = partial(torch.optim.SGD, lr=RATE), 0 if synchronous else math.inf
        log = server_loop(comm, range(1, comm.world_size), parameters, sgd, bound=bound)
        return [parameters, torch.tensor([(each.worker, each.samples, each.staleness) for each in log.contributions])]
    client = ParameterClient(comm, [0], [parameters], shard_parameters([parameters], 1))
    compute = computing(comm, parameters, seconds)

    def in_a_list(step: int) -> tuple[list[torch.Tensor], int]:
        gradient, samples = compute(step)
        return [gradient], samples

    worker_loop(client, in_a_list, steps[comm.rank - 1])
    return [parameters]


@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize(
    ("steps", "seconds"), [([4], [1e-3]), ([5, 5, 5], [1e-3, 1.7e-3, 4.9e-3]), ([6, 2, 4], [1.3e-3, 1.9e-3, 2.3e-3])]
)
def test_parameter_server(synchronous: bool, steps: list[int], seconds: list[float]) -> None:
    hold_equal(1 + len(steps), by_plain_server, by_full_server, synchronous, steps, seconds)


def test_who_waits_for_the_slowest_worker() -> None:
    steps, seconds = [5, 5, 5], [1e-3, 1.7e-3, 4.9e-3]
    stale = {
        synchronous: SimulatedWorld(4).run(by_plain_server, synchronous, steps, seconds)[0][1][:, 2]
        for synchronous in (True, False)
    }
    assert stale[True].tolist() == [0] * 15
    assert stale[False].max() >= 3


# ── gossip ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def decentralized(comm: Communicator, weights: torch.Tensor, plain: bool) -> list[torch.Tensor]:
    torch.manual_seed(comm.rank)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def losses(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return ((outputs - targets) ** 2).mean(dim=1)

    for step in range(3):
        inputs, targets = drawn(5, 3, seed=comm.rank + 10 * step), drawn(5, 2, seed=comm.rank)
        if plain:
            plain_decentralized_step(comm, model, losses(model(inputs), targets).mean(), optimizer, weights)
        else:
            decentralized_step(comm, model, losses, (inputs, targets), optimizer, weights)
    return [parameter.detach() for parameter in model.parameters()]


ONE_WAY = sum(share * torch.eye(4, dtype=DOUBLE).roll(hop, dims=1) for hop, share in enumerate((0.5, 0.3, 0.2)))
MATRICES = {
    **{f"ring of {ranks}": ring_weights(ranks) for ranks in (1, 2, 3, 5)},
    "exponential": static_exponential(6),
    "star, with other weights for its center": metropolis_weights(star(4)),
    "one way, with other weights for each hop": ONE_WAY,
}


@pytest.mark.parametrize("weights", MATRICES.values(), ids=MATRICES)
def test_gossip(weights: torch.Tensor) -> None:
    plain, full = (partial(decentralized, plain=plain) for plain in (True, False))
    hold_equal(len(weights), plain, full, weights)


@pytest.mark.parametrize("ranks", range(1, 7))
def test_the_weights_of_a_ring(ranks: int) -> None:
    check_mixing_matrix(ring_weights(ranks))
    torch.testing.assert_close(ring_weights(ranks), metropolis_weights(ring(ranks)))


# ── ring attention ───────────────────────────────────────────────────────────────────────────────────────────────────


def attention(comm: Communicator, attend: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
    queries, keys, values, gradient = (
        10 * drawn(2, 3, 4, 5, seed=4 * comm.rank + number) for number in range(4)
    )  # scores of some hundreds: a softmax that is not corrected overflows
    inputs = [tensor.requires_grad_() for tensor in (queries, keys, values)]
    output = attend(comm, *inputs)
    output.backward(gradient / 1e4)
    return [output.detach(), *(tensor.grad for tensor in inputs if tensor.grad is not None)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ring_attention(ranks: int) -> None:
    plain = partial(attention, attend=plain_ring_attention)
    hold_equal(ranks, plain, partial(attention, attend=partial(ring_attention, causal=True)))


# ── experts ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def mixture(comm: Communicator, tokens_of: list[int], plain: bool) -> list[torch.Tensor]:
    full = MixtureOfExperts(comm, 4, 6, num_experts=12, dtype=DOUBLE)
    router = nn.Linear(4, 12, bias=False, dtype=DOUBLE)
    router.load_state_dict(full.router.state_dict())
    layer = PlainMixture(comm, router, list(full.experts)) if plain else full
    tokens = drawn(tokens_of[comm.rank], 4, seed=comm.rank).requires_grad_()
    output = layer(tokens)
    (output * drawn(*output.shape, seed=9)).sum().backward()
    if isinstance(layer, PlainMixture):
        plain_sum_router_gradients(layer)
    else:
        sum_router_gradients(layer)
    gradients = [parameter.grad for parameter in layer.parameters()]
    assert all(gradient is not None for gradient in gradients)
    return [output.detach(), tokens.grad, *gradients]  # type: ignore[list-item]


@pytest.mark.parametrize("tokens_of", [[5], [8, 3], [2, 9, 1], [3, 0, 2], [4, 4, 4, 4]], ids=str)
def test_experts(tokens_of: list[int]) -> None:
    plain, full = (partial(mixture, plain=plain) for plain in (True, False))
    hold_equal(len(tokens_of), plain, full, tokens_of)
