"""The communicator of a rank whose network is the judge: every call is one question over the wire, and its answer.

It does nothing by itself: who meets whom, what arrives, and what is an error, the judge decides. The `site` that goes
along says which line of the student's code is calling; it is only used to tell the student about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from distlib.communicator import AllOf, Communicator, Work
from distlib.judge.remote.wire import Wire
from distlib.worlds.call_site import find_call_site
from distlib.worlds.diagnosis import MessageMismatch, PeerLost
from distlib.worlds.message_check import check_apart, check_message
from distlib.worlds.tensor_bytes import from_bytes, to_bytes

_PASSES_ON = True  # see worlds.call_site

_ERRORS: dict[str, type[Exception]] = {
    "MessageMismatch": MessageMismatch,
    "ValueError": ValueError,
    "TypeError": TypeError,
    "RuntimeError": RuntimeError,
}


def ask(wire: Wire, what: str, **details: Any) -> Any:
    """Ask the judge for something, and wait for the answer. Threads of a rank take turns, so that each gets its own.

    Raises:
        MessageMismatch, PeerLost, ValueError, TypeError, RuntimeError: what the judge answers instead.
    """
    site = find_call_site()
    where = [site.place, site.function, site.line, site.via, site.file]
    with wire.asking:
        wire.send({"what": what, "site": where, **details, "question": wire.question})
        answer = wire.receive()
    if answer.get("error") == "PeerLost":
        raise PeerLost(answer["text"], answer["lost"])
    if "error" in answer:
        raise _ERRORS[answer["error"]](answer["text"])
    return answer["value"]


_NO_CLOCK = "a graded function has no clock: with one, it could tell others something without a message"


class RankCommunicator(Communicator):
    """A `Communicator` over a wire to the judge.

    Args:
        wire: the rank's wire.
        group: the judge's number for this communicator; 0 is the world.
        rank, world_size: in this communicator.
        call: the call of torch's that its messages belong to; "" outside of any.

    Attributes:
        group: as above.
    """

    def __init__(self, wire: Wire, group: int, rank: int, world_size: int, call: str = "") -> None:
        self._wire, self.group, self._call = wire, group, call
        self._begun: list[RemoteWork] | None = None  # in `start`: what goes on in the background
        self.rank, self.world_size = rank, world_size
        self.device = torch.device("cpu")

    def send(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> None:
        dst, tag = check_message(self, tensor, "send", dst, tag)
        self._ask("send", tensor=tensor, dst=dst, tag=tag)

    def recv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> int:
        src, tag = check_message(self, tensor, "receive", src, tag)
        arrived, source = self._ask("recv", like=_form(tensor), src=src, tag=tag)
        _fill(tensor, arrived)
        return source

    def isend(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> Work:
        dst, tag = check_message(self, tensor, "send", dst, tag)
        return RemoteWork(self._wire, self._ask("isend", tensor=tensor, dst=dst, tag=tag), [])

    def irecv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> Work:
        src, tag = check_message(self, tensor, "receive", src, tag)
        return RemoteWork(self._wire, self._ask("irecv", like=_form(tensor), src=src, tag=tag), [tensor])

    def exchange(self, outgoing: torch.Tensor, dst: int, incoming: torch.Tensor, src: int, tag: int = 0) -> None:
        dst, tag = check_message(self, outgoing, "send", dst, tag)
        src, tag = check_message(self, incoming, "receive", src, tag)
        check_apart(outgoing, incoming)
        _fill(incoming, self._ask("exchange", tensor=outgoing, dst=dst, like=_form(incoming), src=src, tag=tag))

    def barrier(self) -> None:
        self._ask("barrier")

    def split(self, color: int | None, key: int | None = None) -> Communicator | None:
        made = self._ask("split", color=color, key=key)
        return None if made is None else RankCommunicator(self._wire, *made)

    # ── for torch's process groups ───────────────────────────────────────────────────────────────────────────────

    def subgroup(self, members: Sequence[int], name: str) -> Communicator:
        return RankCommunicator(self._wire, *self._ask("subgroup", members=list(members), name=name))

    def everybody(self, name: str) -> Communicator:
        return RankCommunicator(self._wire, *self._ask("everybody", name=name))

    def within(self, call: str) -> Communicator:
        return RankCommunicator(self._wire, self.group, self.rank, self.world_size, call)

    def start(self, function: Callable[..., object], /, *args: Any, **kwargs: Any) -> Work:
        beginning = RankCommunicator(self._wire, self.group, self.rank, self.world_size, self._call)
        beginning._begun = []
        function(beginning, *args, **kwargs)
        return AllOf(self.rank, beginning._begun)

    def run_torch_call(
        self, call: str, given: Sequence[torch.Tensor], landings: Sequence[torch.Tensor], root: int = 0, op: str = "SUM"
    ) -> None:
        """Have the judge run one of torch's calls, or begin it where `start` has begun this.

        Args:
            call: its name, see `torch_questions`.
            given: what it reads; without `landings`, it is changed in place.
            landings: what it only writes into.
        """
        targets = [tensor.detach() for tensor in landings or given]
        told = self._ask(
            "torch",
            call=call,
            text=self._call,
            given=[tensor.detach() for tensor in given],
            landings=[_form(tensor) for tensor in landings],
            root=root,
            op=op,
            later=self._begun is not None,
        )
        if self._begun is None:
            fill(targets[: len(told["changed"])], told["changed"])
        else:
            self._begun.append(RemoteWork(self._wire, told["work"], targets))

    def sleep(self, seconds: float) -> None:
        raise RuntimeError(_NO_CLOCK)

    def time(self) -> float:
        raise RuntimeError(_NO_CLOCK)

    def _ask(self, what: str, **details: Any) -> Any:
        return ask(self._wire, what, group=self.group, **details)


class RemoteWork(Work):
    """The handle of what goes on at the judge's side.

    Args:
        number: the judge's, of this work.
        targets: what the tensors that it brings are written into.
    """

    def __init__(self, wire: Wire, number: int, targets: Sequence[torch.Tensor]) -> None:
        self._wire, self._number, self._targets = wire, number, targets
        self._peer: int | None = None

    def wait(self) -> int:
        if self._peer is None:
            arrived, self._peer = ask(self._wire, "wait", work=self._number)
            fill(self._targets, arrived)
        assert self._peer is not None
        return self._peer

    def is_completed(self) -> bool:
        if self._peer is None and ask(self._wire, "is_completed", work=self._number):
            self.wait()
        return self._peer is not None


def fill(targets: Sequence[torch.Tensor], arrived: Sequence[torch.Tensor]) -> None:
    """Write what has arrived into the tensors that it is for."""
    for target, values in zip(targets, arrived, strict=True):
        _fill(target, values)


def _form(tensor: torch.Tensor) -> tuple[list[int], str]:
    """Shape and dtype of a tensor to receive into."""
    return list(tensor.shape), str(tensor.dtype).removeprefix("torch.")


def _fill(tensor: torch.Tensor, arrived: torch.Tensor) -> None:
    from_bytes(to_bytes(arrived), tensor)
