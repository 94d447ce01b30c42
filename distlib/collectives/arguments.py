"""The arguments of a collective: what can be wrong with them, and how the other ranks get to know them.

Every rank can see some mistakes for itself, before anything is sent. That ranks were given *different* arguments, or
tensors of different shapes or dtypes, shows only when their messages meet; so each message carries the call that it
belongs to, 'all_reduce(3×2 float32, op=SUM, algorithm="ring")'.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from distlib.arguments import as_integer, describe_tensor, described, dtype_name_of
from distlib.communicator import Communicator, ReduceOp
from distlib.tensor_kinds import check_sendable

_NEEDED = ("rank", "world_size", "send", "recv", "exchange")  # also of a communicator that is of no class of ours


def announced(
    comm: Communicator, name: str, tensor: torch.Tensor | None = None, /, **arguments: object
) -> Communicator:
    """`comm` for the messages of one collective call: see `Communicator.within`.

    A collective that is a part of another one gets `comm` back: its messages belong to the one that was called first.

    Args:
        name: of the collective.
        tensor: what it works on, if that has the same shape and dtype on every rank.
        arguments: those that must be the same on every rank. Any that are None are left out.
    """
    if not isinstance(comm, Communicator) or comm.call is not None:
        return comm
    given = [] if tensor is None else [describe_tensor(tensor.shape, dtype_name_of(tensor))]
    given += [f"{key}={_text(value)}" for key, value in arguments.items() if value is not None]
    return comm.within(f"{name}({', '.join(given)})")


def _text(value: object) -> str:
    if isinstance(value, ReduceOp):
        return value.name
    number = as_integer(value)  # on one rank it may be numpy's
    return f'"{value}"' if isinstance(value, str) else repr(value) if number is None else str(number)


def check_communicator(name: str, comm: object) -> None:
    """Check that a collective was given a communicator first. Raises TypeError."""
    if isinstance(comm, Communicator) or all(hasattr(comm, each) for each in _NEEDED):
        return
    if isinstance(comm, torch.Tensor) and name != "barrier":
        raise TypeError(
            f"{name} expected comm as the first argument and the tensor as the second, got {described(comm)} first"
        )
    hint = ": call it on the ranks, in the function that world.run(…) is given" * hasattr(comm, "run")
    raise TypeError(
        f"{name} expected comm, the communicator of its rank, as the first argument, got {described(comm)}{hint}"
    )


def check_tensors(name: str, argument: str, tensors: object, size: int, *, written: bool) -> None:
    """Check a list that has a tensor for every rank. Raises TypeError or ValueError.

    Args:
        argument: what the list is called.
        size: how many ranks there are.
        written: whether the collective writes into them.
    """
    if not isinstance(tensors, Sequence | torch.Tensor) or isinstance(tensors, str):
        raise TypeError(
            f"{name} expected a list of {size} tensors, one for each rank, as {argument}, got {described(tensors)}"
        )
    if len(tensors) != size:
        raise ValueError(f"{name} expected one tensor for each of the {size} ranks as {argument}, got {len(tensors)}")
    for index, tensor in enumerate(tensors):
        check_sendable(name, tensor, f" as {argument}[{index}]", written=written)


def check_divides(comm: Communicator, **size: int) -> int:
    """Check that the ranks of `comm` can be cut into rows or nodes of equal size, and return it. Raises ValueError.

    Args:
        size: one number, under the name that the caller's argument has.
    """
    ((name, value),) = size.items()
    number = as_integer(value)
    if number is None or number < 1 or comm.world_size % number:
        fitting = [part for part in range(1, comm.world_size + 1) if comm.world_size % part == 0]
        raise ValueError(
            f"expected {name} to divide the {comm.world_size} ranks ({', '.join(map(str, fitting))}), "
            f"got {name}={value!r}"
        )
    return number
