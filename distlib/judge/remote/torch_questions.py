"""What the judge does for a call of torch.distributed on a remote rank: it runs the library's own, on that rank's side.

    remote rank     DistlibGroup ── "torch": all_gather, its own tensor, the shapes of the others ──►
    judge           torch_calls.all_gather(comm, …): each message is counted                      ◄──► other ranks
    remote rank     ◄── the tensors that the call has written

Names, shapes and numbers come from a stranger; each is checked before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.collectives.reduction import check_op
from distlib.communicator import Communicator, ReduceOp
from distlib.judge.remote.question import text, whole
from distlib.torch_backend import torch_calls as calls

_LONGEST_TEXT = 1_000  # characters
_FORMS = ("_into_tensor", "_tensor", "_single")  # how torch's names of a call end, depending on what it is given


@dataclass(frozen=True)
class TorchCall:
    """One call, as a rank asks for it.

    Attributes:
        name: one of `_RUN`.
        text: the call in torch's words, by which ranks compare: "all_gather(4 × 3 float32)".
        given: the tensors that it reads. Without landings it changes them in place.
        landings: the tensors that it only writes into.
        root: the rank that has the data or gets them.
        op: the reduction.
    """

    name: str
    text: str
    given: Sequence[torch.Tensor]
    landings: Sequence[torch.Tensor]
    root: int
    op: ReduceOp

    @property
    def changed(self) -> Sequence[torch.Tensor]:
        """What the call has written, afterwards."""
        return self.landings or self.given

    def run(self, comm: Communicator) -> None:
        """Run it on the rank of `comm`."""
        _RUN[self.name](comm, self)


def torch_call(comm: Communicator, details: dict[str, Any], landings: Sequence[torch.Tensor]) -> TorchCall:
    """The call that a rank asks for.

    Args:
        comm: of the rank, in the call's group.
        details: what it has told: "call", "text", "given", "root", "op".
        landings: made in the shapes that it has told.

    Raises:
        ValueError, TypeError: it makes no sense.
    """
    name, said, given = details["call"], text(details["text"], _LONGEST_TEXT), details["given"]
    if name not in _RUN or _base(said) != name:
        raise ValueError(f"expected one of the calls {', '.join(_RUN)}, got {name!r} as {said!r}")
    if type(given) is not list or not all(isinstance(each, torch.Tensor) for each in given):
        raise TypeError(f"{name} expected a list of tensors")
    root = whole(details["root"], 0, comm.world_size - 1)
    op = ReduceOp[text(details["op"], len("PRODUCT"))]
    for_all = {"gather": (landings, comm.rank == root), "scatter": (given, comm.rank == root)}
    for_all |= {"all_gather": (landings, True), "reduce_scatter": (given, True)}
    pieces, needed = for_all.get(name, ((), False))
    if needed and (not pieces or len(pieces) % comm.world_size):
        raise ValueError(f"{name} expected {comm.world_size} tensors, one for each rank, got {len(pieces)}")
    if "reduce" in name:
        for tensor in given:
            check_op(name, op, tensor)
    return TorchCall(name, said, given, landings, root, op)


def _base(text: str) -> str:
    """The name of a call without its form: "all_gather" of "all_gather_into_tensor(…)"."""
    name = text.partition("(")[0].removesuffix("_coalesced")
    return next((name.removesuffix(form) for form in _FORMS if name.endswith(form)), name)


_RUN: dict[str, Callable[[Communicator, TorchCall], None]] = {
    "all_gather": lambda comm, call: calls.all_gather(comm, call.landings, call.given[0]),
    "all_reduce": lambda comm, call: calls.all_reduce(comm, call.given, call.op, calls.default_all_reduce),
    "all_to_all": lambda comm, call: calls.all_to_all(comm, call.landings, call.given),
    "broadcast": lambda comm, call: calls.broadcast(comm, call.given, call.root),
    "gather": lambda comm, call: calls.gather(comm, call.landings, call.given[0], call.root),
    "reduce": lambda comm, call: calls.reduce(comm, call.given[0], call.root, call.op),
    "reduce_scatter": lambda comm, call: calls.reduce_scatter(comm, call.landings[0], call.given, call.op),
    "scatter": lambda comm, call: calls.scatter(comm, call.landings[0], call.given, call.root),
}
