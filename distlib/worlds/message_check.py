"""What can be wrong with the arguments of a call, found before anything is sent. The same on every transport."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from distlib.arguments import as_integer, described, remedy, short
from distlib.communicator import Communicator
from distlib.tensor_kinds import check_sendable
from distlib.worlds.diagnosis import MessageMismatch

_Peer = TypeVar("_Peer", int, int | None)
ORDER = (
    "The arguments come in this order: send(tensor, dst), recv(tensor, src), exchange(outgoing, dst, incoming, src)."
)


def check_message(comm: Communicator, tensor: torch.Tensor, verb: str, peer: _Peer, tag: int) -> tuple[_Peer, int]:
    """Check the arguments of a send or a receive, and return `peer` and `tag` as integers of Python.

    Args:
        verb: "send" or "receive".
        peer: the rank at the other end; None for anyone.

    Raises:
        TypeError: not a tensor, or a tensor as the rank.
        ValueError: a tag that is not an integer, a tensor that is not dense or not on the rank's device, or one to
            receive into whose elements share memory.
        MessageMismatch: the other rank does not exist, or is this rank.
    """
    if not isinstance(tensor, torch.Tensor):
        instead = f" ({remedy(tensor)})" if remedy(tensor) else ""
        raise TypeError(
            f"expected a torch.Tensor to {verb}, got {type(tensor).__name__}: {short(tensor)}{instead}. {ORDER}"
        )
    if isinstance(peer, torch.Tensor):
        raise TypeError(f"expected the number of a rank, got a tensor. {ORDER}")
    direction = "to" if verb == "send" else "from"
    number, tag_number = as_integer(peer), as_integer(tag)
    anyone = peer is None and verb == "receive"
    if not anyone and (number is None or not 0 <= number < comm.world_size):
        kind = f"Expected an int, got {described(peer)}. " if number is None else ""
        raise MessageMismatch(
            f"rank {comm.rank} wants to {verb} {direction} rank {short(peer) if number is None else number}, but the "
            f"ranks are 0 to {comm.world_size - 1}. {kind}Check how you compute the other rank."
        )
    if anyone and comm.world_size == 1:
        raise MessageMismatch(f"rank {comm.rank} wants to receive from anyone, but there is no other rank here.")
    if number == comm.rank:
        raise MessageMismatch(
            f"rank {comm.rank} wants to {verb} {direction} itself. A rank has its own data already; with "
            f"{comm.world_size} rank{'s' * (comm.world_size > 1)}, check how you compute the other rank."
        )
    if tag_number is None:
        raise ValueError(f"expected an integer tag, got {tag!r}")
    check_sendable(verb, tensor, written=verb == "receive")
    if tensor.device.type not in ("cpu", comm.device.type):
        raise ValueError(f"expected a dense tensor on {comm.device}, got one on {_elsewhere(tensor.device)}")
    return number, tag_number  # type: ignore[return-value]  # None where `peer` may be


def _elsewhere(device: torch.device) -> str:
    if device.type == "meta":  # nothing can be moved from there
        return "meta, which has a shape and no numbers: a SimulatedWorld takes it, for time and bytes alone"
    return f"{device}: move it with tensor.to(comm.device)"


def different_calls(src: int, there: tuple[str | None, str], dst: int, here: tuple[str | None, str]) -> str | None:
    """What is wrong if a message of `src` reaches `dst`: the two are in different collective calls; None if nothing.

    Args:
        there, here: of the sender and of the receiver, the collective call (None outside of one) and the line.
    """
    if there[0] is None or here[0] is None or there[0] == here[0]:
        return None
    return (
        f"rank {src} is in {there[0]} ({there[1]}), but rank {dst} is in {here[0]} ({here[1]}). All ranks have to make "
        "the same collective calls, in the same order and with the same arguments."
    )


@dataclass(frozen=True)
class End:
    """One end of a message, as an error tells of it.

    Attributes:
        rank: whose end it is.
        what: of the tensor: "2×3 float32".
        length: how many elements it has.
        place: the student's line.
        call: the collective call that it is a part of; None outside of one.
    """

    rank: int
    what: str
    device: str
    dtype: str
    length: int
    place: str
    call: str | None


def misfit(sender: End, receiver: End) -> str:
    """What is wrong where a message and its receiver differ in device, dtype or length."""
    sides = (
        f"rank {sender.rank} sends {sender.what} ({sender.place}), "
        f"but rank {receiver.rank} receives into {receiver.what} ({receiver.place})."
    )
    if sender.device != receiver.device:
        return f"{sides} One tensor lies on {sender.device}, the other on {receiver.device}: move one of them."
    if sender.dtype != receiver.dtype:
        return f"{sides} Make the dtypes the same, for example with torch.empty_like(…)."
    hint = " Chunks can differ in length by one: the one that comes need not be as long as yours."
    is_own_chunk = receiver.call is None and abs(sender.length - receiver.length) == 1  # no collective has cut it
    return f"{sides} Both need the same number of elements.{hint * is_own_chunk}"


def check_apart(outgoing: torch.Tensor, incoming: torch.Tensor) -> None:
    """An exchange takes two tensors that do not share memory. Seen for contiguous ones; others are not checked.

    What they are has been checked before: see `check_message`.
    """
    if outgoing.is_meta:
        return
    first, second = outgoing.data_ptr(), incoming.data_ptr()
    if first + outgoing.nbytes <= second or second + incoming.nbytes <= first:
        return
    if outgoing.is_contiguous() and incoming.is_contiguous() and outgoing.numel() and incoming.numel():
        raise ValueError("exchange: outgoing and incoming share memory; receive into a separate buffer")


def check_split(color: int | None, key: int | None) -> tuple[int | None, int | None]:
    """Check the arguments of a split, and return them as integers of Python, or None. A truth value is 0 or 1.

    Raises:
        ValueError: anything else.
    """
    return _number_or_none("color", color), _number_or_none("key", key)


def _number_or_none(name: str, value: int | None) -> int | None:
    number = int(value) if isinstance(value, bool) else as_integer(value)
    if number is None and value is not None:
        raise ValueError(f"split: expected an integer or None as {name}, got {value!r}")
    return number


def ranks_of_color(everybody: Sequence[tuple[int | None, int | None]], color: int) -> list[int]:
    """The ranks that gave `color`, in their order in the new group: by key, then by rank. `everybody`: (color, key)."""
    order = [
        (key if key is not None else rank, rank) for rank, (theirs, key) in enumerate(everybody) if theirs == color
    ]
    return [rank for _, rank in sorted(order)]
