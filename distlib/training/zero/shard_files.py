"""A checkpoint in shards: each rank writes its own file, and another number of ranks can read them.

    saved by 4 ranks     │ 0 0 0 │ 1 1 1 │ 2 2 2 │ 3 – – │         a unit of 10 numbers, padded to 12
    loaded by 2 ranks    │ 0 0 0   1 1 │ 1 2 2   2 3 │             the same 10 numbers, padded to 10

Nobody needs memory or time for the whole model. What the optimizer has for each element travels with the elements; what
it has once, such as the number of steps, is the same on every rank.

    folder/checkpoint.json          says which files belong together; it is replaced last, when all of them are there
    folder/3f2a…-rank-0-of-4.pt     the files of one checkpoint have a name in common
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from distlib.arguments import checked
from distlib.collectives import barrier, broadcast
from distlib.communicator import Communicator
from distlib.training.zero.shard_unit import Unit, units_of
from distlib.training.zero.unit_choice import not_sharded

_INDEX = "checkpoint.json"
_STATE = "state "  # of the optimizer: before its name, in a file


@checked
def save_shards(comm: Communicator, folder: str | os.PathLike[str], module: nn.Module, optimizer: Any) -> None:
    """Each rank writes its shards and their optimizer states to a file in `folder`; returns when all are written.

    A checkpoint that was there is replaced when the new one is complete, and not before.

    Args:
        folder: one that all ranks see; it is made if it is not there.
        module: a `FullyShardedModule`, or the module of a `ShardedOptimizer`.
        optimizer: the torch optimizer of the first, or the second.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    name = _name_from_rank_0(comm)
    torch.save(_own_part(units_of(module, optimizer), module, optimizer), path / _file_name(name, comm))
    barrier(comm)
    if comm.rank == 0:
        unfinished = path / f"{_INDEX}.unfinished"
        unfinished.write_text(json.dumps({"name": name, "ranks": comm.world_size}))
        unfinished.replace(path / _INDEX)
        for file in path.glob("*-rank-*-of-*.pt"):
            if not file.name.startswith(name):
                file.unlink()
    barrier(comm)


@checked
def load_shards(comm: Communicator, folder: str | os.PathLike[str], module: nn.Module, optimizer: Any) -> None:
    """Read what `save_shards` has written, on any number of ranks, in place. Each rank reads what it needs.

    Raises:
        FileNotFoundError: there is no complete checkpoint in `folder`, or a file of it is gone.
        ValueError: a file that is damaged, or a checkpoint of another model: with the first difference.
    """
    path, units = Path(folder), units_of(module, optimizer)
    name, ranks = _read_index(path)
    parts = [_read_part(path / f"{name}-rank-{rank}-of-{ranks}.pt") for rank in range(ranks)]
    for part in parts:
        _check_same_units(units, part["units"])
        _check_same_rest(module, optimizer, part)
    _load_rest(module, optimizer, parts[0])  # nothing is changed before all files have been looked at
    for rank, part in enumerate(parts):
        for unit in units:
            _load_overlap(unit, _torch_optimizer(optimizer), part["units"][unit.name], rank)
    for unit in units:
        unit.refresh()


def _own_part(units: Sequence[Unit], module: nn.Module, optimizer: Any) -> dict[str, Any]:
    steps = _torch_optimizer(optimizer)
    groups = [{key: value for key, value in group.items() if key != "params"} for group in steps.param_groups]
    saved = {}
    for unit in units:
        states = {_STATE + str(key): value for key, value in steps.state.get(unit.shard, {}).items()}
        saved[unit.name] = {"shapes": unit.layout.shapes, "shard": unit.shard.detach().clone(), **states}
    return {"units": saved, "kept": [each.detach() for each in not_sharded(module)], "groups": groups}


def _load_rest(module: nn.Module, optimizer: Any, part: dict[str, Any]) -> None:
    """What every rank has whole: frozen parameters, buffers, and the optimizer's options."""
    for tensor, saved in zip(not_sharded(module), part["kept"], strict=True):
        tensor.detach().copy_(saved)
    for group, saved in zip(_torch_optimizer(optimizer).param_groups, part["groups"], strict=True):
        group.update(saved)


