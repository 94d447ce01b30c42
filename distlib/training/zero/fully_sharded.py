"""Stage 3: parameters are sharded, too. A unit's are gathered before it computes, and freed after.

    forward     gather 0 │ compute 0 │ compute 1 │ compute 2 │            the next unit is gathered while one computes
                         │ gather 1  │ gather 2  │           │
    whole       0          0 1         1 2         2                      never more than two units

    backward    the same from the last unit to the first; each unit's gradients are averaged and freed as in stage 2

    `reshard_after_forward`    after its forward pass a unit …            all-gathers per step of 5 units
    True                       is freed, and gathered again                10
    None                       is freed, unless it is the root's           9
    False                      stays until its backward pass is over       5

A step sends the parameters twice and the gradients once: 1.5 times the bytes of DDP.

Sources: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, section
5.3: P_os+g+p. Y. Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", PVLDB 16(12), 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from distlib.arguments import checked
from distlib.communicator import Communicator
from distlib.training.one_rank_only import OneRankOnly
from distlib.training.replicas import check_same_model, copy_tensors
from distlib.training.same_parameters import check_same_parameters
from distlib.training.zero.elementwise import watch_optimizers
from distlib.training.zero.freed_unit import FreedUnit
from distlib.training.zero.gradient_norm import clip_gradients
from distlib.training.zero.nested import tensors_in
from distlib.training.zero.shard_unit import Unit, UnitOptions
from distlib.training.zero.sharded_gradients import GradientAverager
from distlib.training.zero.unit_choice import ROOT, group_parameters, not_sharded
from distlib.training.zero.whole_state import load_whole_state, whole_state
from distlib.worlds.private_torch import UnmovableModule
from distlib.worlds.simulated.rank_contexts import OUTSIDE, current_backward


class FullyShardedModule(OneRankOnly, UnmovableModule):
    """Wraps a model of whose parameters, gradients and optimizer states each rank keeps its shard only.

        model = FullyShardedModule(comm, model, units=model.blocks)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)      # of the shards, one per unit
        for images, labels in loader:
            optimizer.zero_grad()
            loss_function(model(images), labels).backward()
            optimizer.step()                                            # each rank its own shards

    It communicates inside `backward()`, so a SimulatedWorld needs contexts="threads".

    Args:
        comm: of this rank. Every rank makes its own wrapper, at the same time.
        module: the same model on every rank; its weights and buffers become rank 0's. Outside of a unit's forward and
            backward pass its parameters have a shape and no contents.
        units: parts of the model that are gathered and freed together; None: its children. See `unit_choice`.
        reshard_after_forward: see the text of this module.
        prefetch: whether the next unit is gathered while one computes.
        param_dtype: of gathered parameters and of inputs, such as torch.bfloat16; shards keep the model's dtype.
        reduce_dtype: in which gradients are averaged; None: the model's.
        all_gather, reduce_scatter: algorithms of these collectives.

    Attributes:
        module: the model.
        units: see `FreedUnit`.

    Raises:
        ValueError: nothing to train; see `group_parameters`.
        RuntimeError: in a forward pass: a parameter was frozen, unfrozen, added or replaced since.

    Gradients are clipped by `clip_grad_norm`, since torch's own function would take this rank's shards for the whole.
    Only `backward()` averages, and not `torch.autograd.grad`.
    """

    what_to_copy = "Save or average state_dict(), which every rank calls, or the shards, parameters()."
    why_unmovable = (
        "a FullyShardedModule can't be moved or get another dtype, since its parameters are in shards: do so with "
        "the model before it is wrapped, or pass param_dtype="
    )

    @checked
    def __init__(
        self,
        comm: Communicator,
        module: nn.Module,
        *,
        units: Iterable[nn.Module] | None = None,
        reshard_after_forward: bool | None = None,
        prefetch: bool = True,
        param_dtype: torch.dtype | None = None,
        reduce_dtype: torch.dtype | None = None,
        all_gather: str = "ring",
        reduce_scatter: str = "ring",
    ) -> None:
        super().__init__()
        options = UnitOptions(param_dtype, reduce_dtype, all_gather, reduce_scatter)
        self.comm, self.module, self._param_dtype = comm, module, param_dtype
        self._prefetch = prefetch
        check_same_model(comm, module)
        groups = group_parameters(module, units)
        self.units = [FreedUnit(comm, name, own, options, module) for name, _, own in groups]
        copy_tensors(comm, not_sharded(module), root=0)
        for unit, (name, part, _) in zip(self.units, groups, strict=True):
            unit.reshard = name != ROOT if reshard_after_forward is None else reshard_after_forward
            if part is not None:
                part.register_forward_pre_hook(partial(self._before_part, unit))
                part.register_forward_hook(partial(self._after_part, unit))
        self._root = next((unit for unit in self.units if unit.name == ROOT), None)
        watch_optimizers()
        self._averager = _FreeingAverager(self.units)
        self._order: list[FreedUnit] = []  # in which the units have computed, in the last forward pass
        self._learn_order(self.units)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on this rank's batch; returns its outputs."""
        if self._param_dtype is not None:
            args, kwargs = _cast(args, self._param_dtype), _cast(kwargs, self._param_dtype)
        if torch.is_grad_enabled():
            self._check_parameters()
        if current_backward() == OUTSIDE:
            self._order = []
        if self._root is not None:
            self._before(self._root)
        outputs = self.module(*args, **kwargs)
        if self._root is not None:
            self._after(self._root, outputs)
        if current_backward() == OUTSIDE:
            self._learn_order(self._order)
        return outputs

    def _check_parameters(self) -> None:
        known: dict[nn.Parameter, torch.dtype] = {}
        for unit in self.units:
            unit.check_not_frozen()
            known |= unit.dtypes
        check_same_parameters(self.comm.rank, self.module, known)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside this block backward passes send no gradients: they add up whole, on each rank.

        The first backward pass outside of it averages the sums. This saves reduce-scatters, and costs the memory of a
        whole gradient. Without it gradients add up too, in the shards.
        """
        before, self._averager.sync = self._averager.sync, False
        try:
            yield
        finally:
            self._averager.sync = before

    def clip_grad_norm(self, max_norm: float) -> float:
        """Scale all gradients down so that their norm, over all parameters, is at most `max_norm`. Returns the norm."""
        return clip_gradients(self.comm, [unit.shard for unit in self.units], max_norm)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """This rank's shards, by the names of their units; then the frozen parameters, which are whole."""
        dot = f"{prefix}." if prefix else ""
        yield from ((dot + unit.name, unit.shard) for unit in self.units)
        for name, parameter in self.module.named_parameters(prefix, recurse, remove_duplicate):
            if not parameter.requires_grad:
                yield name, parameter

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:  # type: ignore[override]
        """The whole state of the model, on every rank, in the shards' dtype; every rank must call it.

        Names are those of the model alone, without a prefix, so that it loads into the model alone, too. Keys come in
        another order where parameters have other names than the first. No more than one unit is gathered at a time,
        but the result is as large as the model.
        """
        return whole_state(self.module, self.units)

    def load_state_dict(self, state_dict: Mapping[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        """Load what `state_dict` has returned, or the state of the model alone; each rank keeps its own shards.

        Raises:
            ValueError: of another model: with the names that are missing or too many, and shapes that differ.
        """
        load_whole_state(self.module, self.units, state_dict)

    # ── around a unit's forward and backward pass ────────────────────────────────────────────────────────────────────

    def _before_part(self, unit: FreedUnit, part: nn.Module, args: Any) -> None:
        self._before(unit)

    def _after_part(self, unit: FreedUnit, part: nn.Module, args: Any, outputs: Any) -> None:
        self._after(unit, outputs)

    def _before(self, unit: FreedUnit) -> None:
        """A unit is about to compute. In a backward pass, that is activation checkpointing, which computes it again."""
        unit.gather()
        if current_backward() == OUTSIDE:
            self._order.append(unit)
            self._prefetch_unit(self._follower.get(unit))

    def _after(self, unit: FreedUnit, outputs: Any) -> None:
        """A unit has computed: free it, if it is to be, and ask to be called before its backward pass."""
        if torch.is_grad_enabled():
            for tensor in tensors_in(outputs):
                if tensor.requires_grad:
                    tensor.register_hook(partial(self._before_backward, unit))
        if current_backward() == OUTSIDE and (unit.reshard or not torch.is_grad_enabled()):
            unit.free()

    def _before_backward(self, unit: FreedUnit, gradient: torch.Tensor) -> None:
        """The backward pass has come to an output of a unit."""
        self._averager.begin_backward()
        unit.gather()
        if self._averager.reach(unit):
            self._prefetch_unit(self._leader.get(unit))

    def _prefetch_unit(self, unit: FreedUnit | None) -> None:
        if self._prefetch and unit is not None:
            unit.begin_gather()

    def _learn_order(self, order: list[FreedUnit]) -> None:
        """Which unit comes after which in the forward pass, and before which in the backward pass."""
        self._follower = dict(pairwise(order))
        self._leader = {after: before for before, after in pairwise(order)}
        if self._root is not None and order[0] is self._root and len(order) > 1:
            self._leader[self._root] = order[-1]  # its outputs are the model's: the backward pass begins with it


class _FreeingAverager(GradientAverager):
    """Stage 2's averaging of gradients, and units are freed as soon as their backward pass is over."""

    def __init__(self, units: list[FreedUnit]) -> None:
        super().__init__(units)
        self._freed_units = units
        self._complete: dict[Unit, bool] = {}  # of the units that this backward pass has reached

    def reach(self, unit: FreedUnit) -> bool:
        """Note that the backward pass has come to a unit; returns whether for the first time."""
        first = unit not in self._complete
        self._complete.setdefault(unit, False)
        return first

    def on_complete(self, unit: Unit) -> None:
        super().on_complete(unit)
        self._complete[unit] = True
        assert isinstance(unit, FreedUnit)
        unit.free()

    def finish(self) -> None:
        """The backward pass is over: also what was gathered and not used is freed."""
        reached, self._complete = self._complete, {}
        for unit in self._freed_units:
            unit.free()
        for each, complete in reached.items():
            if not complete:
                each.check_gradients(reached=True)
        super().finish()


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """Floating tensors, in what a module is given, as `dtype`."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {key: _cast(each, dtype) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a NamedTuple
        return type(value)(*(_cast(each, dtype) for each in value))
    return type(value)(_cast(each, dtype) for each in value) if type(value) in (list, tuple) else value
