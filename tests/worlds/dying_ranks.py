"""What ranks do in the tests of deaths. A module that is quick to import, which each new rank does."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import torch

from distlib import Communicator, PeerLost


def noticed(call: Callable[[], object]) -> list[int] | str:
    """Which ranks a call reports as lost; "fine" if it works."""
    try:
        call()
    except PeerLost as error:
        return error.lost
    return "fine"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def go_on_without_the_last(comm: Communicator, length: int) -> tuple[list[object], float]:
    """Ranks 0 and 1 find with every call that rank 2 is dead, then they exchange something."""
    if comm.rank == 2:
        comm.recv(torch.empty(length), 0)  # it was alive
        die()
    if comm.rank == 0:
        comm.send(torch.ones(length), 2)
    there, here, other = torch.ones(length), torch.zeros(length), 1 - comm.rank
    seen = [
        noticed(lambda: comm.recv(here, 2)),
        noticed(lambda: comm.send(there, 2)),
        noticed(lambda: comm.isend(there, 2).wait()),
        noticed(lambda: comm.irecv(here, 2).wait()),
        noticed(lambda: comm.exchange(there, 2, here, 2)),
        noticed(comm.barrier),
        noticed(lambda: comm.split(0)),
        noticed(lambda: comm.start(lambda comm: comm.recv(here, 2)).wait()),
        noticed(lambda: comm.recv(here, tag=9)),  # from anyone
    ]
    comm.exchange(there * comm.rank, other, here, other)
    return seen, here.sum().item() / length
