"""The parameter server in virtual time and on real ranks: against a single process, by its order, with bad input."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from distlib import Cluster, Communicator, Link, RankError, SimulatedWorld, World
from distlib.training.parameter_server import (
    ASYNCHRONOUS,
    GRADIENT,
    PARAMETERS,
    SYNCHRONOUS,
    ParameterClient,
    ServerLog,
    may_proceed,
    server_loop,
    worker_loop,
)
from distlib.training.shards import flatten, shard_parameters, unflatten

pytestmark = pytest.mark.timeout(120)
LINK = Link(50e-6, 1e9)
MOMENTUM = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
SGD = partial(torch.optim.SGD, lr=1.0)

Gradient = Callable[[list[torch.Tensor], int, int], list[torch.Tensor]]


def start() -> list[torch.Tensor]:
    return [torch.linspace(-1, 1, 6).view(2, 3), torch.tensor([0.5])]


def towards(parameters: list[torch.Tensor], worker: int, step: int) -> list[torch.Tensor]:
    """The gradient of a loss with a target of the worker's own; it depends on the parameters and on the step."""
    return [(parameter - worker) / 3 + 0.01 * step for parameter in parameters]


def ones(parameters: list[torch.Tensor], worker: int, step: int) -> list[torch.Tensor]:
    return [torch.ones_like(parameter) for parameter in parameters]


def train(
    comm: Communicator,
    servers: int = 1,
    steps: Sequence[int] = (5, 5, 5),
    seconds: Sequence[float] = (1e-3, 1e-3, 1e-3),
    gradient: Gradient = towards,
    pull_every: int = 1,
    optimizer: Any = MOMENTUM,
    **options: Any,
) -> tuple[ServerLog | None, list[torch.Tensor]]:
    """What every rank does: the first `servers` serve, the others work. Returns the log and the parameters."""
    parameters = start()
    shards = shard_parameters(parameters, servers)
    if comm.rank < servers:
        flat = flatten(parameters, shards[comm.rank])
        log = server_loop(comm, range(servers, comm.world_size), flat, optimizer, **options)
        unflatten(flat, parameters, shards[comm.rank])
        return log, parameters
    worker = comm.rank - servers

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        comm.sleep(seconds[worker])
        return gradient(parameters, worker, step), 10 + worker

    worker_loop(ParameterClient(comm, range(servers), parameters, shards), compute, steps[worker], pull_every)
    return None, parameters


def simulated(servers: int = 1, workers: int = 3, **options: Any) -> tuple[SimulatedWorld, list[Any]]:
    world = SimulatedWorld(servers + workers, Cluster.flat(servers + workers, LINK))
    return world, world.run(train, servers, **options)


def alone(workers: int, steps: int) -> list[torch.Tensor]:
    """The same training in a single process: one step along the mean of the workers' gradients."""
    parameters = start()
    optimizer = MOMENTUM(parameters)
    for step in range(steps):
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        for worker in range(workers):
            for parameter, gradient in zip(parameters, towards(parameters, worker, step), strict=True):
                assert parameter.grad is not None
                parameter.grad += gradient
        for parameter in parameters:
            assert parameter.grad is not None
            parameter.grad /= workers
        optimizer.step()
    return parameters


def assert_equal(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)


# Modes


@pytest.mark.parametrize("servers", [1, 2])
def test_a_bound_of_0_equals_a_single_process_to_the_bit(servers: int) -> None:
    _, results = simulated(servers, seconds=(1e-3, 4e-3, 2e-3))
    for _, parameters in results[servers:]:
        assert_equal(parameters, alone(workers=3, steps=5))
    log = results[0][0]
    assert [len(update.contributions) for update in log.updates] == [3] * 5
    assert {each.staleness for each in log.contributions} == {0}
    assert log.samples == 5 * (10 + 11 + 12)


def test_without_a_bound_every_gradient_is_an_update_and_nobody_waits() -> None:
    _, results = simulated(seconds=(1e-3, 1e-3, 7e-3), bound=ASYNCHRONOUS)
    log = results[0][0]
    assert [len(update.contributions) for update in log.updates] == [1] * 15
    assert sorted((each.worker, each.clock) for each in log.contributions) == [
        (worker, clock) for worker in (1, 2, 3) for clock in range(1, 6)
    ]
    assert log.waits == [] and log.refused == []
    assert max(each.staleness for each in log.contributions) > 2  # of the slow worker


