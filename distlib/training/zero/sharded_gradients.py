"""Stage 2: gradients are sharded, too. A unit's gradients are averaged and freed while the backward pass still runs.

    backward          unit 3    unit 2    unit 1    unit 0
    reduce-scatter              unit 3 ▒▒ unit 2 ▒▒ unit 1 ▒▒ unit 0 ▒▒
    whole gradients   3         3 2       2 1       1 0       0             never more than two units
    own shards                  3         3 2       3 2 1     3 2 1 0       1/N of each

Nothing else changes, and no byte more is sent. With several backward passes per step, each sends.

Source: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020,
section 5.2: P_os+g.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from distlib.communicator import Communicator
from distlib.training.backward_pass import BackwardPass
from distlib.training.same_parameters import check_same_parameters
from distlib.training.zero.shard_unit import Unit, without_gradient
from distlib.training.zero.sharded_optimizer import ShardedOptimizer


class ShardedGradients(ShardedOptimizer):
    """`ShardedOptimizer`, and each rank keeps only its shard of the gradients. It communicates inside `backward()`.

    In a SimulatedWorld it takes contexts="threads". Arguments and methods are those of `ShardedOptimizer`.
    """

    def __init__(
        self, comm: Communicator, module: nn.Module, optimizer_class: type[torch.optim.Optimizer], **options: Any
    ) -> None:
        super().__init__(comm, module, optimizer_class, **options)
        self.averager = GradientAverager(self.units)

    def average_gradients(self) -> None:
        """Nothing is left to do: the backward pass has averaged them.

        Raises:
            RuntimeError: there was no backward pass since the last step; a parameter was unfrozen or added.
        """
        check_same_parameters(self.comm.rank, self.module, self._dtypes)
        missing = [name for unit in self.units if unit.shard.grad is None for name in unit.parameters]
        if missing:
            raise without_gradient(self.comm, missing)


class GradientAverager:
    """Averages the gradients of units while the backward pass runs, and frees them.

    Args:
        units: the same on every rank.

    Attributes:
        sync: whether gradients are sent; otherwise they add up on each rank, as they are.
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self.sync = True
        self._units = units
        self._under_way: list[Unit] = []  # those whose reduce-scatter has begun and was not waited for
        self._pass = BackwardPass(at_end=self.finish)
        for unit in units:
            for parameter in unit.parameters.values():
                parameter.register_post_accumulate_grad_hook(self._hook(unit))

    def _hook(self, unit: Unit) -> Any:
        return lambda parameter: self._on_gradient(unit, parameter)

    def _on_gradient(self, unit: Unit, parameter: nn.Parameter) -> None:
        """The gradient of `parameter` is complete: called by torch in the middle of the backward pass."""
        self.begin_backward()
        unit.take_gradient(parameter, keep=not self.sync)
        if unit.has_all_gradients:
            self.on_complete(unit)

    def on_complete(self, unit: Unit) -> None:
        """All gradients of a unit have come: send them, and wait for those that were sent before."""
        if self.sync:
            unit.begin_averaging()
            self._wait()
            self._under_way.append(unit)

    def begin_backward(self) -> None:
        """Note that a backward pass runs; the first call in each pass has `finish` called at its end."""
        if self._pass.begins():
            for unit in self._units:
                unit.forget_gradients()  # of a pass that has failed
            self._under_way.clear()

    def _wait(self) -> None:
        for unit in self._under_way:
            unit.finish_averaging()
        self._under_way.clear()

    def finish(self) -> None:
        """The backward pass is over: wait for what is under way.

        Raises:
            RuntimeError: a parameter of a unit that was used has no gradient.
        """
        for unit in self._units:
            unit.check_gradients()  # before waiting: the others are in the collective that this rank has left out
        self._wait()
        for unit in self._units:
            unit.forget_gradients()
