"""The parts of an exercise that a check brings itself, so that one wrong part does not spoil the next.

A student's `ring_all_reduce` may call their own `ring_reduce_scatter`, which may be wrong. While it is checked, these
names lead to the functions below. Messages that these send count, because the check has supplied them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from distlib import collectives
from distlib.communicator import Communicator
from distlib.network import Cluster, all_reduce_seconds

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


_HELPERS: dict[str, Callable[..., object]] = {
    function.__name__: function for function in (ring_reduce_scatter, ring_all_gather, predict_time)
}


def helper_origin(name: str) -> str:
    """How a message that the helper `name` sent is marked in a trace: the `via` of its call site.

    Raises:
        ValueError: there is no such helper.
    """
    if name not in _HELPERS:
        raise ValueError(f"helpers: expected one of {', '.join(_HELPERS)}, got {name!r}")
    helper = _HELPERS[name]
    return f"{helper.__module__}.{helper.__qualname__}"


def helper_named(name: str) -> Callable[..., Any]:
    """The helper of this name."""
    return _HELPERS[name]


@contextmanager
def supplied(function: Callable[..., object], names: Sequence[str]) -> Iterator[None]:
    """For one block, let `names` in the module (or notebook) of `function` lead to our helpers.

    Not replaced: a copy under another name (`scatter = ring_reduce_scatter`), and what a function uses that was
    imported from a file, because the ranks import that file themselves.
    """
    scope = getattr(function, "__globals__", {})
    before = {name: scope.get(name, _MISSING) for name in names}
    scope.update({name: _HELPERS[name] for name in names})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _MISSING:
                del scope[name]
            else:
                scope[name] = value
