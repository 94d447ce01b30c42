"""All-reduces of many sizes by torch.distributed, in the convention of NCCL's benchmarks.

    algorithm bandwidth   S / T                     bytes of the tensor per second: what a program notices
    bus bandwidth         S / T · 2(N−1)/N          bytes that each rank sends per second: what a link notices

No algorithm can send less than 2(N−1)/N · S from each rank, on average over the ranks. So the second number can be held
against the speed of the link, for any number of ranks; the first can't. (nccl-tests, doc/PERFORMANCE.md.)

A ring takes T = 2(N−1) · (α + S/(N·B)). `fit_ring` finds α and B from measured times: for a `Link`, and so for a
`SimulatedWorld`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.arguments import check_integer
from distlib.communicator import Communicator
from distlib.gpus.call_times import wait_for
from distlib.network import Link
from distlib.torch_backend.enter import torch_distributed
from distlib.worlds.calibration import fit_link
from distlib.worlds.real.world import World

SIZES = tuple(1 << power for power in range(12, 27, 2))
"""4 KiB to 64 MiB, in bytes."""


@dataclass(frozen=True)
class MeasuredAllReduce:
    """One all-reduce.

    Attributes:
        ranks: how many took part.
        nbytes: size of the tensor in bytes.
        seconds: of the slowest rank, the median of several runs.
    """

    ranks: int
    nbytes: int
    seconds: float

    @property
    def algorithm_bandwidth(self) -> float:
        """Bytes of the tensor per second ("algbw")."""
        return self.nbytes / self.seconds

    @property
    def bus_bandwidth(self) -> float:
        """Bytes per second that each rank sends, if it sends as few as possible ("busbw")."""
        return self.algorithm_bandwidth * sent_at_least(self.ranks)

    def __str__(self) -> str:
        rates = (rate / 1e9 for rate in (self.algorithm_bandwidth, self.bus_bandwidth))
        return f"{self.nbytes:>12,} B {self.seconds * 1e6:>12,.1f} µs {next(rates):>10.3f} {next(rates):>10.3f} GB/s"


HEADER = f"{'size':>14} {'time':>15} {'algbw':>10} {'busbw':>10}"
"""Above lines of `MeasuredAllReduce`."""


def sent_at_least(ranks: int) -> float:
    """Bytes that each rank sends in an all-reduce, per byte of the tensor: 2(N−1)/N."""
    return 2 * (ranks - 1) / ranks


def sweep_all_reduce(world: World, sizes: Sequence[int] = SIZES, repeats: int = 5) -> list[MeasuredAllReduce]:
    """Time torch's own all-reduce of float32, on the ranks of a world: gloo, or NCCL where each has its GPU.

    Args:
        sizes: of the tensor in bytes, multiples of 4.
        repeats: how often each is run after a first time that does not count.

    Raises:
        ValueError: a size below 4, or fewer than 1 repeat.
    """
    check_integer("sweep_all_reduce", "repeats", repeats, 1)
    for index, size in enumerate(sizes):
        check_integer("sweep_all_reduce", f"sizes[{index}]", size, 4)
    by_rank = world.run(_time_all, tuple(sizes), repeats)
    slowest = [max(times) for times in zip(*by_rank, strict=True)]
    return [MeasuredAllReduce(world.world_size, size, seconds) for size, seconds in zip(sizes, slowest, strict=True)]


def fit_ring(sweep: Sequence[MeasuredAllReduce]) -> Link:
    """The link for which T = 2(N−1) · (α + S/(N·B)) is nearest to what was measured, in relative errors.

    Raises:
        ValueError: a single rank, or larger tensors did not take longer.
    """
    steps = [2 * (each.ranks - 1) for each in sweep]
    if not all(steps):
        raise ValueError("expected all-reduces of at least 2 ranks, got one of a single rank, which sends nothing")
    chunks = [max(1, each.nbytes // each.ranks) for each in sweep]
    return fit_link(chunks, [each.seconds / count for each, count in zip(sweep, steps, strict=True)])


def _time_all(comm: Communicator, sizes: tuple[int, ...], repeats: int) -> list[float]:
    with torch_distributed(comm, "gloo") as dist:
        return [_median_seconds(comm, dist.all_reduce, size, repeats) for size in sizes]


def _median_seconds(comm: Communicator, all_reduce: Any, size: int, repeats: int) -> float:
    tensor = torch.zeros(size // 4, device=comm.device)
    all_reduce(tensor)  # the first one connects, and reserves memory
    seconds = []
    for _ in range(repeats):
        comm.barrier()
        wait_for(comm.device)
        start = comm.time()
        all_reduce(tensor)
        wait_for(comm.device)
        seconds.append(comm.time() - start)
    return statistics.median(seconds)
