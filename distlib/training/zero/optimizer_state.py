"""The whole state of an optimizer that works on shards: gathered unit by unit, and dealt out again.

    rank 0   exp_avg of shard 0 ┐
    rank 1   exp_avg of shard 1 ├─ all-gather ─►  flat  ─►  exp_avg of weight [3, 2], of bias [3], …
    rank 2   exp_avg of shard 2 ┘

It has the form that the optimizer of the model alone would have, so that this one can load it, and the other way round.
What there is once for each shard, such as the number of steps, every parameter of the unit gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from distlib.training.zero.shard_unit import Unit, units_of
from distlib.training.zero.whole_state import gather_flat


@torch.no_grad()
def whole_optimizer_state(module: nn.Module, optimizer: Any) -> dict[str, Any]:
    """The state that torch's optimizer of all parameters of the model has, on every rank; every rank must call it.

    No more than one state of a unit is gathered at a time, but the result is as large as all states of the model.

    Args:
        module: a `FullyShardedModule`, or the module of a `ShardedOptimizer`.
        optimizer: the torch optimizer of the first, or the second.

    Returns:
        As of `torch.optim.AdamW(model.parameters(), …).state_dict()`: "state" and "param_groups".

    Raises:
        ValueError: an optimizer with several groups of parameters.
    """
    inner, numbers = _one_group(optimizer), _numbers(module)
    state: dict[int, dict[str, Any]] = {}
    for unit in units_of(module, optimizer):
        for key, value in inner.state.get(unit.shard, {}).items():
            pieces = gather_flat(unit, value) if _is_by_element(value, unit) else None
            for name in unit.layout.shapes:
                own = value if pieces is None else pieces[name]
                state.setdefault(numbers[name], {})[key] = own.clone() if isinstance(own, torch.Tensor) else own
    options = {key: value for key, value in inner.param_groups[0].items() if key != "params"}
    return {"state": dict(sorted(state.items())), "param_groups": [{**options, "params": sorted(numbers.values())}]}


@torch.no_grad()
def load_whole_optimizer_state(module: nn.Module, optimizer: Any, state: Mapping[str, Any]) -> None:
    """Load what `whole_optimizer_state` has returned, or the state of the model's optimizer alone. Nothing is sent.

    Args:
        module, optimizer: as of `whole_optimizer_state`.

    Raises:
        ValueError: a state of another model; an optimizer with several groups of parameters.
    """
    inner, numbers, units = _one_group(optimizer), _numbers(module), units_of(module, optimizer)
    groups, saved = state["param_groups"], state["state"]
    lengths = [len(group["params"]) for group in groups]
    if lengths != [len(numbers)]:
        raise ValueError(
            f"a state of another model: its groups have {lengths} parameters, where this one has {[len(numbers)]}"
        )
    dealt: dict[torch.Tensor, Any] = {
        unit.shard: _own_states(unit, {name: saved.get(numbers[name], {}) for name in unit.layout.shapes})
        for unit in units
    }
    inner.state.update(dealt)  # nothing is changed before all of it has been looked at
    inner.param_groups[0].update({key: value for key, value in groups[0].items() if key != "params"})


def _own_states(unit: Unit, saved: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """This rank's states of a unit, from those of its parameters."""
    states: dict[str, Any] = {}
    for key, first in next(iter(saved.values())).items():
        values: dict[str, Any] = {name: saved[name].get(key) for name in unit.layout.shapes}
        if isinstance(first, torch.Tensor) and first.ndim > 0:
            _check_shapes(unit, key, values)
            states[key] = unit.layout.shard(unit.layout.flatten(values), unit.comm.rank).clone()
        else:
            states[key] = first.clone() if isinstance(first, torch.Tensor) else first
    return states


def _check_shapes(unit: Unit, key: str, values: Mapping[str, Any]) -> None:
    for name, shape in unit.layout.shapes.items():
        found = tuple(values[name].shape) if values[name] is not None else None
        if found != shape:
            raise ValueError(f"a state of another model: {key} of {name} has the shape {found}, not {shape}")


def _is_by_element(value: Any, unit: Unit) -> bool:
    return isinstance(value, torch.Tensor) and value.shape == unit.shard.shape


def _numbers(module: nn.Module) -> dict[str, int]:
    """Name → number of each parameter of the model without shards: an optimizer of torch knows it by this."""
    inside: Any = module.module if units_of(module) else module
    return {name: number for number, (name, _) in enumerate(inside.named_parameters())}


def _one_group(optimizer: Any) -> torch.optim.Optimizer:
    inner: torch.optim.Optimizer = getattr(optimizer, "optimizer", optimizer)
    if len(inner.param_groups) != 1:
        raise ValueError(f"expected an optimizer with one group of parameters, got {len(inner.param_groups)} groups")
    return inner
