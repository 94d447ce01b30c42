"""What torch hands to a process group: its options, read; and the text by which ranks compare their calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed

from distlib.arguments import describe_tensor, dtype_name_of
from distlib.communicator import ReduceOp

_dist: Any = torch.distributed
OPERATIONS = {  # of torch.ops.c10d, by the names of the calls
    "all_reduce": "allreduce_",
    "all_reduce_coalesced": "allreduce_coalesced_",
    "reduce": "reduce_",
    "reduce_scatter": "reduce_scatter_",
    "reduce_scatter_tensor": "_reduce_scatter_base_",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced_",
    "broadcast": "broadcast_",
    "all_gather": "allgather_",
    "all_gather_coalesced": "allgather_coalesced_",
    "all_gather_into_tensor": "_allgather_base_",
    "all_gather_into_tensor_coalesced": "allgather_into_tensor_coalesced_",
    "gather": "gather_",
    "scatter": "scatter_",
    "all_to_all": "alltoall_",
    "all_to_all_single": "alltoall_base_",
}
_OPS = [(getattr(_dist.ReduceOp, op.name), op) for op in ReduceOp]


def op_of(name: str, options: Any) -> ReduceOp:
    """The reduction that torch's options ask for, or that was given in their place.

    Raises:
        ValueError: one that distlib does not have.
    """
    asked = getattr(options, "reduceOp", _dist.ReduceOp.SUM if options is None else options)
    for theirs, ours in _OPS:
        if asked == theirs:
            return ours
    known = ", ".join(op.name for op in ReduceOp)
    raise ValueError(f'{name}: the backend "distlib" has the reductions {known}, got {asked}')


def root_of(options: Any) -> int:
    """The rank that has the data or gets them, by its number in the group."""
    return int(getattr(options, "rootRank", 0 if options is None else options))


def is_asynchronous(options: Any) -> bool:
    """Whether the caller goes on before the call is over."""
    return bool(getattr(options, "asyncOp", True))


def call_text(name: str, tensors: Sequence[torch.Tensor] = (), times: int = 1, **arguments: object) -> str:
    """A call as ranks compare it: "all_reduce(2×3 float32, op=SUM)". What must be the same on all of them, is in it.

    Args:
        name: torch's name of the call.
        tensors: what it works on, if these have the same shape, dtype and memory layout on every rank.
        times: how many such tensors there are in place of each one.
        arguments: the others that must be the same.
    """
    given = [_text(tensor) for tensor in tensors]
    if len(given) * times > 1 and len(set(given)) == 1:
        given = [f"{len(given) * times} × {given[0]}"]
    elif times > 1:
        given = [f"{times} × {each}" for each in given]
    given += [f"{key}={getattr(value, 'name', value)}" for key, value in arguments.items()]
    return f"{name}({', '.join(given)})"


def _text(tensor: torch.Tensor) -> str:
    described = describe_tensor(tensor.shape, dtype_name_of(tensor))
    if tensor.layout is not torch.strided:
        return f"{described}, {str(tensor.layout).removeprefix('torch.')}"
    return described if tensor.is_contiguous() else f"{described} with strides {tuple(tensor.stride())}"
