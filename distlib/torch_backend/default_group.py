"""torch's default process group over the ranks of a communicator, whichever world that is of."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed

from distlib.communicator import Communicator
from distlib.torch_backend.monitored import teach_torch
from distlib.torch_backend.torch_calls import AllReduce, default_all_reduce
from distlib.torch_backend.torch_group import NAME, DistlibGroup

_PASSES_ON = True  # see worlds.call_site

_dist: Any = torch.distributed
_init_process_group = _dist.init_process_group  # torch's own, also while a whole program has another in its place


@dataclass(frozen=True)
class Base:
    """What the process groups of a rank are made from.

    Attributes:
        comm: of all ranks.
        all_reduce: the algorithm.
    """

    comm: Communicator
    all_reduce: AllReduce


_base: ContextVar[Base] = ContextVar("base")
_of_process: Base | None = None


@contextlib.contextmanager
def default_group(
    comm: Communicator, store: Callable[[], Any], name: str, all_reduce: AllReduce = default_all_reduce
) -> Iterator[Any]:
    """torch's default process group over the ranks of `comm`, for one block, whose messages are those of `comm`.

    Args:
        comm: of all ranks. Each of them enters the block.
        store: makes torch's store.
        name: of the function that the ranks have called, for a report about one that does not come.
        all_reduce: the algorithm of all-reduce.
    """
    import distlib_backend  # a module next to the package, needed only here

    with contextlib.ExitStack() as stack:
        stack.callback(setattr, sys, "excepthook", sys.excepthook)  # torch puts one around it that names the rank
        stack.callback(_dist.set_debug_level, _dist.get_debug_level())
        if _dist.get_debug_level() == _dist.DebugLevel.OFF:
            _dist.set_debug_level(_dist.DebugLevel.INFO)  # DDP names parameters that got no gradient
        token = _base.set(Base(comm.everybody(name), all_reduce))
        distlib_backend.register()
        try:
            _init_process_group(NAME, store=store(), rank=comm.rank, world_size=comm.world_size)
            try:
                yield _dist
            finally:
                if _dist.is_initialized():
                    _dist.destroy_process_group()
        finally:
            _base.reset(token)


def make_group(options: Any, _: object = None) -> DistlibGroup:
    """Called by torch for each process group of the backend "distlib": the default one, and those of new_group.

    Args:
        options: torch's: the group's name, and the ranks in it.

    Raises:
        RuntimeError: this process is no rank.
    """
    teach_torch(DistlibGroup)
    base = _base.get(_of_process)
    if base is None:
        raise RuntimeError(
            'the backend "distlib" needs a rank to run on: call torch_distributed(comm) in a function that a World '
            "runs, or start the script with torchrun or srun"
        )
    members = list(options.global_ranks_in_group)
    if not members:
        return DistlibGroup(base.comm, base.all_reduce, is_default=True)
    return DistlibGroup(base.comm.subgroup(members, str(options.group_id)), base.all_reduce)


def is_rank() -> bool:
    """Whether process groups that are made here have ranks to run on."""
    return _base.get(_of_process) is not None


def use_for_process(comm: Communicator) -> None:
    """Make all process groups of this process over `comm`, outside of any block of `torch_distributed`."""
    global _of_process
    _of_process = Base(comm, default_all_reduce)