def test_staleness_counts_the_updates_between() -> None:
    """Two workers in turns, the second one twice as slow: by hand."""
    _, results = simulated(workers=2, steps=(4, 2), seconds=(10e-3, 25e-3), bound=ASYNCHRONOUS, gradient=ones)
    order = [(each.worker, each.staleness) for each in results[0][0].contributions]
    assert order == [(1, 0), (1, 0), (2, 2), (1, 1), (1, 0), (2, 2)]


@settings(max_examples=20, deadline=None)
@given(
    seconds=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    bound=st.integers(0, 4),
    servers=st.integers(1, 2),
)
def test_nobody_is_further_ahead_than_the_bound(seconds: list[int], bound: int, servers: int) -> None:
    _, results = simulated(servers, steps=(8, 8, 8), seconds=[each * 1e-3 for each in seconds], bound=bound)
    for log, _ in results[:servers]:
        version_of = {
            (each.worker, each.clock): version
            for version, update in enumerate(log.updates)
            for each in update.contributions
        }
        assert len(version_of) == 24
        for (worker, clock), version in version_of.items():
            owed = clock - 1 - bound  # the others had pushed that many when the worker pulled
            before = [version_of[other, owed] for other in range(servers, servers + 3) if owed > 0 and other != worker]
            assert all(earlier < version for earlier in before)


def test_the_bound_is_reached() -> None:
    """How far ahead a worker is when its parameters leave the server, counted from the messages."""
    world, _ = simulated(steps=(8, 8, 8), seconds=(1e-3, 1e-3, 20e-3), bound=2)
    leads, clocks = [], {1: 0, 2: 0, 3: 0}
    for message in sorted(world.trace, key=lambda message: message.end):
        if message.tag == GRADIENT:
            clocks[message.src] += 1
        elif message.tag == PARAMETERS and clocks[3] < 8:
            leads.append(clocks[message.dst] - min(clocks.values()))
    assert max(leads) == 2


def test_a_late_beginner_is_waited_for() -> None:
    def late(comm: Communicator) -> Any:
        if comm.rank == 3:
            comm.sleep(1.0)
        return train(comm)

    results = SimulatedWorld(4, Cluster.flat(4, LINK)).run(late)
    assert [len(update.contributions) for update in results[0][0].updates] == [3] * 5
    assert_equal(results[1][1], alone(workers=3, steps=5))


def test_a_straggler_costs_a_synchronous_run_its_speed_and_an_asynchronous_one_little() -> None:
    def rate(bound: float, seconds: Sequence[float]) -> float:
        """Gradients per second while all workers are there."""
        _, results = simulated(workers=4, steps=(40,) * 4, seconds=seconds, bound=bound)
        log = results[0][0]
        last: dict[int, float] = {each.worker: update.time for update in log.updates for each in update.contributions}
        end = min(last.values())
        return sum(len(update.contributions) for update in log.updates if update.time <= end) / end

    even, slow = (20e-3,) * 4, (20e-3, 20e-3, 20e-3, 80e-3)
    assert rate(SYNCHRONOUS, even) / rate(SYNCHRONOUS, slow) == pytest.approx(4, rel=0.1)
    assert rate(ASYNCHRONOUS, slow) / rate(ASYNCHRONOUS, even) > 0.75


def test_parameters_go_out_while_gradients_come_in() -> None:
    def large(comm: Communicator) -> None:
        parameters = [torch.zeros(10_000)]
        shards = shard_parameters(parameters, 1)
        if comm.rank == 0:
            server_loop(comm, range(1, 9), flatten(parameters, shards[0]), SGD, bound=ASYNCHRONOUS)
        else:
            worker_loop(ParameterClient(comm, [0], parameters, shards), lambda step: (parameters, 1), 6)

    link = Link(1e-6, 1e7)
    world = SimulatedWorld(9, Cluster.flat(9, link))
    world.run(large)
    sent, received = (nbytes[0] / link.bandwidth for nbytes in (world.trace.bytes_sent, world.trace.bytes_received))
    assert sent < world.trace.elapsed < 0.75 * (sent + received)


def test_a_run_repeats_to_the_bit() -> None:
    first, second = (simulated(2, seconds=(1e-3, 3e-3, 2e-3), bound=ASYNCHRONOUS)[1] for _ in range(2))
    assert first[0][0] == second[0][0]
    assert_equal(first[2][1], second[2][1])


def test_with_a_backup_worker_the_slowest_is_left_out() -> None:
    _, results = simulated(workers=4, steps=(6, 6, 6, 6), seconds=(1e-3, 1e-3, 1e-3, 5e-3), backups=1)
    log = results[0][0]
    assert [[each.worker for each in update.contributions] for update in log.updates[:6]] == [[1, 2, 3]] * 6
    assert {each.staleness for update in log.updates[:6] for each in update.contributions} == {0}
    assert {refusal.worker for refusal in log.refused} == {4} and {each.reason for each in log.refused} == {"late"}


