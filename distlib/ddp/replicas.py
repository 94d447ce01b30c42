"""The same model on every rank: checked once, copied from rank 0, and kept the same.

rank 0 ──names, shapes, dtypes──► everybody        compare: is it the model that I have?
rank 0 ──parameters, buffers────► everybody        whatever they were before
"""

from __future__ import annotations

import json
from itertools import zip_longest

import torch
from torch import nn

from distlib.collectives import broadcast
from distlib.communicator import Communicator

Description = list[tuple[str, str, list[int], str]]  # kind, name, shape and dtype of each parameter and buffer


def check_same_model(comm: Communicator, module: nn.Module) -> None:
    """Check that every rank has a model with the parameters and buffers of rank 0's: names, shapes and dtypes.

    Raises:
        ValueError: on a rank whose model differs, with the first difference.
    """
    mine = describe_model(module)
    wanted = _from_rank_0(comm, mine)
    for theirs, ours in zip_longest(wanted, mine):
        if theirs != ours:
            raise ValueError(
                f"all ranks need the same model, but rank 0 has {_say(theirs)} where rank {comm.rank} has {_say(ours)}"
            )


def copy_from_rank_0(comm: Communicator, module: nn.Module) -> None:
    """Give every rank rank 0's parameters and buffers, in place."""
    for tensor in [*module.parameters(), *module.buffers()]:
        broadcast(comm, tensor.detach())


def describe_model(module: nn.Module) -> Description:
    """Kind, name, shape and dtype of each parameter that is trained, each that is frozen, and each buffer."""
    found: list[tuple[str, str, torch.Tensor]] = [
        ("parameter" if p.requires_grad else "frozen parameter", name, p) for name, p in module.named_parameters()
    ]
    found += [("buffer", name, buffer) for name, buffer in module.named_buffers()]
    return [(kind, name, list(tensor.shape), str(tensor.dtype)) for kind, name, tensor in found]


def _from_rank_0(comm: Communicator, description: Description) -> Description:
    """The description that rank 0 has. Descriptions may differ in length, so the length is sent first."""
    data = torch.frombuffer(bytearray(json.dumps(description).encode()), dtype=torch.uint8)
    length = torch.tensor([len(data)])
    broadcast(comm, length)
    text = data if comm.rank == 0 else torch.empty(int(length), dtype=torch.uint8)
    broadcast(comm, text)
    return [(kind, name, shape, dtype) for kind, name, shape, dtype in json.loads(bytes(text.tolist()))]


def _say(entry: tuple[str, str, list[int], str] | None) -> str:
    if entry is None:
        return "nothing more"
    kind, name, shape, dtype = entry
    return f"the {kind} {name!r} of shape {tuple(shape)} and dtype {dtype.removeprefix('torch.')}"
