"""The communicator that a graded function is given: what the exercise allows, and nothing else.

    your function ──► StudentCommunicator ──► the world's communicator
                      rank, world_size, size, device
                      send, recv, isend, irecv, exchange, barrier, split

It passes calls on. Messages look in the trace as if the function had called the world's communicator itself.

It also makes visible what a quick run would forgive: what an `irecv` brings is put into the tensor when `wait` is
called, not before; and handles that were not used as they must be are noted, as slips.

    irecv ──► a buffer of its own ── wait ──► the student's tensor        never waited for: nothing arrives
                                              zeros meanwhile are NaN     read before wait: NaN in the result
    isend ──► a copy to compare with ── wait: is the tensor as it was?    changed meanwhile: a slip

What it can't do: Python hides nothing from code that goes looking. A function that digs out the communicator inside
gains no marks by it, because its messages are not its own lines' (see `distlib.checks.senders`), but it isn't stopped.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import torch

from distlib.arguments import with_article
from distlib.checks.sentences import Sentences
from distlib.communicator import Communicator, DoneWork, Work
from distlib.worlds import call_site

_PASSES_ON = True  # see worlds.call_site

say = Sentences(__file__)
MOST_SPLITS = 8  # halves of halves of 256 ranks
ALLOWED = ("rank", "world_size", "size", "device", "send", "recv", "isend", "irecv", "exchange", "barrier", "split")


class Handle(Work):
    """A handle as a student gets it: it notes whether it is waited for.

    Args:
        work: what is under way.
        call: what has begun it: "isend".

    Attributes:
        call: as above.
        place: the student's line that has begun it.
        waited: whether `wait` was called.
    """

    def __init__(self, work: Work, call: str) -> None:
        self._work: Work = work
        self.call = call
        self.place = call_site.find_call_site().place
        self.waited = False

    def wait(self) -> int:
        self.waited = True
        self._work = DoneWork(self._work.wait())  # lets the tensor of the message go
        return self._work.wait()

    def is_completed(self) -> bool:
        return self._work.is_completed()

    def slip(self) -> str | None:
        """What was done wrong with it, one of `SLIPS`; None if nothing was."""
        return None if self.waited else "never waited"


class _Sending(Handle):
    def __init__(self, work: Work, tensor: torch.Tensor) -> None:
        super().__init__(work, "isend")
        self.tensor, self._before, self._changed = tensor.detach(), tensor.detach().clone(), False
        self.is_early = False

    def wait(self) -> int:
        if not self.waited:
            self._changed = not _same(self.tensor, self._before)
            self.tensor = self._before = torch.empty(0)  # lets the tensor go
        return super().wait()

    def slip(self) -> str | None:
        return "sent early" if self.is_early else "changed early" if self._changed else super().slip()


class _Receiving(Handle):
    def __init__(self, work: Work, landing: torch.Tensor, tensor: torch.Tensor) -> None:
        super().__init__(work, "irecv")
        self._landing, self.tensor, self.is_shared = landing, tensor.detach(), False
        if tensor.is_floating_point() and not tensor.any():
            self.tensor.fill_(math.nan)

    def wait(self) -> int:
        peer = super().wait()
        self.tensor.copy_(self._landing)
        self.tensor = self._landing = torch.empty(0)  # lets the tensor go; a second wait brings nothing new
        return peer

    def slip(self) -> str | None:
        return "one buffer for two" if self.is_shared else super().slip()


class Handles:
    """All handles that a student's function was given in one run, and how often it has made groups."""

    def __init__(self) -> None:
        self._handles: list[Handle] = []
        self._splits = 0

    def count_split(self) -> None:
        """Note that groups are made.

        Raises:
            RuntimeError: too often.
        """
        self._splits += 1
        if self._splits > MOST_SPLITS:
            raise RuntimeError(say("too_many_splits", most=MOST_SPLITS))

    def keep(self, handle: Handle) -> Handle:
        """Note a handle that was just made."""
        if isinstance(handle, _Receiving):
            handle.is_shared = any(_is_pending_into(other, handle.tensor) for other in self._handles)
        if isinstance(handle, _Sending):
            handle.is_early = any(_is_pending_into(other, handle.tensor) for other in self._handles)
        self._handles.append(handle)
        return handle

    def slips(self) -> list[tuple[str, str, str]]:
        """The slips: what, of which call, at which line. Those that explain others come first."""
        found = [(handle.slip(), handle.call, handle.place) for handle in self._handles]
        return sorted([(what, call, place) for what, call, place in found if what], key=lambda s: SLIPS.index(s[0]))


