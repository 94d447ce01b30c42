"""The arguments of a collective: what can be wrong with them, and how the other ranks get to know them.

Every rank can see some mistakes for itself, before anything is sent. That ranks were given *different* arguments
shows only when their messages meet; so each message carries the call that it belongs to.
"""

from __future__ import annotations

from distlib.communicator import Communicator, ReduceOp


def announced(comm: Communicator, name: str, **arguments: object) -> Communicator:
    """`comm` for the messages of one collective call: see `Communicator.within`.

    A collective that is a part of another one gets `comm` back: its messages belong to the one that was called first.

    Args:
        name: of the collective.
        arguments: those that must be the same on every rank. Any that are None are left out.
    """
    if not isinstance(comm, Communicator) or comm.call is not None:
        return comm
    given = [f"{key}={_text(value)}" for key, value in arguments.items() if value is not None]
    return comm.within(f"{name}({', '.join(given)})")


def _text(value: object) -> str:
    if isinstance(value, ReduceOp):
        return value.name
    return f'"{value}"' if isinstance(value, str) else repr(value)


def check_root(comm: Communicator, root: int) -> None:
    """Check that `root` is a rank of `comm`. Raises ValueError."""
    if type(root) is not int or not 0 <= root < comm.world_size:
        raise ValueError(f"expected a root from 0 to {comm.world_size - 1}, got root={root!r}")


def check_divides(comm: Communicator, **size: int) -> None:
    """Check that the ranks of `comm` can be cut into rows or nodes of equal size. Raises ValueError.

    Args:
        size: one number, under the name that the caller's argument has.
    """
    ((name, value),) = size.items()
    if type(value) is not int or value < 1 or comm.world_size % value:
        fitting = [part for part in range(1, comm.world_size + 1) if comm.world_size % part == 0]
        raise ValueError(
            f"expected {name} to divide the {comm.world_size} ranks ({', '.join(map(str, fitting))}), "
            f"got {name}={value!r}"
        )


def check_blocks(blocks: int) -> None:
    """Check a number of blocks. Raises ValueError."""
    if type(blocks) is not int or blocks < 1:
        raise ValueError(f"expected at least 1 block, got blocks={blocks!r}")
