"""The interface that every algorithm of the course is written against.

A rank sees the others only through a `Communicator`. The same function runs on real processes (`World`), and on
anything else that implements these few methods, because it never asks for more:

    send ──────► recv        one message, blocking: `send` returns when the other rank has taken it
    exchange ◄─► exchange    send and receive at the same time, which is what a ring does in every step
    start                    communicate in the background while the rank carries on, as DDP does during backward
    barrier                  nobody passes before everybody has arrived
    split                    smaller communicators over some of the ranks

Names and meaning follow torch.distributed (https://docs.pytorch.org/docs/stable/distributed.html).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import torch

from distlib.communicator_names import not_of_a_communicator

_PASSES_ON = True  # see worlds.call_site

if TYPE_CHECKING:
    from distlib.network import Cluster


class ReduceOp(Enum):
    """How an all-reduce combines the values of the ranks, element by element."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"


class Work(ABC):
    """The handle of what `isend`, `irecv` or `start` has begun, and which may still be under way."""

    @abstractmethod
    def wait(self) -> int:
        """Block until it has completed. Returns the rank at the other end of the message; for `start`, this rank.

        Before that, the tensor of an `isend` must not be changed and the tensor of an `irecv` must not be read.

        Raises:
            whatever the call begun by `start` raised.
        """

    @abstractmethod
    def is_completed(self) -> bool:
        """True once `wait` would return at once. Never blocks."""