SLIPS = ("one buffer for two", "sent early", "changed early", "never waited")


def _is_pending_into(handle: Handle, tensor: torch.Tensor) -> bool:
    """Whether a receive into this very memory is under way."""
    if not isinstance(handle, _Receiving) or handle.waited or not tensor.numel():
        return False
    mine, other = tensor, handle.tensor
    return (mine.data_ptr(), mine.shape, mine.stride()) == (other.data_ptr(), other.shape, other.stride())


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors hold the same numbers; NaN is the same as NaN."""
    return bool(torch.all((left == right) | ((left != left) & (right != right))))


class StudentCommunicator:
    """A view of a communicator with only the names in `ALLOWED`. Methods as in `distlib.Communicator`.

    Args:
        communicator: what the calls are passed on to.
        handles: where handles are noted; groups share those of the whole.
    """

    __slots__ = ("_communicator", "_handles")

    def __init__(self, communicator: Communicator, handles: Handles | None = None) -> None:
        self._communicator = communicator
        self._handles = handles or Handles()

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
        values = tensor.detach() if isinstance(tensor, torch.Tensor) else tensor  # a message under way keeps no graph
        return self._handles.keep(_Sending(self._communicator.isend(values, dst, tag), tensor))

    def irecv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> Work:
        """Start a `recv` and return at once. Call `wait` on the result before reading `tensor`."""
        landing = torch.empty_like(tensor) if isinstance(tensor, torch.Tensor) else tensor  # irecv says what is wrong
        return self._handles.keep(_Receiving(self._communicator.irecv(landing, src, tag), landing, tensor))

    def exchange(self, outgoing: torch.Tensor, dst: int, incoming: torch.Tensor, src: int, tag: int = 0) -> None:
        """Send `outgoing` to `dst` and receive `incoming` from `src` at the same time."""
        self._communicator.exchange(outgoing, dst, incoming, src, tag)

    def barrier(self) -> None:
        """Return when every rank of this communicator has called `barrier`."""
        self._communicator.barrier()

    def split(self, color: int | None, key: int | None = None) -> StudentCommunicator | None:
        """Make smaller communicators, one for each color. None for a rank that gives the color None.

        Raises:
            RuntimeError: the 9th time in one run.
        """
        self._handles.count_split()
        group = self._communicator.split(color, key)
        return None if group is None else StudentCommunicator(group, self._handles)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(say("not_there", name=name, names=", ".join(ALLOWED[:-1]), last=ALLOWED[-1]))

    def __repr__(self) -> str:
        return f"<StudentCommunicator: rank {self.rank} of {self.world_size}>"


def noted(communicator: Any, work: Work | None, call: str) -> Work | None:
    """The handle of a helper's call, noted as the student's own are."""
    if work is None or not isinstance(communicator, StudentCommunicator):
        return work
    return communicator._handles.keep(Handle(work, call))


def unwrapped(communicator: Any, second: str = "tensor") -> Communicator:
    """The communicator inside, for functions that a check supplies.

    Args:
        second: what comes after it.

    Raises:
        TypeError: it is something else, such as the tensor.
    """
    inside = communicator._communicator if isinstance(communicator, StudentCommunicator) else communicator
    if not isinstance(inside, Communicator):
        raise TypeError(say("comm_first", second=second, found=named(inside)))
    return inside


def named(value: object) -> str:
    """What a value is, in an error: "a Tensor", "an int"."""
    return with_article(type(value).__name__)
