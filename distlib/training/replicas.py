"""The same model on every rank: checked once, copied from rank 0, and kept the same.

rank 0 ──names, shapes, dtypes──► everybody        compare: is it the model that I have?
rank 0 ──parameters, buffers────► everybody        whatever they were before
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import zip_longest

import torch
from torch import nn

from distlib.arguments import checked
from distlib.collectives import broadcast
from distlib.communicator import Communicator

Description = list[tuple[str, str, list[int], str]]  # kind, name, shape and dtype of each parameter and buffer


@checked
def check_same_model(comm: Communicator, module: nn.Module) -> None:
    """Check that every rank has a model with the parameters and buffers of rank 0's: names, shapes and dtypes.

    Raises:
        ValueError: on a rank whose model differs, with the first difference.
    """
    mine = describe_model(module)
    wanted: Description = [
        (kind, name, shape, dtype)
        for kind, name, shape, dtype in json.loads(bytes_from_rank_0(comm, json.dumps(mine).encode()))
    ]
    for theirs, ours in zip_longest(wanted, mine):
        if theirs != ours:
            raise ValueError(
                f"all ranks need the same model, but rank 0 has {_say(theirs)} where rank {comm.rank} has {_say(ours)}"
            )


@checked
def copy_from_rank_0(comm: Communicator, module: nn.Module) -> None:
    """Give every rank rank 0's parameters and buffers, in place."""
    copy_state(comm, module, root=0)


def copy_state(comm: Communicator, module: nn.Module, root: int) -> None:
    """Give every rank the parameters and buffers of rank `root`, in place."""
    copy_tensors(comm, [*module.parameters(), *module.buffers()], root)


def copy_tensors(comm: Communicator, tensors: Iterable[torch.Tensor], root: int) -> None:
    """Give every rank the values that these tensors have on rank `root`, in place. One broadcast each."""
    for tensor in tensors:
        broadcast(comm, tensor.detach(), root)


def bytes_from_rank_0(comm: Communicator, data: bytes) -> bytes:
    """The `data` of rank 0, on every rank. The argument of other ranks is ignored."""
    length = torch.tensor([len(data)])
    broadcast(comm, length)
    content = bytearray(data) if comm.rank == 0 else bytearray(int(length))
    broadcast(comm, torch.frombuffer(content, dtype=torch.uint8))
    return bytes(content)


def describe_model(module: nn.Module) -> Description:
    """Kind, name, shape and dtype of each parameter that is trained, each that is frozen, and each buffer."""
    found: list[tuple[str, str, torch.Tensor]] = [
        ("parameter" if p.requires_grad else "frozen parameter", name, p) for name, p in module.named_parameters()
    ]
    found += [("buffer", name, buffer) for name, buffer in module.named_buffers()]
    return [(kind, name, list(tensor.shape), str(tensor.dtype)) for kind, name, tensor in found]


def _say(entry: tuple[str, str, list[int], str] | None) -> str:
    if entry is None:
        return "nothing more"
    kind, name, shape, dtype = entry
    return f"the {kind} {name!r} of shape {tuple(shape)} and dtype {dtype.removeprefix('torch.')}"