class DoneWork(Work):
    """Nothing is under way any more. `rank`: what `wait` returns."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def wait(self) -> int:
        return self._rank

    def is_completed(self) -> bool:
        return True


class AllOf(DoneWork):
    """Several that are under way, as one. `rank`: what `wait` returns when all of them are over."""

    def __init__(self, rank: int, works: Sequence[Any]) -> None:
        super().__init__(rank)
        self._works = works

    def wait(self) -> int:
        for work in self._works:
            work.wait()
        return super().wait()

    def is_completed(self) -> bool:
        return all([work.is_completed() for work in self._works])


class Communicator(ABC):
    """What one rank needs to talk to the others. One rank function gets one communicator.

    Attributes:
        rank: this rank's number, 0 … world_size − 1.
        world_size: how many ranks there are in this communicator.
        device: the device on which this rank's tensors live.
        network: the links between the ranks of the world, where they are known: in a `SimulatedWorld` and in a paced
            `World`. None elsewhere.
        call: the collective call that its messages belong to; None where the library's collectives are not at work.
    """

    rank: int
    world_size: int
    device: torch.device
    network: Cluster | None = None
    call: str | None = None

    def __reduce__(self) -> Any:
        raise TypeError("a communicator belongs to its rank and to the run: it can't be copied, sent, returned or kept")

    @property
    def size(self) -> int:
        """The number of ranks in this communicator: another word for `world_size`, used for groups."""
        return self.world_size

    def __getattr__(self, name: str) -> Any:
        """Say what to write instead of a name that a communicator has not, such as comm.all_reduce."""
        raise not_of_a_communicator(name)

    def send(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> None:
        """Send `tensor` to rank `dst`; return when that rank has taken the message.

        Two ranks that both `send` to each other first wait forever; see `exchange`.

        Args:
            tensor: any shape, any dtype, also non-contiguous or empty. It is not changed.
            dst: the receiving rank, not this one.
            tag: a number that the receiver must ask for; messages of one tag arrive in the order they were sent.

        Raises:
            MessageMismatch: the receiver expects a different number of elements or a different dtype, `dst` does not
                exist, or it is this rank.
            PeerLost: `dst` has died, in a world that survives deaths; see worlds.deaths.
        """
        self.isend(tensor, dst, tag).wait()

    def recv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> int:
        """Wait for a message from rank `src` (None: from anyone) and write it into `tensor`, in place.

        Args:
            tensor: as many elements as the message has, of the same dtype. The shape may differ, as in torch.
            src: the sending rank, or None to take the first message that comes.
            tag: the tag the sender used.

        Returns:
            The rank that sent the message.

        Raises:
            MessageMismatch: the message has a different number of elements or a different dtype (nothing is written
                then), `src` does not exist, or it is this rank.
            PeerLost: `src` has died, in a world that survives deaths. With None: a rank has died that no receive from
                anyone has reported to this rank before.
        """
        return self.irecv(tensor, src, tag).wait()

    @abstractmethod
    def isend(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> Work:
        """Start a `send` and return at once. Call `wait` on the result before changing `tensor`."""

    @abstractmethod
    def irecv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> Work:
        """Start a `recv` and return at once. Call `wait` on the result before reading `tensor`."""

    def exchange(self, outgoing: torch.Tensor, dst: int, incoming: torch.Tensor, src: int, tag: int = 0) -> None:
        """Send `outgoing` to `dst` and receive `incoming` from `src` at the same time.

        It cannot deadlock where every rank exchanges, and it is correct on every backend. `incoming` is written in
        place; the two tensors must not share memory. `dst` and `src` may be the same rank.

        Raises:
            MessageMismatch, PeerLost: as for `send` and `recv`.
        """
        receiving = self.irecv(incoming, src, tag)
        sending = self.isend(outgoing, dst, tag)
        sending.wait()
        receiving.wait()

    def start(self, function: Callable[..., object], /, *args: Any, **kwargs: Any) -> Work:
        """Begin `function(comm, *args, **kwargs)` in the background, and return at once.

        Started calls run one after the other, in the order in which the rank started them. Messages that the rank sends
        and receives itself meanwhile wait until all started calls are done. So every rank must start the same
        collectives in the same order. Leave the tensors that were handed over alone until `wait` has returned.

            work = comm.start(all_reduce, bucket)      # the same as all_reduce(comm, bucket, async_op=True)
            ...                                        # compute something else
            work.wait()

        Real ranks have a communication thread for it. In a simulated world it runs in virtual time, at the same time as
        `sleep`. A communicator that can't do two things at a time makes the call at once.
        """
        function(self, *args, **kwargs)
        return DoneWork(self.rank)

    def run_collective(self, function: Callable[[Communicator], object]) -> None:
        """Run `function(self)`, which sends and receives, and computes only what a collective does.

        In a simulated world where each rank has a thread, the collectives of all ranks run in one: to go from rank to
        rank there takes a microsecond in place of tens. Raises what the function raises.
        """
        function(self)

    @abstractmethod
    def barrier(self) -> None:
        """Return when every rank of this communicator has called `barrier`.

        Raises:
            PeerLost: one of them has died, in a world that survives deaths.
        """

    @abstractmethod
    def split(self, color: int | None, key: int | None = None) -> Communicator | None:
        """Make smaller communicators; every rank of this one must call it.

        Args:
            color: ranks that give the same color end up together. None: this rank joins none, and gets None.
            key: the order inside the new communicator (ties, and None, by the old rank).
        """

    def subgroup(self, members: Sequence[int], name: str) -> Communicator:
        """A smaller communicator over `members`, made without a message: only they call it, each with the same name.

        Its messages are told from all others by that name, so two subgroups of one communicator need two names.

        Args:
            members: ranks of this communicator, this one among them, in the order of their new numbers.
        """
        raise NotImplementedError(f"{type(self).__name__} has no subgroups: use split, which all ranks call")

    def everybody(self, name: str) -> Communicator:
        """A communicator of the same ranks, whose messages are told from those of this one. All ranks call it.

        Args:
            name: what a deadlock report calls the wait for the others.
        """
        raise NotImplementedError(f"{type(self).__name__} has no such copies: use split, which all ranks call")

    def within(self, call: str) -> Communicator:
        """This communicator for the messages of one collective call, such as "broadcast(root=2)".

        When messages of two different calls meet, that is a `MessageMismatch`; a deadlock report names the call each
        rank is in. The communicator returned is for messages, not for barriers and splits. A communicator that can't
        tell calls apart returns itself.
        """
        return self

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass on this rank's clock (see `time`)."""

    @abstractmethod
    def time(self) -> float:
        """Seconds since the run began: the wall clock on real ranks; in a paced world the clock of the network."""
