"""`torch.distributed.monitored_barrier`: a barrier with a time limit, after which rank 0 says who has not come.

    rank 1, 2, …  ──I am here──► rank 0 ──all are here, or not──► rank 1, 2, …

torch offers it for gloo alone, so it is taught that this backend has it, too. The texts of the errors are torch's.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed

from distlib.communicator import Communicator, Work

_PASSES_ON = True  # see worlds.call_site

_dist: Any = torch.distributed
_LOOK_EVERY = 0.001  # seconds
_LONGEST = timedelta(minutes=30)  # as torch's process groups wait by default


def monitored_barrier(comm: Communicator, limit: timedelta, wait_all_ranks: bool) -> None:
    """Return when every rank has called it.

    Args:
        limit: how long to wait for the others.
        wait_all_ranks: whether rank 0 names all that are missing, and not just the first.

    Raises:
        RuntimeError: some have not come. Only rank 0 knows which.
    """
    comm = comm.within("monitored_barrier()")
    give_up = comm.time() + limit.total_seconds()
    answer = torch.zeros(1, dtype=torch.int32)
    if comm.rank != 0:
        sent, answered = comm.isend(answer, 0), comm.irecv(answer, 0)
        if not (_over(comm, sent, give_up) and _over(comm, answered, give_up)) or bool(answer):
            raise RuntimeError(
                f"Rank {comm.rank} successfully reached monitoredBarrier, but received errors while waiting for "
                "send/recv from rank 0. Please check rank 0 logs for faulty rank."
            )
        return
    if not limit:
        raise RuntimeError("Rank 0 timed out in monitoredBarrier after 0 ms, without hearing any other rank")
    knocks = {src: comm.irecv(torch.zeros(1, dtype=torch.int32), src) for src in range(1, comm.world_size)}
    here = [src for src, knock in knocks.items() if _over(comm, knock, give_up)]
    missing = [src for src in knocks if src not in here]
    told = [comm.isend(torch.tensor([len(missing)], dtype=torch.int32), dst) for dst in here]
    if not missing:
        for each in told:
            each.wait()
    else:  # those that have come may have given up in the meantime
        named = missing if wait_all_ranks else missing[:1]
        who = f"Rank{'s' * (len(named) > 1)} {', '.join(map(str, named))}"
        raise RuntimeError(f"{who} failed to pass monitoredBarrier in {limit.total_seconds() * 1000:.0f} ms")


def _over(comm: Communicator, work: Work, give_up: float) -> bool:
    """Wait until a message is over, or the time is."""
    while not work.is_completed():
        if comm.time() >= give_up:
            return False
        time.sleep(_LOOK_EVERY)
    work.wait()
    return True


def time_limit(timeout: Any) -> timedelta:
    """What torch's callers give as a time limit: a timedelta, a number of seconds, or None for the default."""
    return timeout if isinstance(timeout, timedelta) else _LONGEST if timeout is None else timedelta(0, timeout)


@functools.cache
def teach_torch(kind: type[Any]) -> None:
    """Have torch's function ask a group of this kind for it, and all others as before. Once in a process."""
    inner: Callable[..., None] = _dist.monitored_barrier

    @functools.wraps(inner)
    def of_any_group(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        chosen = _dist.group.WORLD if group is None else group
        if isinstance(chosen, kind):
            chosen.monitored_barrier(timeout, wait_all_ranks)
        else:
            inner(group, timeout, wait_all_ranks)

    _dist.monitored_barrier = _dist.distributed_c10d.monitored_barrier = of_any_group
