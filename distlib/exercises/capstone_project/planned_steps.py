"""Steps of the project before and after the run: what a plan costs, by simulating it, and what usual mistakes predict.

    a step    every rank computes for its share ─► reduce-scatter round the ring ─► own part of the optimizer
              ─► all-gather round the ring

The optimizer's arithmetic takes no virtual time. Of 3 ranks with shares 4, 4, 2 the step waits for the slowest.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw
from distlib.collectives import ring_all_gather, ring_reduce_scatter
from distlib.communicator import Communicator
from distlib.network import Cluster, Link
from distlib.partition import chunk_lengths
from distlib.worlds.simulated.simulator import SimulatedWorld

say = Sentences(__file__)

NUMBER = 8  # bytes


@dataclass(frozen=True)
class PlannedStep:
    """A step that is to be predicted.

    Attributes:
        numbers: of the weights.
        seconds_per_sample: on a rank that is not slow.
        cluster: with its slow ranks.
        shares: by rank, how many samples of the batch.
    """

    numbers: int
    seconds_per_sample: float
    cluster: Cluster
    shares: tuple[int, ...]

    @classmethod
    def drawn(cls, draw: Draw) -> PlannedStep:
        """Any cluster of 2 to 8 ranks."""
        nodes, ranks = draw.choice([(1, 2), (1, 3), (2, 2), (1, 5), (3, 2), (2, 4)])
        intra, inter = (Link(draw.uniform(1e-4, 1e-3) * k, draw.uniform(1e6, 1e8) / k) for k in (1, draw.randint(1, 9)))
        size = nodes * ranks
        slow = {draw.randrange(size): draw.choice([2.0, 3.0, 6.0])} if draw.random() < 0.6 else {}
        shares = tuple(draw.randint(0, 20) for _ in range(size))
        return cls(
            draw.randint(200, 5_000),
            draw.uniform(1e-4, 4e-3),
            Cluster(nodes, ranks, intra, inter, stragglers=slow),
            shares,
        )


def bytes_between(plan: PlannedStep) -> list[int]:
    """By rank, what it holds between two steps: all weights, and two states for each number of its own part."""
    parts = chunk_lengths(plan.numbers, len(plan.shares))
    return [NUMBER * (plan.numbers + 2 * part) for part in parts]


def simulated_seconds(plan: PlannedStep) -> float:
    """The virtual time of a step."""
    world = SimulatedWorld(len(plan.shares), plan.cluster)
    world.run(_step, plan)
    return world.elapsed


def _step(comm: Communicator, plan: PlannedStep) -> None:
    numbers = torch.zeros(plan.numbers, dtype=torch.float64)
    comm.sleep(plan.shares[comm.rank] * plan.seconds_per_sample)
    ring_reduce_scatter(comm, numbers)
    ring_all_gather(comm, numbers)


def wrong_seconds(plan: PlannedStep) -> dict[str, float]:
    """What usual mistakes predict, by the sentence about it."""
    size, cluster, each = len(plan.shares), plan.cluster, plan.seconds_per_sample
    slow = [share * each * cluster.stragglers.get(rank, 1.0) for rank, share in enumerate(plan.shares)]
    chunk = NUMBER * plan.numbers / size
    links = [cluster.link(rank, (rank + 1) % size) for rank in range(size)] if size > 1 else []
    ring = 2 * (size - 1) * max((link.seconds(chunk) for link in links), default=0.0)
    fast = 2 * (size - 1) * min((link.seconds(chunk) for link in links), default=0.0)
    whole = 2 * (size - 1) * max((link.seconds(chunk * size) for link in links), default=0.0)
    return {
        say("no_stragglers"): max(plan.shares) * each + ring,
        say("mean_of_ranks"): sum(slow) / size + ring,
        say("sum_of_ranks"): sum(slow) + ring,
        say("only_computing"): max(slow),
        say("only_messages"): ring,
        say("once_round"): max(slow) + ring / 2,
        say("whole_messages"): max(slow) + whole,
        **({say("one_link"): max(slow) + 2 * (size - 1) * cluster.intra.seconds(chunk)} if cluster.nodes > 1 else {}),
        say("fast_link"): max(slow) + fast,
    }
