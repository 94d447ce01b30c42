"""Operations in which every rank takes part, built from send and receive only. One algorithm a file."""

from __future__ import annotations

from collections.abc import Callable

import torch

from distlib.collectives.naive import naive_all_reduce
from distlib.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from distlib.communicator import Communicator, ReduceOp

__all__ = ["all_reduce", "naive_all_reduce", "ring_all_gather", "ring_all_reduce", "ring_reduce_scatter"]

_ALGORITHMS: dict[str, Callable[[Communicator, torch.Tensor, ReduceOp], None]] = {
    "naive": naive_all_reduce,
    "ring": ring_all_reduce,
}


def all_reduce(comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM, algorithm: str = "ring") -> None:
    """Combine the tensors of all ranks element by element; every rank ends with the result, in place.

    Args:
        tensor: any shape, the same number of elements and the same dtype on every rank. Overwritten.
        op: how two elements are combined.
        algorithm: "ring" (least bytes per rank) or "naive" (through rank 0).

    Raises:
        ValueError: an unknown algorithm, or an `op` that has no meaning for the dtype.
        MessageMismatch: tensors of different length or dtype on two ranks.
    """
    if algorithm not in _ALGORITHMS:
        raise ValueError(f"expected one of the algorithms {', '.join(_ALGORITHMS)}, got {algorithm!r}")
    _ALGORITHMS[algorithm](comm, tensor, op)
