"""The communicator that a graded function is given: what the exercise allows, and nothing else.

    your function ──► StudentCommunicator ──► the world's communicator
                      rank, world_size, size, device
                      send, recv, isend, irecv, exchange, barrier, split

It only passes calls on. Messages look in the trace as if the function had called the world's communicator itself.

What it can't do: Python hides nothing from code that goes looking. A function that digs out the communicator inside
gains no marks by it, because its messages are not its own lines' (see `distlib.grading.traffic`), but it isn't stopped.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from distlib.communicator import Communicator, Work

ALLOWED = ("rank", "world_size", "size", "device", "send", "recv", "isend", "irecv", "exchange", "barrier", "split")


class StudentCommunicator:
    """A view of a communicator with only the names in `ALLOWED`. Methods as in `distlib.Communicator`.

    Args:
        communicator: what the calls are passed on to.
    """

    __slots__ = ("_communicator",)

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator

    @property
    def rank(self) -> int:
        """This rank's number, 0 … world_size − 1."""
        return self._communicator.rank

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return self._communicator.world_size

    @property
    def size(self) -> int:
        """Another word for `world_size`, used for groups."""
        return self._communicator.world_size

    @property
    def device(self) -> torch.device:
        """The device on which this rank's tensors live."""
        return self._communicator.device

    def send(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> None:
        """Send `tensor` to rank `dst`; return when that rank has taken the message."""
        self._communicator.send(tensor, dst, tag)

    def recv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> int:
        """Wait for a message from rank `src` (None: from anyone), write it into `tensor`, return its sender."""
        return self._communicator.recv(tensor, src, tag)

    def isend(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> Work:
        """Start a `send` and return at once. Call `wait` on the result before changing `tensor`."""
        return self._communicator.isend(tensor, dst, tag)

    def irecv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> Work:
        """Start a `recv` and return at once. Call `wait` on the result before reading `tensor`."""
        return self._communicator.irecv(tensor, src, tag)

    def exchange(self, outgoing: torch.Tensor, dst: int, incoming: torch.Tensor, src: int, tag: int = 0) -> None:
        """Send `outgoing` to `dst` and receive `incoming` from `src` at the same time."""
        self._communicator.exchange(outgoing, dst, incoming, src, tag)

    def barrier(self) -> None:
        """Return when every rank of this communicator has called `barrier`."""
        self._communicator.barrier()

    def split(self, color: int | None, key: int | None = None) -> StudentCommunicator | None:
        """Make smaller communicators, one for each color. None for a rank that gives the color None."""
        group = self._communicator.split(color, key)
        return None if group is None else StudentCommunicator(group)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"the communicator of this exercise has no '{name}'. It has {', '.join(ALLOWED[:-1])} and {ALLOWED[-1]}."
        )

    def __repr__(self) -> str:
        return f"<StudentCommunicator: rank {self.rank} of {self.world_size}>"


def unwrapped(communicator: Any) -> Communicator:
    """The communicator inside, for functions of the library that a check supplies."""
    inside = communicator._communicator if isinstance(communicator, StudentCommunicator) else communicator
    assert isinstance(inside, Communicator)
    return inside
