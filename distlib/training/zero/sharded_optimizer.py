"""Stage 1: the optimizer's states are sharded. Every rank has all parameters and gradients, and updates its own part.

    backward         every rank: the gradients of its own batch
    reduce-scatter   rank r: the average of shard r                                  (N−1)/N of the gradients sent
    optimizer.step   rank r: the new values of shard r; it has states for these only
    all-gather       every rank: the new values of all shards                        (N−1)/N of the parameters sent

Together as many bytes as the all-reduce of DDP, which is the same two halves with nothing in between.

Source: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020,
section 5.1: P_os.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from distlib.arguments import checked
from distlib.communicator import Communicator
from distlib.training.one_rank_only import OneRankOnly
from distlib.training.replicas import check_same_model, copy_tensors
from distlib.training.same_parameters import check_same_parameters
from distlib.training.zero.elementwise import check_elementwise
from distlib.training.zero.gradient_norm import clip_gradients
from distlib.training.zero.optimizer_state import load_whole_optimizer_state, whole_optimizer_state
from distlib.training.zero.shard_unit import Unit, UnitOptions, without_gradient
from distlib.training.zero.unit_choice import group_parameters, not_sharded


class ShardedOptimizer(OneRankOnly, torch.optim.Optimizer):
    """Trains a model with an optimizer that has states for this rank's shard only.

        optimizer = ShardedOptimizer(comm, model, torch.optim.AdamW, lr=1e-3)
        for images, labels in loader:
            optimizer.zero_grad()
            loss_function(model(images), labels).backward()
            optimizer.step()

    Args:
        comm: of this rank. Every rank makes its own optimizer, at the same time.
        module: the same model on every rank; its weights and buffers become rank 0's, in place. Its parameters become
            views of flat buffers; those that are frozen stay as they are.
        optimizer_class: of torch.optim, one that works element by element: SGD, Adam, AdamW, …
        units: parts of the model, each of which has a flat buffer; None: its children.
        param_dtype: of the parameters that the model computes with, such as torch.bfloat16; the shards keep the dtype
            that the model has had. None: the same.
        reduce_dtype: in which gradients are averaged; None: the dtype that the model has had.
        defaults: of the optimizer, such as lr=1e-3.

    It is an optimizer of torch, so schedules of learning rates and torch's GradScaler take it. Gradients are clipped by
    `clip_grad_norm`, since torch's own function would take this rank's part for the whole.

    Attributes:
        optimizer: the torch optimizer of this rank's shards; `param_groups` and `state` are its own.
        units: see `Unit`.

    Raises:
        ValueError: an optimizer that does not work element by element; nothing to train; see `group_parameters`.
    """

    what_to_copy = "Save state_dict(), and copy the model."
    works_on_shards = True

    @checked
    def __init__(
        self,
        comm: Communicator,
        module: nn.Module,
        optimizer_class: type[torch.optim.Optimizer],
        *,
        units: Iterable[nn.Module] | None = None,
        param_dtype: torch.dtype | None = None,
        reduce_dtype: torch.dtype | None = None,
        **defaults: Any,
    ) -> None:
        check_elementwise(optimizer_class, **defaults)
        options = UnitOptions(param_dtype, reduce_dtype)
        check_same_model(comm, module)
        self.comm, self.module = comm, module
        self.units = [Unit(comm, name, own, options) for name, _, own in group_parameters(module, units)]
        copy_tensors(comm, not_sharded(module), root=0)
        shards = [unit.shard for unit in self.units]
        self.optimizer = optimizer_class(shards, **defaults)
        super().__init__(shards, self.optimizer.defaults)
        self.param_groups, self.state = self.optimizer.param_groups, self.optimizer.state
        self._dtypes = {each: each.dtype for unit in self.units for each in unit.parameters.values()}
        self._averaged = False

    def average_gradients(self) -> None:
        """Give each shard its gradient, averaged over the ranks; the parameters' own gradients are freed.

        `clip_grad_norm` and `step` call it, once per step.

        Raises:
            RuntimeError: a parameter has no gradient on this rank, or there was a backward pass after the averaging.
        """
        if self._averaged:
            self._check_no_more_gradients()
            return
        check_same_parameters(self.comm.rank, self.module, self._dtypes)
        for unit in self.units:
            missing = [name for name, parameter in unit.parameters.items() if parameter.grad is None]
            if missing:
                raise without_gradient(self.comm, missing)
            for parameter in unit.parameters.values():
                unit.take_gradient(parameter)
            unit.begin_averaging()
            unit.finish_averaging()
        self._averaged = True

    def _check_no_more_gradients(self) -> None:
        more = [name for unit in self.units for name, each in unit.parameters.items() if each.grad is not None]
        if more:
            raise RuntimeError(
                f"on rank {self.comm.rank} a backward pass came after the gradients were averaged, by clip_grad_norm "
                f"or average_gradients, and would not count: {', '.join(more)}. Call these once in a step, after its "
                "last backward pass."
            )

    def clip_grad_norm(self, max_norm: float) -> float:
        """Scale all gradients down so that their norm, over all parameters, is at most `max_norm`. Returns the norm."""
        self.average_gradients()
        return clip_gradients(self.comm, [unit.shard for unit in self.units], max_norm)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Average the gradients, update this rank's shards, and gather those of the others.

        Args:
            closure: computes loss and gradients, once, before all else; what it returns is returned.
        """
        with torch.enable_grad():
            loss = None if closure is None else closure()
        self.average_gradients()
        self.optimizer.step()
        for unit in self.units:
            unit.gather()
        self._averaged = False
        return loss

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuse, with ValueError: shards are made once. Called by torch for those, when the optimizer is made."""
        if self.param_groups:
            raise ValueError(
                "a ShardedOptimizer gets its parameters when it is made, since it cuts them into shards then: "
                "make a new one for the model with all of its parameters"
            )
        super().add_param_group(param_group)

    def take_parameters(self) -> None:
        """Take the values that the model has now, such as after `module.load_state_dict(…)`, the same on every rank."""
        for unit in self.units:
            unit.take_parameters()

    def state_dict(self) -> dict[str, Any]:
        """The whole state of the optimizer, as it would be without shards; every rank must call it.

        See `whole_optimizer_state`.
        """
        return whole_optimizer_state(self.module, self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load what `state_dict` has returned; each rank keeps its own shards. See `load_whole_optimizer_state`."""
        load_whole_optimizer_state(self.module, self, state_dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients; or fill them with zeros, if `set_to_none` is False, as in torch."""
        for unit in self.units:
            for each in (unit.shard, *unit.parameters.values()):
                if set_to_none or each.grad is None:
                    each.grad = None
                else:
                    each.grad.zero_()
        self._averaged = False
