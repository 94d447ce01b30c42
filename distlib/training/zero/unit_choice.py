"""Which parameters form which unit.

    model            embedding   block 0   block 1   block 2   head        units=[the three blocks]
    units            ┌───────┐   ┌─────┐   ┌─────┐   ┌─────┐   ┌──┐
                     root        block 0   block 1   block 2   root        what is in no unit is in the root's

What two units share, such as an embedding that is also the output layer, belongs to the root's unit, which is there
while any other is computed. A unit inside another one has its parameters for itself.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from distlib.arguments import described
from distlib.training.same_parameters import trained_parameters
from distlib.training.zero.shard_unit import role_of

ROOT = "root"
Group = tuple[str, nn.Module | None, dict[str, nn.Parameter]]
"""A unit's name, its module (None for the root's unit), and its parameters by name."""


def group_parameters(module: nn.Module, units: Iterable[nn.Module] | None = None) -> list[Group]:
    """The units of a model, in the order of their first parameters; the root's comes first, if it has any.

    Args:
        units: parts of `module`; None: its children.

    Raises:
        TypeError, ValueError: a unit that is not a part of the model, or twice the same; no parameter to train; a unit
            whose parameters have several dtypes or lie on several devices.
    """
    names = {part: name for name, part in module.named_modules()}
    chosen = list(module.children() if units is None else units)
    for unit in chosen:
        if not isinstance(unit, nn.Module) or unit not in names or unit is module:
            raise ValueError(
                f"units: expected parts of the model, as in units=[model[0], model[1]], got {described(unit)}"
            )
    if len(set(chosen)) < len(chosen):
        raise ValueError("units: expected each part of the model once")
    if any(role_of(parameter) is not None for parameter in module.parameters()):
        raise ValueError("expected a model that is not sharded, got one whose parameters are: make a new model")
    owners = _owners(module, chosen)
    groups: dict[nn.Module | None, dict[str, nn.Parameter]] = {None: {}}
    for name, parameter in trained_parameters(module).items():
        groups.setdefault(owners[parameter], {})[name] = parameter
    found = [(ROOT if unit is None else names[unit], unit, own) for unit, own in groups.items() if own]
    for name, _, own in found:
        _check_alike(name, own)
    return found


def not_sharded(module: nn.Module) -> list[torch.Tensor]:
    """What every rank keeps whole: frozen parameters, and buffers."""
    return [each for each in module.parameters() if not each.requires_grad] + list(module.buffers())


def _owners(module: nn.Module, units: list[nn.Module]) -> dict[nn.Parameter, nn.Module | None]:
    """For each parameter the innermost unit that has it; None where there is none, or where two have it."""
    inside = {unit: set(unit.modules()) for unit in units}
    owners: dict[nn.Parameter, set[nn.Module | None]] = {}
    for part in module.modules():
        around = [unit for unit in units if part in inside[unit]]
        innermost = [unit for unit in around if not inside[unit] & (set(around) - {unit})]
        owner = innermost[0] if len(innermost) == 1 else None  # two units may share a whole part
        for parameter in part.parameters(recurse=False):
            owners.setdefault(parameter, set()).add(owner)
    return {parameter: found.pop() if len(found) == 1 else None for parameter, found in owners.items()}


def _check_alike(name: str, parameters: dict[str, nn.Parameter]) -> None:
    kinds: dict[tuple[torch.dtype, torch.device], str] = {}
    for key, parameter in parameters.items():
        kinds.setdefault((parameter.dtype, parameter.device), key)
    if len(kinds) > 1:
        said = ", ".join(f"{key} is {dtype} on {device}" for (dtype, device), key in kinds.items())
        raise ValueError(
            f"the unit {name} needs parameters of one dtype on one device, which share a flat buffer: {said}. "
            "Make them alike, or units of their own."
        )
