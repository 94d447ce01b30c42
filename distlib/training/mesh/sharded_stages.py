"""ZeRO stage 3 along dp for the stages of a pipeline, with the methods of `ShardedOptimizer`.

forward of a microbatch     gather a layer ──► compute ──► free it
backward                    gather it again ──► compute ──► average its gradients ──► free it

A pipeline runs many microbatches through a stage before the optimizer steps, and each of them gathers every layer anew:
what stage 3 sends, it sends m times.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import torch

from distlib.training.zero import FullyShardedModule
from distlib.training.zero.shard_unit import Unit


class ShardedStages:
    """The optimizer of stages that are `FullyShardedModule`s. Their backward passes have averaged the gradients.

    Args:
        stages: by number, those of this rank.
        optimizer_class: of torch.optim.
        defaults: of the optimizer, such as lr=1e-3.

    Attributes:
        optimizer: the torch optimizer of this rank's shards.
        units: of all stages.
    """

    def __init__(
        self,
        stages: Mapping[int, FullyShardedModule],
        optimizer_class: type[torch.optim.Optimizer],
        **defaults: Any,
    ) -> None:
        self.units: list[Unit] = [unit for stage in stages.values() for unit in stage.units]
        self.optimizer = optimizer_class(chain.from_iterable(each.parameters() for each in stages.values()), **defaults)

    def average_gradients(self) -> None:
        """Nothing is left to do."""

    def step(self) -> None:
        """Update this rank's shards. They are gathered when a layer is about to compute."""
        self.optimizer.step()

    def zero_grad(self) -> None:
        """Drop the gradients of this rank's shards."""
        self.optimizer.zero_grad()
