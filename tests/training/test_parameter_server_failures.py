"""A parameter server whose workers die, join or come back, and one that dies itself: in virtual time, to the bit."""

from __future__ import annotations

import math
import os
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from distlib import Cluster, Communicator, Link, PeerLost, RankError, SimulatedWorld, World
from distlib.training.parameter_server import (
    ASYNCHRONOUS,
    SYNCHRONOUS,
    Checkpoint,
    ParameterClient,
    ServerLog,
    keep_in_file,
    keep_on_replica,
    read_checkpoint,
    replica_loop,
    server_loop,
    worker_loop,
)
from distlib.training.shards import flatten, shard_parameters, unflatten

pytestmark = pytest.mark.timeout(120)
LINK = Link(50e-6, 1e9)
SGD = partial(torch.optim.SGD, lr=1.0)
MOMENTUM = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
SECONDS = 10e-3


def start() -> list[torch.Tensor]:
    return [torch.linspace(-1, 1, 6).view(2, 3), torch.tensor([0.5])]


def gradients(parameters: Sequence[torch.Tensor], worker: int, curved: bool) -> list[torch.Tensor]:
    """Ones; or those of a loss with a target of the worker's own."""
    return [(tensor - worker) / 3 if curved else torch.ones_like(tensor) for tensor in parameters]


def train(
    comm: Communicator,
    steps: int = 6,
    servers: int = 1,
    replicas: Mapping[int, int] | None = None,
    late: Mapping[int, float] | None = None,
    curved: bool = False,
    optimizer: Any = SGD,
    **options: Any,
) -> tuple[ServerLog | None, list[torch.Tensor]]:
    """The first ranks serve, the next ones are their replicas, the others work. `late`: worker → when it begins."""
    replicas, late = replicas or {}, late or {}
    parameters = start()
    shards = shard_parameters(parameters, servers)
    workers = range(servers + len(replicas), comm.world_size)
    expected = [worker for worker in workers if worker not in late]
    if comm.rank < workers[0]:
        primary = next((one for one, other in replicas.items() if other == comm.rank), None)
        shard = shards[comm.rank if primary is None else primary]
        flat = flatten(parameters, shard)
        if primary is not None:
            log = replica_loop(comm, primary, expected, flat, optimizer, **options)
        else:
            keep = keep_on_replica(comm, replicas[comm.rank]) if comm.rank in replicas else None
            log = server_loop(comm, expected, flat, optimizer, **{"keep": keep, **options})
        unflatten(flat, parameters, shard)
        return log, parameters
    comm.sleep(late.get(comm.rank, 0.0))

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        comm.sleep(SECONDS)
        return gradients(parameters, comm.rank - workers[0], curved), 10

    worker_loop(ParameterClient(comm, range(servers), parameters, shards, replicas), compute, steps)
    return None, parameters


def simulated(ranks: int, deaths: Mapping[int, float] | None = None, **options: Any) -> list[Any]:
    return SimulatedWorld(ranks, Cluster.flat(ranks, LINK), deaths=deaths).run(train, **options)


# Workers


@pytest.mark.parametrize("bound", [SYNCHRONOUS, 2, ASYNCHRONOUS])
def test_the_others_go_on_without_a_worker_that_dies(bound: float) -> None:
    results = simulated(4, {2: 2.5 * SECONDS}, bound=bound)
    log, parameters = results[0]
    assert isinstance(results[2], PeerLost)
    assert [worker for worker, _ in log.lost] == [2]
    assert log.lost[0][1] == pytest.approx(2.5 * SECONDS)
    assert Counter(each.worker for each in log.contributions) == {1: 6, 2: 2, 3: 6}
    moved = len(log.contributions) / 3  # every gradient counts a third, also after the death
    torch.testing.assert_close(parameters, [tensor - moved for tensor in start()])


