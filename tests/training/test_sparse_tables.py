"""A table of which steps touch a few rows: against dense SGD, by its bytes, with bad input; and replays of logs."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from distlib import Cluster, Communicator, Link, RankError, SimulatedWorld, World
from distlib.training.parameter_server import (
    ASYNCHRONOUS,
    ParameterClient,
    ServerLog,
    SparseClient,
    SparseLog,
    key_ranges,
    replay,
    server_loop,
    sparse_server_loop,
    worker_loop,
)
from distlib.training.shards import flatten, shard_parameters

pytestmark = pytest.mark.timeout(120)
ROWS, WIDTH, RATE = 11, 3, 0.5
LINK = Link(50e-6, 1e9)


def start() -> torch.Tensor:
    return torch.linspace(-1, 1, ROWS * WIDTH, dtype=torch.float64).view(ROWS, WIDTH)


def words_of(worker: int, step: int) -> torch.Tensor:
    """Five rows, some of them twice."""
    return torch.tensor([1, 3 * worker, step, (5 * step + worker) % ROWS, 1])


def gradient_of(table: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Of a loss that knows the rows only through their sum, as a classifier of texts does."""
    table = table.detach().requires_grad_()
    return torch.autograd.grad((table[words].sum(dim=0) - 1).square().sum(), table)[0]


def train(comm: Communicator, servers: int, steps: int, **wrong: Any) -> tuple[torch.Tensor, SparseLog] | None:
    ranges = key_ranges(ROWS, servers)
    if comm.rank < servers:
        mine = start()[ranges[comm.rank].start : ranges[comm.rank].stop].clone()
        first = wrong.get("first", ranges[comm.rank].start)
        return mine, sparse_server_loop(comm, range(servers, comm.world_size), mine, first, RATE)
    client = SparseClient(comm, range(servers), ROWS, WIDTH, torch.float64)
    for step in range(steps):
        keys, places = words_of(comm.rank - servers, step).unique(return_inverse=True)
        rows = client.pull(keys)
        comm.sleep(1e-3 * (1 + comm.rank))
        client.push(keys, gradient_of(rows, places))
    client.leave()
    return None


def simulated(servers: int, workers: int, steps: int, **more: Any) -> tuple[SimulatedWorld, list[Any]]:
    world = SimulatedWorld(servers + workers, Cluster.flat(servers + workers, LINK))
    return world, world.run(train, servers, steps, **more)


@pytest.mark.parametrize("servers", [1, 2, 4])
def test_rows_that_are_pulled_and_pushed_train_as_the_whole_table_does(servers: int) -> None:
    """Of one worker: its gradients come in the order of its steps. A layer of torch with sparse gradients agrees."""
    _, results = simulated(servers, workers=1, steps=6)
    dense, layer = start(), nn.Embedding(ROWS, WIDTH, sparse=True, _weight=start())
    optimizer = torch.optim.SGD(layer.parameters(), lr=RATE)
    for step in range(6):
        dense -= RATE * gradient_of(dense, words_of(0, step))
        optimizer.zero_grad()
        (layer(words_of(0, step)).sum(dim=0) - 1).square().sum().backward()
        optimizer.step()
    found = torch.cat([rows for rows, _ in results[:servers]])
    torch.testing.assert_close(found, dense)
    torch.testing.assert_close(found, layer.weight.detach())


@pytest.mark.parametrize("servers", [1, 3])
def test_a_step_moves_the_bytes_of_the_rows_that_it_touches(servers: int) -> None:
    world, results = simulated(servers, workers=2, steps=4)
    expected = 0
    for worker in range(2):
        for step in range(4):
            touched = words_of(worker, step).unique()
            asked = sum(any(key in keys for key in touched.tolist()) for keys in key_ranges(ROWS, servers))
            expected += 32 * asked + 16 * len(touched) + 2 * 8 * WIDTH * len(touched)  # float64
    assert sum(world.trace.bytes_sent) == expected + 2 * servers * 16  # and both leave
    pushed = [count for _, log in results[:servers] for _, count in log.pushed]
    assert sum(pushed) == sum(len(words_of(worker, step).unique()) for worker in range(2) for step in range(4))


def test_a_server_counts_the_rows_that_had_changed_meanwhile() -> None:
    """Every step of both workers touches row 1; alone, nothing changes between pull and push."""
    _, results = simulated(servers=1, workers=2, steps=4)
    log = results[0][1]
    assert 1 <= max(log.changed) and all(
        changed <= count for changed, (_, count) in zip(log.changed, log.pushed, strict=True)
    )
    assert set(simulated(servers=1, workers=1, steps=4)[1][0][1].changed) == {0}