def test_a_stale_gradient_weighs_less_if_asked() -> None:
    _, results = simulated(
        workers=2, steps=(4, 2), seconds=(10e-3, 25e-3), bound=ASYNCHRONOUS, gradient=ones, optimizer=SGD,
        weigh=lambda staleness: 1 / (1 + staleness),
    )  # fmt: skip
    log, parameters = results[0]
    moved = sum(1 / (1 + each.staleness) for each in log.contributions) / 2
    torch.testing.assert_close(parameters, [tensor - moved for tensor in start()])


def test_a_worker_may_pull_less_often() -> None:
    messages = {}
    for every in (1, 2):
        world, results = simulated(steps=(6, 6, 6), pull_every=every, bound=ASYNCHRONOUS)
        assert len(results[0][0].contributions) == 18
        messages[every] = sum(message.tag == PARAMETERS for message in world.trace)
    assert messages == {1: 3 * 7, 2: 3 * 4}


def test_who_leaves_early_holds_nobody_up() -> None:
    _, results = simulated(steps=(2, 6, 6), seconds=(5e-3, 1e-3, 1e-3))
    assert Counter(each.worker for each in results[0][0].contributions) == {1: 2, 2: 6, 3: 6}


def test_time_never_goes_backwards_in_the_log() -> None:
    seen: list[int] = []
    _, results = simulated(bound=1, after_update=lambda log: seen.append(len(log.updates)))
    updates = results[0][0].updates
    assert all(one.time <= other.time for one, other in pairwise(updates))


@pytest.mark.parametrize(
    ("clocks", "worker", "bound", "allowed"),
    [
        ({1: 3, 2: 3}, 1, 0, True),
        ({1: 4, 2: 3}, 1, 0, False),
        ({1: 4, 2: 3}, 2, 0, True),
        ({1: 5, 2: 3, 3: 9}, 1, 2, True),
        ({1: 6, 2: 3, 3: 9}, 1, 2, False),
        ({1: 10**6, 2: 0}, 1, math.inf, True),
    ],
)
def test_who_may_proceed(clocks: dict[int, int], worker: int, bound: float, allowed: bool) -> None:
    assert may_proceed(clocks, worker, bound) is allowed


# Real ranks


def test_real_ranks_do_the_same() -> None:
    results = World(3).run(train, 1, steps=(4, 4))
    _, wanted = simulated(workers=2, steps=(4, 4))
    assert_equal(results[1][1], wanted[1][1])
    log = World(4).run(train, 2, steps=(4, 4), bound=ASYNCHRONOUS)[1][0]
    assert len(log.updates) == 8 and log.refused == []


# Bad input


def test_a_gradient_that_is_not_finite_is_refused_with_its_worker() -> None:
    def broken(parameters: list[torch.Tensor], worker: int, step: int) -> list[torch.Tensor]:
        return [tensor * (math.nan if (worker, step) == (1, 2) else 1) for tensor in towards(parameters, worker, step)]

    _, results = simulated(gradient=broken)
    log, parameters = results[0]
    assert [(each.worker, each.clock, each.reason) for each in log.refused] == [(2, 3, "not finite")]
    assert len(log.contributions) == 14 and all(tensor.isfinite().all() for tensor in parameters)


def test_a_gradient_of_another_size_is_a_mismatch() -> None:
    def short(comm: Communicator) -> None:
        if comm.rank == 0:
            server_loop(comm, [1], torch.zeros(4), SGD)
        else:
            shards = shard_parameters([torch.zeros(3)], 1)
            ParameterClient(comm, [0], [torch.zeros(3)], shards).push([torch.zeros(3)], 1)

    with pytest.raises(RankError, match="rank 1 sends 3 float32 .* but rank 0 receives into 4 float32"):
        SimulatedWorld(2).run(short)


@pytest.mark.parametrize(
    "options", [{"bound": -1}, {"bound": math.nan}, {"backups": 3}, {"backups": 1, "bound": 2}, {"backups": -1}]
)
def test_options_that_do_not_fit(options: dict[str, Any]) -> None:
    with pytest.raises(RankError, match="expected at least one worker, a bound of at least 0, fewer backups"):
        simulated(**options)


@pytest.mark.parametrize(("steps", "pull_every"), [(-1, 1), (3, 0)])
def test_steps_that_make_no_sense(steps: int, pull_every: int) -> None:
    with pytest.raises(RankError, match="expected steps of at least 0 and pull_every of at least 1"):
        simulated(steps=(steps,) * 3, pull_every=pull_every)