def test_a_synchronous_step_after_a_death_takes_no_longer() -> None:
    log = simulated(4, {2: 2.5 * SECONDS})[0][0]
    assert [len(update.contributions) for update in log.updates] == [3, 3, 2, 2, 2, 2]
    assert log.updates[-1].time < 6 * SECONDS * 1.2


def test_a_death_repeats_to_the_bit() -> None:
    first, second = (simulated(4, {2: 2.5 * SECONDS}, curved=True, bound=ASYNCHRONOUS) for _ in range(2))
    assert first[0][0] == second[0][0]
    assert all(torch.equal(one, other) for one, other in zip(first[0][1], second[0][1], strict=True))


def test_a_server_may_stop_when_a_worker_dies() -> None:
    with pytest.raises(RankError, match="rank 2 has died"):
        simulated(4, {2: 2.5 * SECONDS}, stop_on_loss=True)


def test_the_last_worker_dies() -> None:
    log = simulated(2, {1: 2.5 * SECONDS})[0][0]
    assert len(log.updates) == 2 and [worker for worker, _ in log.lost] == [1]


def test_a_backup_worker_dies() -> None:
    results = simulated(4, {3: 2.5 * SECONDS}, backups=1)
    assert Counter(each.worker for each in results[0][0].contributions)[1] == 6


def test_a_worker_joins_with_its_first_pull() -> None:
    log, _ = simulated(4, late={3: 2.5 * SECONDS})[0]
    assert [worker for worker, _ in log.joined] == [3]
    assert [len(update.contributions) for update in log.updates] == [2, 2, 3, 3, 3, 3, 1, 1]
    own = [each for each in log.contributions if each.worker == 3]
    assert [each.clock for each in own] == [3, 4, 5, 6, 7, 8] and {each.staleness for each in own} == {0}


def test_a_schedule_goes_by_samples() -> None:
    """The rate is halved after 60 samples, whether three workers bring them or two."""
    for deaths in (None, {2: 2.5 * SECONDS}):
        log, parameters = simulated(4, deaths, schedule=lambda samples: 0.5 if samples >= 60 else 1.0)[0]
        before = done = 0.0
        for update in log.updates:
            done += len(update.contributions) / 3 * (0.5 if before >= 60 else 1.0)
            before += 10 * len(update.contributions)
        assert log.samples == before
        torch.testing.assert_close(parameters, [tensor - done for tensor in start()])


def test_a_gradient_of_a_rank_that_does_not_take_part_is_refused() -> None:
    def returns(comm: Communicator) -> ServerLog | None:
        parameters = start()
        shards = shard_parameters(parameters, 1)
        if comm.rank == 0:
            return server_loop(comm, [1, 2], flatten(parameters, shards[0]), SGD, bound=ASYNCHRONOUS)
        client = ParameterClient(comm, [0], parameters, shards)
        if comm.rank == 1:
            client.leave()
            client.push(gradients(parameters, 1, False), 10)  # it has left
            client.pull()  # it is back
            client.push(gradients(parameters, 1, False), 10)
            client.leave()
        else:
            comm.sleep(1.0)
            client.leave()
        return None

    log = SimulatedWorld(3).run(returns)[0]
    assert [(each.worker, each.reason) for each in log.refused] == [(1, "not a member")]
    assert [worker for worker, _ in log.joined] == [1] and len(log.contributions) == 1


# Servers


def test_without_a_server_there_is_nothing() -> None:
    with pytest.raises(RankError, match="rank 0 has died"):
        simulated(4, {0: 2.5 * SECONDS})


