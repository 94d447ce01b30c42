"""How fast the links of a world really are, and how well the model of `network` fits it.

    cluster = calibrate(world)             measure exchanges of several sizes, fit α and B
    compare(world, cluster, "ring")        predicted and measured seconds of real all-reduces

It measures steps of a ring: all ranks exchange with both neighbors at the same time, and in every second step
they add the data that has arrived. So α and B are those of a busy link, and half of an addition is in 1/B. The line
t = α + m/B is fitted with the least relative errors: a microsecond counts for a small message and not for a large one.

The errors show what the model leaves out: caches, other programs, several ranks on one core, messages in one
direction only, for which a link may be faster. (The two-parameter fit, and its limits: R. W. Hockney, "The
communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20(3), 1994.)
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch

from distlib.arguments import check_integer, check_type, described
from distlib.collectives import all_reduce
from distlib.communicator import Communicator
from distlib.network import Cluster, Link, all_reduce_seconds

_SIZES = tuple(1 << power for power in range(12, 25, 2))  # 4 KB to 16 MB
_COMPARED = tuple(1 << power for power in range(16, 27, 2))  # 64 KB to 64 MB


class _CanRun(Protocol):
    """A World or a SimulatedWorld."""

    world_size: int

    def run(self, fn: Callable[..., Any], /, *args: Any, timeout: float | None = None, **kwargs: Any) -> list[Any]: ...


@dataclass(frozen=True)
class Comparison:
    """One all-reduce, predicted and measured.

    Attributes:
        nbytes: size of the tensor in bytes.
        predicted: seconds by the model.
        measured: seconds, the median of several runs; the slowest rank counts.
    """

    nbytes: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """How far the prediction is off, as a fraction of what was measured."""
        return abs(self.predicted - self.measured) / self.measured


def calibrate(world: _CanRun, sizes: Sequence[int] = _SIZES, repeats: int = 7) -> Cluster:
    """Measure latency and bandwidth between neighboring ranks, in steps of a ring.

    Args:
        world: a World or a SimulatedWorld of at least 2 ranks.
        sizes: of the messages, in bytes, multiples of 4; at least two different ones.
        repeats: how often each is sent; the median counts.

    Returns:
        One node whose ranks all have the measured link: for `choose_all_reduce`, `duration`, or a SimulatedWorld.

    Raises:
        ValueError: fewer than 2 ranks, fewer than 2 sizes, or sizes whose messages all took about as long.
    """
    _check_world("calibrate", world)
    check_integer("calibrate", "repeats", repeats, 1)
    _check_sizes("calibrate", sizes)
    if world.world_size < 2 or len(set(sizes)) < 2:
        raise ValueError(
            f"expected at least 2 ranks and 2 sizes to measure, got world_size={world.world_size}, sizes={tuple(sizes)}"
        )
    by_rank = world.run(_time_steps, tuple(sizes), repeats)
    seconds = [statistics.median(times) for times in zip(*by_rank, strict=True)]
    return Cluster.flat(world.world_size, fit_link(sizes, seconds))


def compare(
    world: _CanRun,
    cluster: Cluster,
    algorithm: str = "ring",
    sizes: Sequence[int] = _COMPARED,
    repeats: int = 5,
) -> list[Comparison]:
    """Run an all-reduce of float32 at several sizes, and compare its time with what the model predicts for `cluster`.

    Raises:
        ValueError: an unknown algorithm, or a cluster with a different number of ranks.
    """
    _check_world("compare", world)
    check_integer("compare", "repeats", repeats, 1)
    _check_sizes("compare", sizes)
    check_type("compare", "cluster", cluster, Cluster, "that of calibrate(world)")
    if cluster.world_size != world.world_size:
        raise ValueError(f"expected a cluster of {world.world_size} ranks, got one of {cluster.world_size}")
    predicted = [all_reduce_seconds(algorithm, cluster, size // 4, 4) for size in sizes]
    by_rank = world.run(_time_all_reduces, algorithm, tuple(sizes), repeats)
    measured = [max(times) for times in zip(*by_rank, strict=True)]
    return [Comparison(*values) for values in zip(sizes, predicted, measured, strict=True)]


def fit_link(sizes: Sequence[int], seconds: Sequence[float]) -> Link:
    """The link for which α + m/B is nearest to the measured `seconds`, in the squares of the relative errors.

    Raises:
        ValueError: larger messages did not take longer, so that nothing shows the bandwidth.
    """
    measured = torch.tensor(seconds, dtype=torch.float64)
    rows = torch.stack([1 / measured, torch.tensor(sizes, dtype=torch.float64) / measured], dim=1)
    latency, per_byte = (
        torch.linalg.lstsq(rows, torch.ones(len(sizes), 1, dtype=torch.float64)).solution.flatten().tolist()
    )
    if per_byte <= 0:
        taken = ", ".join(f"{size:,} bytes in {time * 1e6:,.1f} µs" for size, time in zip(sizes, seconds, strict=True))
        raise ValueError(
            f"expected larger messages to take longer, got {taken}. Measure larger sizes, or repeat more often"
        )
    if latency < 0:  # the line would begin below 0: all of the time is bandwidth
        latency, per_byte = 0.0, float((rows[:, 1] ** 2).sum() ** -1 * rows[:, 1].sum())
    return Link(latency, 1 / per_byte)


def _check_world(who: str, world: object) -> None:
    if not (hasattr(world, "run") and hasattr(world, "world_size")) or isinstance(world, type):
        raise TypeError(f"{who} expected a world, such as World(4), got {described(world)}")


def _check_sizes(who: str, sizes: object) -> None:
    if not isinstance(sizes, Sequence) or isinstance(sizes, str):
        raise TypeError(f"{who} expected a list of sizes in bytes, got {described(sizes)}")
    for index, size in enumerate(sizes):
        check_integer(who, f"sizes[{index}]", size, 4)


def _time_steps(comm: Communicator, sizes: tuple[int, ...], repeats: int) -> list[float]:
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size

    def two_steps(size: int) -> Callable[[], None]:
        outgoing = torch.zeros(size // 4, device=comm.device)
        incoming, sums = torch.empty_like(outgoing), torch.zeros_like(outgoing)

        def run() -> None:
            comm.exchange(outgoing, next_rank, incoming, previous_rank)
            sums.add_(incoming)
            comm.exchange(outgoing, next_rank, incoming, previous_rank)

        return run

    return [_median_seconds(comm, two_steps(size), repeats) / 2 for size in sizes]


def _time_all_reduces(comm: Communicator, algorithm: str, sizes: tuple[int, ...], repeats: int) -> list[float]:
    def run(size: int) -> Callable[[], object]:
        tensor = torch.zeros(size // 4, device=comm.device)
        return partial(all_reduce, comm, tensor, algorithm=algorithm)

    return [_median_seconds(comm, run(size), repeats) for size in sizes]


def _median_seconds(comm: Communicator, call: Callable[[], object], repeats: int) -> float:
    call()  # the first one touches memory for the first time
    seconds = []
    for _ in range(repeats):
        comm.barrier()
        start = comm.time()
        call()
        seconds.append(comm.time() - start)
    return statistics.median(seconds)
