"""Exercises 04 and 04b: the stages of DataParallel, which the check of the whole step supplies."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from distlib.checks.helper_form import GRADIENTS, PARAMETERS_AND_BUFFERS
from distlib.checks.supplied import helper
from distlib.communicator import Communicator


@helper()
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


@helper(in_place="model", tensors=PARAMETERS_AND_BUFFERS)
def replicate(comm: Communicator, model: Sequence[torch.Tensor]) -> None:
    """Copy the parameters and buffers of rank 0 to all other ranks, in place."""
    for tensor in model:
        if comm.rank != 0:
            comm.recv(tensor, 0)
            continue
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)


@helper()
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


@helper(in_place="model", tensors=GRADIENTS)
def reduce_gradients(comm: Communicator, model: Sequence[torch.Tensor]) -> None:
    """Add up the gradients of all ranks on rank 0, in place."""
    for tensor in model:
        if comm.rank != 0:
            comm.send(tensor, 0)
            continue
        incoming = torch.empty_like(tensor)
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            tensor += incoming
