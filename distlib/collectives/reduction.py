"""How two tensors are combined: the arithmetic of a reduction, without its messages."""

from __future__ import annotations

import torch

from distlib.communicator import ReduceOp


def check_op(op: ReduceOp, dtype: torch.dtype) -> None:
    """Check that `op` has a meaning for `dtype`: at once, on every rank, before anything is sent.

    Raises:
        ValueError: not a ReduceOp; an average of integers or truth values; an order of complex numbers; a sum of
            truth values.
    """
    if not isinstance(op, ReduceOp):
        raise ValueError(f"expected a ReduceOp, such as ReduceOp.SUM, got {op!r}")
    inexact = dtype.is_floating_point or dtype.is_complex
    if op is ReduceOp.AVG and not inexact:
        raise ValueError(f"averages of {dtype} need not be {dtype}: convert to float first, or use ReduceOp.SUM")
    if op in (ReduceOp.MIN, ReduceOp.MAX) and dtype.is_complex:
        raise ValueError(f"complex numbers have no order: ReduceOp.{op.name} has no meaning for {dtype}")
    if op is ReduceOp.SUM and dtype is torch.bool:
        raise ValueError("torch.bool has no sum: use ReduceOp.MAX for 'any', ReduceOp.MIN for 'all', or integers")


def combine(into: torch.Tensor, other: torch.Tensor, op: ReduceOp) -> None:
    """Combine `other` into `into`, in place: `into += other` for SUM.

    An average is summed up here as well; `collective` divides it at the end.
    """
    if op in (ReduceOp.SUM, ReduceOp.AVG):
        into.add_(other)
    elif op is ReduceOp.PRODUCT:
        into.mul_(other)
    elif op is ReduceOp.MIN:
        torch.minimum(into, other, out=into)
    else:
        torch.maximum(into, other, out=into)
