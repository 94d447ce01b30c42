"""In a sandbox: `torch_distributed`, for plays. The process group that a student's program of torch's finds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch.distributed

from distlib.communicator import Communicator
from distlib.judge.remote.rank_communicator import RankCommunicator
from distlib.torch_backend.default_group import default_group
from distlib.torch_backend.torch_group import NAME

_PASSES_ON = True  # see worlds.call_site

_dist: Any = torch.distributed


@contextlib.contextmanager
def torch_distributed(
    comm: Communicator, backend: str = NAME, *, all_reduce: Callable[..., object] | None = None
) -> Iterator[Any]:
    """See distlib.torch_distributed.

    Raises:
        RuntimeError: another backend, an all-reduce of one's own, or a communicator that is not the judge's.
    """
    if not isinstance(comm, RankCommunicator) or backend != NAME or all_reduce is not None:
        raise RuntimeError("the library's torch_distributed is not there while your own function is graded")
    with default_group(comm, _dist.HashStore, "torch_distributed") as dist:
        yield dist
