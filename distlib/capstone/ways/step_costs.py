"""What a step of a training costs by each way, in virtual time: messages, bytes, memory, seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from distlib import Cluster, SimulatedWorld
from distlib.arguments import check_integer
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.train_by import way_named
from distlib.communicator import Communicator


@dataclass(frozen=True)
class StepCosts:
    """What one step costs.

    Attributes:
        messages: of all ranks together.
        nbytes: sent, of all ranks together.
        most_sent: the bytes of the rank that sends most.
        kept: on the rank that keeps most between two steps, its bytes by kind.
        seconds: of virtual time.
    """

    messages: float
    nbytes: float
    most_sent: float
    kept: dict[str, int]
    seconds: float


def step_costs(way: str, plan: CapstonePlan, cluster: Cluster, period: int = 1, **options: Any) -> StepCosts:
    """Train on simulated ranks, and say what a step costs when the first ones are over.

    What the beginning costs is not in it: a run of 2·period steps is compared with one of half as many.

    Args:
        way: its name.
        plan: with a speed, if computing is to take time.
        cluster: as many ranks as it has.
        period: after how many steps everything repeats: H for local steps, 1 for all others.
        options: of the way.

    Raises:
        ValueError: a period below 1.
        RankError: what a way raises on a rank.
    """
    check_integer("step_costs", "period", period, 1)
    world = SimulatedWorld(cluster.world_size, cluster, record=False, contexts="threads")
    runs = []
    for steps in (period, 2 * period):
        kept = world.run(_some_steps, way, plan, steps, **options)
        runs.append((len(world.trace), world.trace.bytes_sent, world.elapsed))
    (messages, sent, seconds), (messages_later, sent_later, seconds_later) = runs
    by_rank = [(later - before) / period for before, later in zip(sent, sent_later, strict=True)]
    return StepCosts(
        (messages_later - messages) / period,
        sum(by_rank),
        max(by_rank),
        max(kept, key=lambda by_kind: sum(by_kind.values())),
        (seconds_later - seconds) / period,
    )


def _some_steps(comm: Communicator, way: str, plan: CapstonePlan, steps: int, **options: Any) -> dict[str, int]:
    """The bytes that this rank keeps after some steps, by kind."""
    mine = way_named(way)(comm, plan, **options)
    mine.train(range(steps))
    return mine.kept_bytes()
