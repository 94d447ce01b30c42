"""A training by any of the ways: the same loop around all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from distlib.arguments import check_integer
from distlib.capstone.ways.alone import alone
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.way_on_rank import WayOnRank, Weights, sum_of_shares
from distlib.capstone.ways.with_ddp import with_ddp
from distlib.capstone.ways.with_gossip import with_gossip
from distlib.capstone.ways.with_local_sgd import with_local_sgd
from distlib.capstone.ways.with_mesh import with_mesh
from distlib.capstone.ways.with_parameter_server import with_parameter_server
from distlib.capstone.ways.with_pipeline import with_pipeline
from distlib.capstone.ways.with_tensor_parallel import with_tensor_parallel
from distlib.capstone.ways.with_zero import with_zero
from distlib.communicator import Communicator

WAYS: dict[str, Callable[..., WayOnRank]] = {
    "alone": alone,
    "ddp": with_ddp,
    "local_sgd": with_local_sgd,
    "parameter_server": with_parameter_server,
    "gossip": with_gossip,
    "pipeline": with_pipeline,
    "tensor_parallel": with_tensor_parallel,
    "zero": with_zero,
    "mesh": with_mesh,
}
"""The nine ways, by name: each takes the communicator, the plan, and options of its own."""


@dataclass(frozen=True)
class TrainedModel:
    """What comes out of a training, on each rank.

    Attributes:
        losses: of each step, in nats; the same on every rank.
        weights: of the whole model, the same on every rank, in the main memory.
        kept: the bytes that this rank keeps between two steps, by kind: see `WayOnRank.kept_bytes`.
    """

    losses: list[float]
    weights: Weights
    kept: dict[str, int]


def train_by(comm: Communicator, way: str, plan: CapstonePlan, steps: int, **options: Any) -> TrainedModel:
    """Train on all ranks. In a SimulatedWorld it takes contexts="threads".

    Args:
        way: one of `WAYS`.
        steps: how many, at least 1.
        options: of the way, such as round_steps=8.

    Raises:
        ValueError: an unknown way, no step, or ranks that the way can't use.
    """
    check_integer("train_by", "steps", steps, 1)
    mine = way_named(way)(comm, plan, **options)
    shares = mine.train(range(steps))
    weights = {name: each.cpu() for name, each in mine.whole().items()}
    return TrainedModel(sum_of_shares(comm, shares), weights, mine.kept_bytes())


def way_named(name: str) -> Callable[..., WayOnRank]:
    """A way by its name. Raises ValueError for a name that none has."""
    if name not in WAYS:
        raise ValueError(f"expected one of the ways {', '.join(WAYS)}, got {name!r}")
    return WAYS[name]