def test_real_ranks_do_the_same() -> None:
    with World(3) as world:
        real = world.run(train, 2, 5)
    _, wanted = simulated(2, workers=1, steps=5)
    for (found, _), (expected, _) in zip(real[:2], wanted[:2], strict=True):
        torch.testing.assert_close(found, expected)


def test_key_ranges_are_consecutive_and_even() -> None:
    assert key_ranges(10, 4) == [range(0, 3), range(3, 6), range(6, 8), range(8, 10)]
    assert key_ranges(2, 2) == [range(0, 1), range(1, 2)]
    for rows, servers in ((3, 0), (3, 4)):
        with pytest.raises(ValueError, match=f"expected 1 to 3 servers for 3 rows, got {servers}"):
            key_ranges(rows, servers)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ([3, 1], "rising, each once"),
        ([1, 1], "add up its gradients"),
        ([0, ROWS], f"expected keys from 0 to {ROWS - 1}, got keys from 0 to {ROWS}"),
        ([-1, 2], "got keys from -1 to 2"),
        ([0.0, 1.0], "int64"),
    ],
)
def test_keys_that_are_no_rows_are_refused_where_they_are_given(keys: list[float], words: str) -> None:
    def ask(comm: Communicator) -> None:
        SparseClient(comm, [0], ROWS, WIDTH).pull(torch.tensor(keys))

    with pytest.raises(RankError, match=words):
        SimulatedWorld(2).run(lambda comm: ask(comm) if comm.rank else None)


def test_gradients_need_a_row_for_each_key() -> None:
    def push(comm: Communicator) -> None:
        if comm.rank:
            SparseClient(comm, [0], ROWS, WIDTH).push(torch.tensor([1, 2]), torch.zeros(3, WIDTH))

    with pytest.raises(RankError, match=r"expected gradients of shape \[2, 3\] and torch.float32.* got \[3, 3\]"):
        SimulatedWorld(2).run(push)


def test_a_server_refuses_keys_of_another_range() -> None:
    with pytest.raises(RankError, match=r"expected keys from 2 to 12, got 0 to 1 from rank 1"):
        simulated(servers=1, workers=1, steps=1, first=2)


# Replays


def target(worker: int, clock: int, options: dict[str, Any]) -> int:
    """Where a gradient leads to. With backups a clock does not say which of the worker's steps it is."""
    return worker if "backups" in options else worker * clock


def pull_to_target(comm: Communicator, options: dict[str, Any], momentum: float) -> Any:
    """Four workers, each with a target of its own and at a speed of its own."""
    parameters = [torch.zeros(5, dtype=torch.float64)]
    shards = shard_parameters(parameters, 1)
    if comm.rank == 0:
        optimizer = partial(torch.optim.SGD, lr=0.3, momentum=momentum)
        mine = flatten(parameters, shards[0])
        return server_loop(comm, range(1, 5), mine, optimizer, **options), mine

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        comm.sleep(1e-3 * comm.rank)
        return [parameters[0] - target(comm.rank, step + 1, options)], 1

    worker_loop(ParameterClient(comm, [0], parameters, shards), compute, 6)
    return None


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("options", [{}, {"bound": 2}, {"bound": ASYNCHRONOUS}, {"backups": 1}], ids=str)
def test_a_replay_arrives_where_the_run_has_arrived(options: dict[str, Any], momentum: float) -> None:
    log, found = SimulatedWorld(5, Cluster.flat(5, LINK)).run(pull_to_target, options, momentum)[0]
    share = 4 - options.get("backups", 0)
    points = list(
        replay(
            log,
            torch.zeros(2, 5, dtype=torch.float64),
            lambda parameters, worker, clock: parameters - target(worker, clock, options),
            torch.tensor([0.3, 0.1]),
            share=share,
            momentum=momentum,
        )
    )
    assert [when for when, _ in points] == [update.time for update in log.updates]
    torch.testing.assert_close(points[-1][1][0], found, rtol=1e-6, atol=1e-6)
    assert not torch.allclose(points[-1][1][1], found)  # another rate


def test_a_replay_refuses_what_does_not_fit_together() -> None:
    for start_from, rates, share in (
        (torch.zeros(3), torch.ones(3), 1),
        (torch.zeros(2, 3), torch.ones(3), 1),
        (torch.zeros(1, 3), torch.ones(1), 0),
    ):
        with pytest.raises(ValueError, match="a rate for each model and a share of at least 1, got"):
            list(replay(ServerLog(), start_from, lambda parameters, worker, clock: parameters, rates, share=share))
