"""On a rank: what the names of a check's helpers lead to. The judge does their work; only the tensor travels.

    all_reduce(comm, tensor, async_op=True)  ──"helper"──►  the library's, on the judge's side of this rank
    work.wait()                              ──"wait"────►  … until it is done;  the result  ──►  into tensor

A helper that only computes gets plain values, and the answer comes back. One that works on a model sends its tensors.
So no code of a helper is in the sandbox, where a student could take it for an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from distlib.checks.plays.plain import plain
from distlib.checks.student_communicator import noted, unwrapped
from distlib.communicator import Communicator, ReduceOp, Work
from distlib.judge.remote.rank_communicator import RankCommunicator, ask
from distlib.judge.remote.wire import Wire
from distlib.network import Cluster, Link


def supplied_helper(name: str, wire: Wire) -> tuple[str, Callable[..., Any]]:
    """The name that the student's code uses, and the function that it leads to."""
    if name in _PURE:
        return name, _computed(name, wire)
    return name, _named(_HELPERS[name](name) if name in _HELPERS else _in_place(name), name)


def _computed(name: str, wire: Wire) -> Callable[..., Any]:
    def helper(*args: Any, **kwargs: Any) -> Any:
        options = {key: _for_the_wire(value) for key, value in kwargs.items()}
        return ask(wire, "compute", name=name, args=[_for_the_wire(value) for value in args], options=options)

    return _named(helper, name)


def _for_the_wire(value: Any) -> Any:
    """A network as it is, all else as plain values: a Counter of clocks is a dict."""
    return value if isinstance(value, Cluster | Link) else plain(value)


def _in_place(name: str) -> Callable[..., None]:
    def helper(comm: Communicator, tensor: torch.Tensor) -> None:
        _inside(comm).supplied(name, tensor)

    return helper


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

    return helper


def _broadcast(name: str) -> Callable[..., Work | None]:
    def helper(comm: Communicator, tensor: torch.Tensor, root: int = 0, algorithm: str = "tree") -> Work | None:
        return _inside(comm).supplied(name, tensor, root=root, algorithm=algorithm)

    return helper


def _split_batch(name: str) -> Callable[..., Any]:
    return lambda comm, batch: _inside(comm).compute(name, batch)


def _replicate(name: str) -> Callable[..., Any]:
    def helper(comm: Communicator, model: torch.nn.Module) -> None:
        _inside(comm).supplied_all(name, [*model.parameters(), *model.buffers()])

    return helper


def _gather_outputs(name: str) -> Callable[..., Any]:
    return lambda comm, output, batch_size: _inside(comm).compute(name, output, batch_size=int(batch_size))


def _reduce_gradients(name: str) -> Callable[..., Any]:
    def helper(comm: Communicator, model: torch.nn.Module) -> None:
        _inside(comm).supplied_all(name, [p.grad for p in model.parameters() if p.grad is not None])

    return helper


_PURE = ("assign_buckets", "expand_nodelist", "predict_time", "may_proceed")
_HELPERS: dict[str, Callable[[str], Callable[..., Any]]] = {
    "all_reduce": _all_reduce,
    "broadcast": _broadcast,
    "split_batch": _split_batch,
    "replicate": _replicate,
    "gather_outputs": _gather_outputs,
    "reduce_gradients": _reduce_gradients,
}


def _named(helper: Callable[..., Any], name: str) -> Callable[..., Any]:
    helper.__name__ = helper.__qualname__ = name
    return helper


def _inside(comm: Communicator) -> RankCommunicator:
    inside = unwrapped(comm)
    assert isinstance(inside, RankCommunicator)
    return inside
