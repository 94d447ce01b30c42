"""Our all-reduces inside torch's own DistributedDataParallel, as a communication hook.

    with torch_distributed(comm):
        model = torch.nn.parallel.DistributedDataParallel(model)
        model.register_comm_hook(None, all_reduce_hook(comm, "ring"))

torch fills the buckets and says when one is full; the hook starts our all-reduce on it and hands back a future, which
torch waits for at the end of the backward pass. Documentation: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
"""

# No `from __future__ import annotations` here: torch compares the hook's annotations with the types themselves.

from collections.abc import Callable

import torch
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.futures import Future

from distlib.communicator import Communicator
from distlib.training.ddp.reducer import AllReduce, summing

Hook = Callable[[object, GradBucket], Future[torch.Tensor]]


def all_reduce_hook(comm: Communicator, algorithm: str | AllReduce = "ring") -> Hook:
    """A communication hook that averages each bucket over the ranks of `comm`; its messages are in the trace.

    Args:
        comm: a communicator of a World.
        algorithm: of `all_reduce`, or a function (comm, tensor) that sums up in place.
    """
    sum_up = summing(algorithm)

    def hook(state: object, bucket: GradBucket) -> Future[torch.Tensor]:
        future: Future[torch.Tensor] = Future()
        comm.start(_average_into, bucket.buffer(), sum_up, future)
        return future

    return hook


def _average_into(comm: Communicator, buffer: torch.Tensor, sum_up: AllReduce, future: Future[torch.Tensor]) -> None:
    try:
        sum_up(comm, buffer)
        future.set_result(buffer.div_(comm.world_size))
    except BaseException as error:
        future.set_exception(error)  # type: ignore[arg-type]
        raise
