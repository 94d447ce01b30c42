"""In a sandbox: each call of torch.distributed is a question to the judge, which runs what the call does.

Functions as in the library's torch_calls. What a call only writes into travels as a shape and a dtype, and comes back
with contents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from distlib.communicator import ReduceOp
from distlib.judge.remote.rank_communicator import RankCommunicator

_PASSES_ON = True  # see worlds.call_site

Tensors = Sequence[torch.Tensor]
AllReduce = Callable[[RankCommunicator, torch.Tensor, ReduceOp], None]


def default_all_reduce(comm: RankCommunicator, tensor: torch.Tensor, op: ReduceOp) -> None:
    """The judge chooses the algorithm, as without an all-reduce of one's own."""
    comm.run_torch_call("all_reduce", [tensor], [], op=op.name)


def all_reduce(comm: RankCommunicator, tensors: Tensors, op: ReduceOp, algorithm: AllReduce) -> None:
    """See the library's torch_calls.all_reduce."""
    comm.run_torch_call("all_reduce", tensors, [], op=op.name)


def all_reduce_sparse(comm: RankCommunicator, tensor: torch.Tensor) -> None:
    """Refuse it: only what a graded program needs is there."""
    raise RuntimeError("sparse gradients do not travel while your work is graded: use dense ones")


def broadcast(comm: RankCommunicator, tensors: Tensors, root: int) -> None:
    """See the library's torch_calls.broadcast."""
    comm.run_torch_call("broadcast", tensors, [], root=root)


def reduce(comm: RankCommunicator, tensor: torch.Tensor, root: int, op: ReduceOp) -> None:
    """See the library's torch_calls.reduce."""
    comm.run_torch_call("reduce", [tensor], [], root=root, op=op.name)


def all_gather(comm: RankCommunicator, pieces: Tensors, own: torch.Tensor) -> None:
    """See the library's torch_calls.all_gather."""
    comm.run_torch_call("all_gather", [own], pieces)


def reduce_scatter(comm: RankCommunicator, output: torch.Tensor, pieces: Tensors, op: ReduceOp) -> None:
    """See the library's torch_calls.reduce_scatter."""
    comm.run_torch_call("reduce_scatter", pieces, [output], op=op.name)


def gather(comm: RankCommunicator, pieces: Tensors, own: torch.Tensor, root: int) -> None:
    """See the library's torch_calls.gather."""
    comm.run_torch_call("gather", [own], pieces, root=root)


def scatter(comm: RankCommunicator, output: torch.Tensor, pieces: Tensors, root: int) -> None:
    """See the library's torch_calls.scatter."""
    comm.run_torch_call("scatter", pieces, [output], root=root)


def all_to_all(comm: RankCommunicator, outputs: Tensors, inputs: Tensors) -> None:
    """See the library's torch_calls.all_to_all."""
    comm.run_torch_call("all_to_all", inputs, outputs)
