"""The whole state of a model that is kept in shards: gathered unit by unit, and dealt out again.

Names are those of the model without shards. A parameter that has two, because it is tied, is found under both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from distlib.collectives import all_gather
from distlib.training.zero.shard_unit import Unit


@torch.no_grad()
def gather_flat(unit: Unit, own: torch.Tensor) -> dict[str, torch.Tensor]:
    """What has an element for each element of a unit, gathered from all ranks: by parameter, as views of one buffer.

    Args:
        own: this rank's shard of it; `unit.shard` itself, or a state of its optimizer.
    """
    flat = torch.zeros(unit.layout.padded_length, dtype=own.dtype, device=own.device)
    unit.layout.shard(flat, unit.comm.rank).copy_(own)
    all_gather(unit.comm.within(f"all_gather of the state of unit {unit.name}"), flat, unit.options.all_gather)
    return unit.layout.views(flat)


def whole_state(module: nn.Module, units: Sequence[Unit]) -> dict[str, torch.Tensor]:
    """The state of a model by name, as `module.state_dict()` would have it without shards. Every rank must call it."""
    gathered = {key: tensor for unit in units for key, tensor in gather_flat(unit, unit.shard.detach()).items()}
    kept = module.state_dict()
    names = _first_names(module)
    return {name: gathered.get(names.get(name, name), tensor) for name, tensor in kept.items()}


@torch.no_grad()
def load_whole_state(module: nn.Module, units: Sequence[Unit], state: Mapping[str, torch.Tensor]) -> None:
    """Load a whole state: shards, frozen parameters and buffers, in place. Nothing is sent.

    Raises:
        ValueError: a name that is missing or too many, or another shape.
    """
    kept, names = module.state_dict(), _first_names(module)
    shapes = {key: shape for unit in units for key, shape in unit.layout.shapes.items()}
    missing, unknown = sorted(kept.keys() - state.keys()), sorted(state.keys() - kept.keys())
    if missing or unknown:
        raise ValueError(f"a state of another model: without {missing}, which this one has, and with {unknown}")
    for name, tensor in kept.items():
        wanted = shapes.get(names.get(name, name), tuple(tensor.shape))
        if tuple(state[name].shape) != tuple(wanted):
            raise ValueError(f"a state of another model: {name} has {tuple(state[name].shape)}, not {tuple(wanted)}")
        if names.get(name, name) not in shapes:
            tensor.copy_(state[name])
    for unit in units:
        flat = unit.layout.flatten({key: state[key] for key in unit.layout.shapes})
        unit.shard.copy_(unit.layout.shard(flat, unit.comm.rank))


def _first_names(module: nn.Module) -> dict[str, str]:
    """For each name of a parameter the first name of the same parameter; they differ where it is tied."""
    first = {parameter: name for name, parameter in module.named_parameters()}
    return {name: first[parameter] for name, parameter in module.named_parameters(remove_duplicate=False)}
