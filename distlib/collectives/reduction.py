"""How two tensors are combined: the arithmetic of a reduction, without its messages."""

from __future__ import annotations

from functools import cache

import torch

from distlib.arguments import described
from distlib.communicator import ReduceOp


def check_op(name: str, op: ReduceOp, tensor: torch.Tensor) -> None:
    """Check that `op` has a meaning for the dtype of `tensor`: at once, on every rank, before anything is sent.

    Args:
        name: of the collective.
        tensor: what would be reduced.

    Raises:
        ValueError: not a ReduceOp; an average of integers or truth values; an order of complex numbers; a sum of
            truth values; a dtype that torch only stores, such as float8.
    """
    if not isinstance(op, ReduceOp):
        raise ValueError(f"{name} expected a ReduceOp, such as ReduceOp.SUM, got {_what_instead(op)}")
    dtype = tensor.dtype
    inexact = dtype.is_floating_point or dtype.is_complex
    if op is ReduceOp.AVG and not inexact:
        raise ValueError(
            f"{name}: averages of {dtype} need not be {dtype}: convert to float first, or use ReduceOp.SUM"
        )
    if op in (ReduceOp.MIN, ReduceOp.MAX) and dtype.is_complex:
        raise ValueError(f"{name}: complex numbers have no order: ReduceOp.{op.name} has no meaning for {dtype}")
    if op is ReduceOp.SUM and dtype is torch.bool:
        raise ValueError(
            f"{name}: torch.bool has no sum: use ReduceOp.MAX for 'any', ReduceOp.MIN for 'all', or integers"
        )
    if not _can_combine(op, dtype, tensor.device):
        raise ValueError(
            f"{name}: torch has no ReduceOp.{op.name} for {dtype} on {tensor.device.type}, and only stores and sends "
            f"such numbers: reduce a copy in another dtype, such as tensor.to(torch.{_wider(dtype)})"
        )


@cache
def _can_combine(op: ReduceOp, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether torch computes `op` with numbers of `dtype`, seen by trying."""
    try:
        with torch.no_grad():
            combine(torch.empty(1, dtype=dtype, device=device), torch.empty(1, dtype=dtype, device=device), op)
    except RuntimeError as error:
        return not isinstance(error, NotImplementedError)
    return True


def _wider(dtype: torch.dtype) -> str:
    return "float32" if dtype.is_floating_point else "int64"


def _what_instead(op: object) -> str:
    """What was given as an op, and what to write instead."""
    said = op.upper() if isinstance(op, str) else getattr(op, "name", "")
    known = said in ReduceOp.__members__
    if isinstance(op, str):
        hint = f"write op=ReduceOp.{said}" if known else f"an algorithm is given by its name, algorithm={op!r}"
        return f"{described(op)}: {hint}"
    if type(op).__module__.startswith("torch.") and said:
        ours = f"write op=ReduceOp.{said}," if known else f"distlib has {', '.join(ReduceOp.__members__)},"
        return f"torch.distributed's {said}: {ours} with the ReduceOp of: from distlib import ReduceOp"
    return described(op)


def combine(into: torch.Tensor, other: torch.Tensor, op: ReduceOp) -> None:
    """Combine `other` into `into`, in place: `into += other` for SUM.

    An average is summed up here as well; `collective` divides it at the end. On the meta device there is nothing to
    compute, and torch would take longer to say so than for a sum.
    """
    if into.is_meta:
        return
    if op in (ReduceOp.SUM, ReduceOp.AVG):
        into.add_(other)
    elif op is ReduceOp.PRODUCT:
        into.mul_(other)
    elif op is ReduceOp.MIN:
        torch.minimum(into, other, out=into)
    else:
        torch.maximum(into, other, out=into)