@torch.no_grad()
def _load_overlap(unit: Unit, optimizer: torch.optim.Optimizer, saved: dict[str, Any], rank: int) -> None:
    """Copy the elements that a saved shard has in common with this rank's."""
    theirs, ours = len(saved["shard"]), unit.layout.shard_length
    start, own_start = rank * theirs, unit.comm.rank * ours
    first, last = max(start, own_start), min(start + theirs, own_start + ours, unit.layout.length)
    if first >= last:
        return
    unit.shard[first - own_start : last - own_start] = saved["shard"][first - start : last - start]
    for key, value in saved.items():
        if key.startswith(_STATE):
            states = optimizer.state[unit.shard]
            state = key.removeprefix(_STATE)
            if isinstance(value, torch.Tensor) and value.shape == saved["shard"].shape:
                own = states.setdefault(state, value.new_zeros(ours))
                own[first - own_start : last - own_start] = value[first - start : last - start]
            else:
                states[state] = value


def _check_same_units(units: Sequence[Unit], saved: dict[str, Any]) -> None:
    mine = {unit.name: unit.layout.shapes for unit in units}
    theirs = {name: unit["shapes"] for name, unit in saved.items()}
    for name in [*mine, *theirs]:
        if mine.get(name) != theirs.get(name):
            raise ValueError(
                f"a checkpoint of another model, or of other units: it has {theirs.get(name)} as unit {name!r}, "
                f"where this model has {mine.get(name)}"
            )


def _check_same_rest(module: nn.Module, optimizer: Any, part: dict[str, Any]) -> None:
    """What every rank has whole: the same shapes, and as many groups."""
    mine = [tuple(each.shape) for each in not_sharded(module)]
    theirs = [tuple(each.shape) for each in part["kept"]]
    if mine != theirs:
        raise ValueError(
            f"a checkpoint of another model: its frozen parameters and buffers have the shapes {theirs}, those of this "
            f"model {mine}"
        )
    groups = len(_torch_optimizer(optimizer).param_groups)
    if groups != len(part["groups"]):
        raise ValueError(
            f"a checkpoint of another optimizer: the number of its param_groups is {len(part['groups'])}, "
            f"of this one's {groups}"
        )


def _torch_optimizer(optimizer: Any) -> torch.optim.Optimizer:
    inner: torch.optim.Optimizer = getattr(optimizer, "optimizer", optimizer)
    return inner


def _file_name(name: str, comm: Communicator) -> str:
    return f"{name}-rank-{comm.rank}-of-{comm.world_size}.pt"


def _name_from_rank_0(comm: Communicator) -> str:
    """A name that no checkpoint has had."""
    drawn = torch.frombuffer(bytearray(os.urandom(8)), dtype=torch.uint8)
    broadcast(comm, drawn)
    return bytes(drawn.tolist()).hex()


def _read_index(folder: Path) -> tuple[str, int]:
    if not (folder / _INDEX).exists():
        raise FileNotFoundError(f"{folder} has no complete checkpoint: {_INDEX}, which is written last, is not there")
    try:
        index = json.loads((folder / _INDEX).read_text())
        return str(index["name"]), int(index["ranks"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"the checkpoint in {folder} is torn: {_INDEX} can't be read ({error})") from error


def _read_part(file: Path) -> dict[str, Any]:
    if not file.exists():
        raise FileNotFoundError(f"the checkpoint in {file.parent} is torn: {file.name} is not there")
    try:
        part: dict[str, Any] = torch.load(file, weights_only=True, mmap=True)  # contents are read when they are copied
    except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError, OSError) as error:
        said = str(error).partition(". ")[0]
        raise ValueError(f"the checkpoint in {file.parent} is torn: {file.name} can't be read ({said})") from error
    if not isinstance(part, dict) or part.keys() != {"units", "kept", "groups"}:
        raise ValueError(
            f"expected {file.name} in {file.parent} to hold a rank's shards, got something else: save again"
        )
    return part
