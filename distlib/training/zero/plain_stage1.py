"""ZeRO stage 1 to read first: every rank has all weights, and optimizer states for its own shard of them only.

    backward         every rank: the gradients of its own batch
    reduce-scatter   rank r: the average of shard r, over all ranks
    optimizer.step   rank r: the new values of shard r
    all-gather       every rank: the new values of all shards

    optimizer = PlainShardedOptimizer(comm, model, torch.optim.AdamW, lr=1e-3)
    for images, labels in batches:                          # each rank its own
        model.zero_grad()
        loss_function(model(images), labels).backward()
        optimizer.step()                                    # the only line that sends

The two collectives send as many bytes as the one all-reduce of data parallel training, which is made of the same two.

What `ShardedOptimizer` (in `sharded_optimizer`) adds: a buffer for each part of the model, parameters that are frozen,
other dtypes, clipping, checkpoints, an optimizer that schedules take; it refuses an optimizer that can't be cut, models
that differ, a gradient that is missing.

Source: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from distlib.collectives import all_gather, broadcast, reduce_scatter
from distlib.communicator import Communicator, ReduceOp


class PlainShardedOptimizer:
    """Trains a model with an optimizer of torch that sees this rank's shard, and nothing else.

    Args:
        comm: of this rank.
        module: the same model on every rank; its weights become rank 0's. All are trained, and have one dtype.
        optimizer_class: of torch.optim, one that works element by element: SGD, Adam, AdamW, …
        options: of the optimizer, such as lr=1e-3.
    """

    def __init__(
        self, comm: Communicator, module: nn.Module, optimizer_class: type[torch.optim.Optimizer], **options: Any
    ) -> None:
        self.comm, self.parameters = comm, list(module.parameters())
        self.weights = self._flat(self.parameters)  # all of the model's, one after another
        broadcast(comm, self.weights)
        vector_to_parameters(self.weights, self.parameters)  # each parameter is a piece of `weights` from now on
        self.shard = nn.Parameter(self._own(self.weights))  # and so is the shard: who changes it changes the model
        self.optimizer = optimizer_class([self.shard], **options)

    def step(self) -> None:
        """Average the gradients of all ranks, update the own shard, and gather the shards of the others."""
        gradients = self._flat(parameter.grad for parameter in self.parameters)  # type: ignore[misc]
        reduce_scatter(self.comm, gradients, ReduceOp.AVG)
        self.shard.grad = self._own(gradients)
        self.optimizer.step()
        all_gather(self.comm, self.weights)

    def _flat(self, tensors: Iterable[torch.Tensor]) -> torch.Tensor:
        """One long tensor of them all, with zeros at the end so that the ranks divide it."""
        flat = parameters_to_vector(tensors).detach()
        return pad(flat, (0, -len(flat) % self.comm.world_size))

    def _own(self, flat: torch.Tensor) -> torch.Tensor:
        """This rank's shard of a long tensor: a view, not a copy."""
        return flat.chunk(self.comm.world_size)[self.comm.rank]
