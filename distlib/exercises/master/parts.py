"""Right stages of DataParallel, which a check of the whole step supplies.

When a class is graded they run at the judge's side, and only tensors travel (`ON_TENSORS`): a sandbox has none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from distlib.communicator import Communicator


def split_batch(comm: Communicator, batch: torch.Tensor) -> torch.Tensor:
    """This rank's part of rank 0's batch."""
    parts = batch.tensor_split(comm.world_size)
    if comm.rank != 0:
        part = torch.empty_like(parts[comm.rank], memory_format=torch.contiguous_format)
        comm.recv(part, 0)
        return part
    for dst in range(1, comm.world_size):
        comm.send(parts[dst], dst)
    return parts[0]


def replicate(comm: Communicator, model: torch.nn.Module) -> None:
    """Copy the parameters and buffers of rank 0 to all other ranks, in place."""
    hand_out(comm, [*model.parameters(), *model.buffers()])


def gather_outputs(comm: Communicator, output: torch.Tensor, batch_size: int) -> torch.Tensor | None:
    """The outputs of all ranks on rank 0, None elsewhere."""
    output = output.detach()
    if comm.rank != 0:
        comm.send(output, 0)
        return None
    outputs = output.new_empty(batch_size, *output.shape[1:])
    parts = outputs.tensor_split(comm.world_size)
    parts[0].copy_(output)
    for src in range(1, comm.world_size):
        comm.recv(parts[src], src)
    return outputs


def reduce_gradients(comm: Communicator, model: torch.nn.Module) -> None:
    """Add up the gradients of all ranks on rank 0, in place."""
    add_up(comm, [parameter.grad for parameter in model.parameters() if parameter.grad is not None])


def hand_out(comm: Communicator, tensors: Sequence[torch.Tensor]) -> None:
    """Copy the tensors of rank 0 to all other ranks, in place."""
    for tensor in tensors:
        if comm.rank != 0:
            comm.recv(tensor.detach(), 0)
            continue
        for dst in range(1, comm.world_size):
            comm.send(tensor.detach(), dst)


def add_up(comm: Communicator, tensors: Sequence[torch.Tensor]) -> None:
    """Add up the tensors of all ranks on rank 0, in place."""
    for tensor in tensors:
        if comm.rank != 0:
            comm.send(tensor, 0)
            continue
        incoming = torch.empty_like(tensor)
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            tensor += incoming


def _in_place(function: Callable[..., None]) -> Callable[..., Any]:
    def run(comm: Communicator, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        function(comm, tensors)
        return tensors

    return run


# By name: (communicator, tensors, options) to what the rank gets back. The tensors are what a stranger has sent.
ON_TENSORS: dict[str, Callable[..., Any]] = {
    "split_batch": split_batch,
    "replicate": _in_place(hand_out),
    "gather_outputs": gather_outputs,
    "reduce_gradients": _in_place(add_up),
}
