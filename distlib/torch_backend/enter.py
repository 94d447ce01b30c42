"""`torch_distributed`: torch's default process group over the ranks of a communicator."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed

from distlib.arguments import described
from distlib.communicator import Communicator, ReduceOp
from distlib.torch_backend.default_group import default_group
from distlib.torch_backend.groups_of_threads import groups_of_this_thread
from distlib.torch_backend.streams import streams_of_this_rank
from distlib.torch_backend.torch_calls import AllReduce, default_all_reduce
from distlib.torch_backend.torch_group import NAME
from distlib.worlds.real.process_group import ProcessGroupCommunicator, torch_store_name
from distlib.worlds.simulated.simulator import SimulatedCommunicator

_PASSES_ON = True  # see worlds.call_site

_dist: Any = torch.distributed
_init_process_group = _dist.init_process_group  # torch's own, also while a whole program has another in its place
_OF_TORCH = ("gloo", "nccl")


@contextlib.contextmanager
def torch_distributed(
    comm: Communicator, backend: str = NAME, *, all_reduce: Callable[..., object] | None = None
) -> Iterator[Any]:
    """Inside a rank: torch.distributed's default process group over the ranks of `comm`, for one `with` block.

        with torch_distributed(comm) as dist:
            dist.all_reduce(tensor)

    Every rank of `comm` must enter the block.

    In a SimulatedWorld(contexts="threads") torch's programs take virtual time: `charge_computing` says what computing
    takes. There a mesh and tensors on the device "meta" have shapes alone, so that a model of billions of parameters
    needs no memory; and fully_shard overlaps as on a GPU, see torch_backend.streams. DistributedDataParallel reads
    numbers there, but with init_sync=False and find_unused_parameters=True; for a PipelineStage,
    torch.distributed.pipelining has to be imported before this block.

        with torch_distributed(comm) as dist, torch.device("meta"), charge_computing(comm, flops_per_second=400e12):
            mesh = dist.device_mesh.init_device_mesh("meta", (comm.world_size,))

    Args:
        backend: "distlib": the collectives of this course, whose messages stand in the trace and whose mistakes are
            named by rank and line. "gloo": torch's own; in a world whose ranks have GPUs, NCCL for what lies on them.
            "nccl": NCCL alone.
        all_reduce: an all-reduce of one's own for torch to use, such as the ring of an exercise: a function of a
            communicator and a flat tensor, in place, that sums up. None: see `default_all_reduce`.

    Raises:
        ValueError: an unknown backend, an all-reduce for torch's own, or no communicator of a `World` or of a
            SimulatedWorld(contexts="threads").
        RuntimeError: torch.distributed has a default process group already.
    """
    if backend != NAME:
        if backend not in _OF_TORCH:
            raise ValueError(f'torch_distributed has the backends "distlib", "gloo" and "nccl", got {backend!r}')
        if all_reduce is not None:
            raise ValueError(f"{backend} has an all-reduce of its own: leave out all_reduce, or the backend")
        with _group_of_torch(comm, backend) as dist:
            yield dist
        return
    with group_of_ours(comm, "torch_distributed", _with_op(all_reduce)) as dist:
        yield dist


@contextlib.contextmanager
def group_of_ours(comm: Communicator, name: str, all_reduce: AllReduce = default_all_reduce) -> Iterator[Any]:
    """torch's default process group over the ranks of `comm`, a world's. Arguments as of `default_group`."""
    with contextlib.ExitStack() as stack:
        for context in _isolated(comm):
            stack.enter_context(context)
        yield stack.enter_context(default_group(comm, lambda: _store(comm), name, all_reduce))


def _isolated(comm: Communicator) -> list[contextlib.AbstractContextManager[None]]:
    """What a rank needs that shares its process with others."""
    if isinstance(comm, ProcessGroupCommunicator):
        return []
    if not isinstance(comm, SimulatedCommunicator):
        raise ValueError(f"torch_distributed needs the communicator of a world, got {described(comm)}")
    if comm.shares_thread:
        raise ValueError(
            "torch_distributed needs a thread for each rank, since torch keeps its process groups by thread: make the "
            'world with SimulatedWorld(…, contexts="threads")'
        )
    return [groups_of_this_thread(), streams_of_this_rank(comm)]


def _store(comm: Communicator) -> Any:
    if isinstance(comm, ProcessGroupCommunicator):
        return comm._endpoint.open_store(torch_store_name(comm._endpoint, comm._group), comm.world_size)
    return _dist.HashStore()


def _with_op(all_reduce: Callable[..., object] | None) -> AllReduce:
    """An all-reduce that is told which reduction is asked for: one that only sums up is not asked for others."""
    if all_reduce is None:
        return default_all_reduce
    if not callable(all_reduce):
        raise TypeError(f"all_reduce expected a function of (comm, tensor), got {described(all_reduce)}")
    given = all_reduce
    parameters = inspect.signature(given).parameters
    if "op" in parameters:
        return lambda comm, tensor, op: given(comm, tensor, op=op)  # type: ignore[return-value]

    def summing(comm: Communicator, tensor: torch.Tensor, op: ReduceOp) -> None:
        if op not in (ReduceOp.SUM, ReduceOp.AVG):
            default_all_reduce(comm, tensor, op)
            return
        given(comm, tensor)
        if op is ReduceOp.AVG:
            tensor.div_(comm.world_size)

    return summing


@contextlib.contextmanager
def _group_of_torch(comm: Communicator, backend: str) -> Iterator[Any]:
    """torch's own process group, between the ranks of a `World`. Its messages do not appear in the trace.

    A trap that is closed here: a torch DDP refers to the group from C++, and often outlives the block. When such a
    DDP is the last that refers to it, torch ends the group without letting go of the interpreter's lock, and waits for
    gloo's threads. One that still has to free a Python callback, as of `work.get_future().then(…)`, waits for that
    lock: a deadlock (https://github.com/pytorch/pytorch/issues/56297). So the rank keeps a reference of its own until
    its function has returned. Torch does let go of the lock when the last reference is Python's.
    """
    if not isinstance(comm, ProcessGroupCommunicator):
        raise ValueError(f"torch's own {backend} needs the communicator of a World, got {described(comm)}")
    endpoint = comm._endpoint
    mixed = backend == "gloo" and endpoint.device.type == "cuda"
    chosen = "cpu:gloo,cuda:nccl" if mixed else backend
    _init_process_group(chosen, store=_store(comm), rank=comm.rank, world_size=comm.world_size)
    endpoint.kept.append(_dist.group.WORLD)
    try:
        comm.barrier()  # all are connected before anybody goes on
        yield _dist
        comm.barrier()  # nobody hangs up while another one still talks
    finally:
        _dist.destroy_process_group()
