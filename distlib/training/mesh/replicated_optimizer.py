"""The plain way along dp: every replica has all states of the optimizer, and takes the same step.

    backward        every replica: the gradients of its own part of the batch
    all-reduce      all gradients of a rank in one flat buffer, averaged over the replicas      2(N−1)/N of it sent
    optimizer.step  the same on every replica

It has the methods of `zero.ShardedOptimizer`, whose stage 1 sends as many bytes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from distlib.arguments import checked
from distlib.collectives import all_reduce
from distlib.communicator import Communicator, ReduceOp


class ReplicatedOptimizer:
    """An optimizer of torch, and the average over the replicas before each of its steps.

    Args:
        comm: the ranks that have the same parameters, with the same values.
        module: whose parameters are trained; all of one dtype.
        optimizer_class: of torch.optim.
        defaults: of the optimizer, such as lr=1e-3.

    Attributes:
        parameters: those that are trained, each once.
        optimizer: the torch optimizer.

    Raises:
        ValueError: nothing to train.
    """

    @checked
    def __init__(
        self, comm: Communicator, module: nn.Module, optimizer_class: type[torch.optim.Optimizer], **defaults: Any
    ) -> None:
        self.comm = comm
        self.parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise ValueError("expected a module with parameters to train, got one without, or with frozen ones only")
        self.optimizer = optimizer_class(self.parameters, **defaults)

    @torch.no_grad()
    def average_gradients(self) -> None:
        """Average the gradients over the replicas, in place. A parameter without a gradient counts as zeros."""
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        all_reduce(self.comm, flat, ReduceOp.AVG)
        for gradient, average in zip(gradients, flat.split([each.numel() for each in gradients]), strict=True):
            gradient.copy_(average.view_as(gradient))

    def step(self) -> None:
        """Update the parameters; the gradients have been averaged."""
        self.optimizer.step()

    def zero_grad(self) -> None:
        """Drop the gradients of all parameters."""
        self.optimizer.zero_grad()
