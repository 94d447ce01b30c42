"""The parts of an exercise that a check brings itself, so that one wrong part does not spoil the next.

A student's `ring_all_reduce` may call their own `ring_reduce_scatter`, which may be wrong. While it is checked, these
names lead to the functions below. Messages that these send count, because the check has supplied them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from distlib import collectives
from distlib.checks.student_communicator import noted, unwrapped
from distlib.communicator import Communicator, ReduceOp, Work
from distlib.exercises.environments.node_lists import written_out
from distlib.exercises.master.parts import gather_outputs, reduce_gradients, replicate, split_batch
from distlib.network import Cluster, all_reduce_seconds
from distlib.training.buckets import assign_buckets

_MISSING = object()


def ring_reduce_scatter(comm: Communicator, tensor: torch.Tensor) -> None:
    """In place; afterwards chunk `comm.rank` of `tensor` holds the sum over all ranks. See distlib.collectives."""
    collectives.ring_reduce_scatter(comm, tensor)


def ring_all_gather(comm: Communicator, tensor: torch.Tensor) -> None:
    """In place; rank r's chunk r ends up on every rank. See distlib.collectives."""
    collectives.ring_all_gather(comm, tensor)


def predict_time(algorithm: str, nbytes: int, cluster: Cluster) -> float:
    """Seconds that an all-reduce of `nbytes` bytes takes on a cluster, by the closed forms of distlib.network."""
    return all_reduce_seconds(algorithm, cluster, nbytes, itemsize=1)


def all_reduce(
    comm: Communicator,
    tensor: torch.Tensor,
    op: ReduceOp = ReduceOp.SUM,
    algorithm: str = "ring",
    async_op: bool = False,
) -> Work | None:
    """In place; with `async_op` it goes on in the background until `wait`. See distlib.collectives."""
    work = collectives.all_reduce(unwrapped(comm), tensor, op, algorithm, async_op)
    return noted(comm, work, "all_reduce")


def broadcast(comm: Communicator, tensor: torch.Tensor, root: int = 0, algorithm: str = "tree") -> None:
    """In place; every rank ends with the root's tensor. See distlib.collectives."""
    collectives.broadcast(unwrapped(comm), tensor, root, algorithm)


def may_proceed(clocks: Mapping[int, int], worker: int, bound: float) -> bool:
    """Whether a worker is at most `bound` gradients ahead of the slowest. See distlib.training.parameter_server."""
    from distlib.training import parameter_server  # only exercise 07 pays for it

    if worker not in clocks:
        raise ValueError(f"may_proceed: expected one of the workers in clocks, {list(clocks)}, got {worker!r}")
    return bool(parameter_server.may_proceed(clocks, worker, bound))


def expand_nodelist(text: str) -> list[str]:
    """The names in a node list of Slurm's that is right, such as "node[01-03,07]"."""
    return written_out(text)


_COLLECTIVES = (ring_reduce_scatter, ring_all_gather, all_reduce, broadcast)
_PARTS = (split_batch, replicate, gather_outputs, reduce_gradients)
_HELPERS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (*_COLLECTIVES, *_PARTS, predict_time, assign_buckets, may_proceed, expand_nodelist)
}


def helper_origin(name: str) -> str:
    """How a message that the helper `name` sent is marked in a trace: the `via` of its call site.

    Raises:
        ValueError: there is no such helper.
    """
    helper = helper_named(name)
    return f"{helper.__module__}.{helper.__qualname__}"


def helper_origins(name: str) -> tuple[str, ...]:
    """The helper's origin, and that of the library's function of this name, where it is the same."""
    same = getattr(collectives, name, None) if name in ("all_reduce", "broadcast") else None
    return (helper_origin(name), *([f"{same.__module__}.{same.__qualname__}"] if same else []))


def helper_named(name: str) -> Callable[..., Any]:
    """The helper of this name.

    Raises:
        ValueError: there is no such helper.
    """
    if name not in _HELPERS:
        raise ValueError(f"helpers: expected one of {', '.join(_HELPERS)}, got {name!r}")
    return _HELPERS[name]


@contextmanager
def supplied(function: Callable[..., object], names: Sequence[str]) -> Iterator[None]:
    """For one block, let `names` in the module (or notebook) of `function` lead to our helpers.

    Not replaced: a copy under another name (`scatter = ring_reduce_scatter`), and what a function uses that was
    imported from a file, because the ranks import that file themselves.
    """
    scope = scope_of(function)
    new = {name: helper_named(name) for name in names}
    before = {name: scope.get(name, _MISSING) for name in new}
    scope.update(new)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _MISSING:
                del scope[name]
            else:
                scope[name] = value


def scope_of(function: object) -> dict[str, Any]:
    """The names of the module or notebook in which a function was written, or the methods of a class.

    A decorator of a library's, such as torch.no_grad, is looked through.
    """
    if not isinstance(function, type):
        return getattr(inspect.unwrap(function), "__globals__", {}) if callable(function) else {}
    methods = (getattr(value, "__func__", value) for value in vars(function).values())
    scopes = (scope_of(method) for method in methods if inspect.isroutine(method))
    return next((scope for scope in scopes if scope), {})