def test_a_restart_from_a_checkpoint_goes_on_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "server.pt"
    with pytest.raises(RankError):
        simulated(3, {0: 3.5 * SECONDS}, curved=True, optimizer=MOMENTUM, keep=keep_in_file(path))
    saved = read_checkpoint(path)
    assert (saved.version, saved.samples, saved.workers) == (3, 60, (1, 2))
    log, parameters = simulated(3, steps=3, curved=True, optimizer=MOMENTUM, start=saved)[0]
    assert log.samples == 120
    _, wanted = simulated(3, curved=True, optimizer=MOMENTUM)[0]
    assert all(torch.equal(one, other) for one, other in zip(parameters, wanted, strict=True))
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_written_after_every_few_updates(tmp_path: Path) -> None:
    written: list[int] = []
    keep = keep_in_file(tmp_path / "server.pt", every=4)
    for version in range(1, 10):
        keep(Checkpoint(version, 0, (1,), torch.zeros(2), {}))
        if (tmp_path / "server.pt").exists():
            written.append(read_checkpoint(tmp_path / "server.pt").version)
    assert written == [4, 4, 4, 4, 8, 8]
    with pytest.raises(ValueError, match="expected an integer of at least 1 as every, got every=0"):
        keep_in_file(tmp_path / "server.pt", every=0)
    with pytest.raises(FileNotFoundError):
        read_checkpoint(tmp_path / "nothing.pt")


def test_a_replica_ends_with_the_primarys_parameters() -> None:
    results = simulated(5, replicas={0: 1}, curved=True, optimizer=MOMENTUM)
    assert results[1][0] is None
    for one, other in zip(results[0][1], results[1][1], strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("bound", [SYNCHRONOUS, 2, ASYNCHRONOUS])
@pytest.mark.parametrize("death", [0.3 * SECONDS, 2.001 * SECONDS, 2.03 * SECONDS, 2.5 * SECONDS, 5.9 * SECONDS])
def test_a_replica_takes_over(bound: float, death: float) -> None:
    """Whenever the primary dies: every gradient is applied at most once, and at most one of each worker is lost."""
    results = simulated(5, {0: death}, replicas={0: 1}, bound=bound)
    log, parameters = results[1]
    assert isinstance(results[0], PeerLost)
    assert 18 - 3 <= log.samples / 10 <= 18
    torch.testing.assert_close(parameters, [tensor - log.samples / 10 / 3 for tensor in start()])
    for _, other in results[2:]:
        assert all(tensor.isfinite().all() for tensor in other)


def test_one_of_two_servers_dies_and_has_a_replica() -> None:
    results = simulated(6, {1: 2.5 * SECONDS}, servers=2, replicas={0: 2, 1: 3}, bound=ASYNCHRONOUS)
    assert len(results[0][0].contributions) == 12 and results[2][0] is None
    assert 12 - 2 <= results[3][0].samples / 10 <= 12


def test_a_primary_goes_on_without_its_replica() -> None:
    results = simulated(5, {1: 2.5 * SECONDS}, replicas={0: 1})
    log, _ = results[0]
    assert len(log.contributions) == 18 and log.lost == []


def test_a_worker_and_the_primary_die() -> None:
    results = simulated(5, {2: 1.5 * SECONDS, 0: 3.5 * SECONDS}, replicas={0: 1}, bound=ASYNCHRONOUS)
    log, _ = results[1]
    assert 13 - 2 <= log.samples / 10 <= 13 and math.isfinite(log.updates[-1].time)


# Real processes


def killed_half_way(comm: Communicator) -> ServerLog | None:
    """Rank 0 serves; rank 2 is killed before its fourth gradient."""
    parameters = start()
    shards = shard_parameters(parameters, 1)
    if comm.rank == 0:
        return server_loop(comm, (1, 2), flatten(parameters, shards[0]), SGD, bound=ASYNCHRONOUS)

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        if comm.rank == 2 and step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return gradients(parameters, comm.rank, False), 10

    worker_loop(ParameterClient(comm, [0], parameters, shards), compute, 6)
    return None


def test_training_goes_on_when_a_real_worker_is_killed() -> None:
    with World(3, deaths={}) as world:
        results = world.run(killed_half_way)
    log = results[0]
    assert isinstance(results[2], PeerLost) and [worker for worker, _ in log.lost] == [2]
    assert Counter(each.worker for each in log.contributions) == {1: 6, 2: 3}
