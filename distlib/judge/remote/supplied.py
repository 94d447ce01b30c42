"""On a rank: what the names of a check's helpers lead to. The judge does their work; only the tensor travels.

    all_reduce(comm, tensor, async_op=True)  ──"helper"──►  the library's, on the judge's side of this rank
    work.wait()                              ──"wait"────►  … until it is done;  the result  ──►  into tensor

A helper that only computes gets plain values, and the answer comes back. A helper with a dot in its name
("parts.replicate") is a function of a play's file, which is here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from distlib.checks.plays import file_of_plays
from distlib.checks.student_communicator import noted, unwrapped
from distlib.communicator import Communicator, ReduceOp, Work
from distlib.judge.remote.rank_communicator import RankCommunicator, ask
from distlib.judge.remote.wire import Wire


def supplied_helper(name: str, wire: Wire) -> tuple[str, Callable[..., Any]]:
    """The name that the student's code uses, and the function that it leads to."""
    if name in _PURE:
        return name, _named(lambda *args, **kwargs: ask(wire, "compute", name=name, args=args, options=kwargs), name)
    file, _, function = name.rpartition(".")
    if file:
        return function, getattr(file_of_plays(file), function)
    return name, _OPTIONS.get(name, _in_place)(name)


def _in_place(name: str) -> Callable[..., None]:
    def helper(comm: Communicator, tensor: torch.Tensor) -> None:
        _inside(comm).supplied(name, tensor)

    return _named(helper, name)


def _all_reduce(name: str) -> Callable[..., Work | None]:
    def helper(
        comm: Communicator,
        tensor: torch.Tensor,
        op: ReduceOp = ReduceOp.SUM,
        algorithm: str = "ring",
        async_op: bool = False,
    ) -> Work | None:
        options = {"op": ReduceOp(op).name, "algorithm": algorithm, "async_op": bool(async_op)}
        return noted(comm, _inside(comm).supplied(name, tensor, **options), name)

    return _named(helper, name)


def _broadcast(name: str) -> Callable[..., Work | None]:
    def helper(comm: Communicator, tensor: torch.Tensor, root: int = 0, algorithm: str = "tree") -> Work | None:
        return _inside(comm).supplied(name, tensor, root=root, algorithm=algorithm)

    return _named(helper, name)


_PURE = ("assign_buckets", "predict_time")
_OPTIONS: dict[str, Callable[[str], Callable[..., Any]]] = {"all_reduce": _all_reduce, "broadcast": _broadcast}


def _named(helper: Callable[..., Any], name: str) -> Callable[..., Any]:
    helper.__name__ = helper.__qualname__ = name
    return helper


def _inside(comm: Communicator) -> RankCommunicator:
    inside = unwrapped(comm)
    assert isinstance(inside, RankCommunicator)
    return inside
