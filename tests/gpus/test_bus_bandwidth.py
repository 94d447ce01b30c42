"""Bandwidths as nccl-tests counts them, and the link that a sweep amounts to."""

from __future__ import annotations

import pytest
import torch

from distlib import Cluster, Link, SimulatedWorld, World, all_reduce
from distlib.communicator import Communicator
from distlib.gpus.bus_bandwidth import MeasuredAllReduce, fit_ring, sent_at_least, sweep_all_reduce

LINK = Link(latency=5e-6, bandwidth=20e9)


def ring(comm: Communicator, length: int) -> None:
    all_reduce(comm, torch.ones(length), algorithm="ring")


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_the_factor_is_what_a_ring_sends(ranks: int) -> None:
    world = SimulatedWorld(ranks, Cluster.flat(ranks, LINK))
    world.run(ring, 24 * ranks)
    assert world.trace.bytes_sent == [sent_at_least(ranks) * 24 * ranks * 4] * ranks


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_bus_bandwidth_of_a_large_ring_is_the_links(ranks: int) -> None:
    world = SimulatedWorld(ranks, Cluster.flat(ranks, LINK))
    world.run(ring, 4 << 20)
    measured = MeasuredAllReduce(ranks, 16 << 20, world.elapsed)
    assert measured.bus_bandwidth == pytest.approx(LINK.bandwidth, rel=0.05)
    assert measured.algorithm_bandwidth == pytest.approx(measured.bus_bandwidth * ranks / (2 * (ranks - 1)))


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_fit_finds_the_link_of_a_simulated_ring(ranks: int) -> None:
    sweep = []
    for power in range(12, 25, 3):
        world = SimulatedWorld(ranks, Cluster.flat(ranks, LINK))
        world.run(ring, (1 << power) // 4)
        sweep.append(MeasuredAllReduce(ranks, 1 << power, world.elapsed))
    found = fit_ring(sweep)
    assert found.latency == pytest.approx(LINK.latency, rel=1e-6)
    assert found.bandwidth == pytest.approx(LINK.bandwidth, rel=1e-6)


def test_a_sweep_of_real_ranks_has_a_time_for_each_size() -> None:
    with World(2) as world:
        sweep = sweep_all_reduce(world, (4096, 65536), repeats=2)
    assert [(each.ranks, each.nbytes) for each in sweep] == [(2, 4096), (2, 65536)]
    assert all(each.seconds > 0 for each in sweep)


def test_one_rank_sends_nothing_that_could_be_fitted() -> None:
    with pytest.raises(ValueError, match="at least 2 ranks"):
        fit_ring([MeasuredAllReduce(1, 4096, 1e-3), MeasuredAllReduce(1, 8192, 2e-3)])


@pytest.mark.parametrize(("sizes", "repeats", "said"), [((2,), 1, r"sizes\[0\]"), ((4096,), 0, "repeats")])
def test_a_wrong_argument_is_named(sizes: tuple[int, ...], repeats: int, said: str) -> None:
    with World(2) as world, pytest.raises(ValueError, match=said):
        sweep_all_reduce(world, sizes, repeats)
