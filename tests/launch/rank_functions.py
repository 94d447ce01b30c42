"""A script for `distlib launch`: what the tests run on ranks."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from threading import Event

import psutil
import torch

from distlib import all_reduce, torch_distributed
from distlib.communicator import Communicator


def add_up(comm: Communicator, *lengths: int, algorithm: str = "ring") -> None:
    """All-reduces tensors of these lengths, and prints the first elements."""
    sums = []
    for length in lengths:
        tensor = torch.full((length,), 2.0**comm.rank)
        all_reduce(comm, tensor, algorithm=algorithm)
        assert bool((tensor == tensor[0]).all())
        sums.append(int(tensor[0]))
    print(sums)


def add_up_on_device(comm: Communicator) -> None:
    """All-reduces a small and a large tensor where the rank's tensors belong."""
    sums = [torch.full((length,), comm.rank + 1.0, device=comm.device) for length in (5, 50_000)]
    for tensor in sums:
        all_reduce(comm, tensor)
    print(comm.device.type, [float(tensor.mean()) for tensor in sums])


def show(comm: Communicator, *args: object, **kwargs: object) -> None:
    """Prints what it was called with, in two pieces that are one line."""
    sys.stdout.write(f"rank {comm.rank} of {comm.world_size}: ")
    print(*args, kwargs)
    print("to stderr", file=sys.stderr, end="")


def split(comm: Communicator) -> None:
    """Adds up in two halves, and in all."""
    half = comm.split(comm.rank % 2)
    assert half is not None
    for group in (half, comm):
        tensor = torch.tensor([comm.rank])
        all_reduce(group, tensor)
        group.barrier()
        print(int(tensor))


def with_torch(comm: Communicator) -> None:
    """torch.distributed's own all-reduce."""
    with torch_distributed(comm, "gloo") as dist:
        tensor = torch.full((3,), float(comm.rank))
        dist.all_reduce(tensor)
        print(tensor.tolist())


def fail(comm: Communicator) -> None:
    """Rank 1 raises, the others wait, compute, or don't listen."""
    if comm.rank == 1:
        comm.recv(torch.zeros(1), 2)
        raise ValueError("rank 1 has had enough")
    if comm.rank == 2:
        comm.send(torch.zeros(1), 1)
        while True:
            pass
    if comm.rank == 3:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        ctypes.CDLL(None).sleep(1000)
    comm.barrier()


def wait_in_a_circle(comm: Communicator) -> None:
    """A deadlock."""
    comm.recv(torch.zeros(4), (comm.rank + 1) % comm.world_size)


def do_not_fit(comm: Communicator) -> None:
    """Rank 3 sends 3 numbers, rank 0 wants 4."""
    if comm.rank == 3:
        comm.send(torch.zeros(3), 0)
    if comm.rank == 0:
        comm.recv(torch.zeros(4), 3)


def never_received(comm: Communicator) -> None:
    """Rank 2 starts a message that nobody takes."""
    if comm.rank == 2:
        comm.isend(torch.zeros(3), 0)


def die(comm: Communicator, rank: int) -> None:
    """One rank is killed while the others wait for it, or for one that does."""
    comm.barrier()
    if comm.rank == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    if comm.rank == (rank + 1) % comm.world_size:
        comm.recv(torch.zeros(1_000_000), rank)
    comm.barrier()


def die_in_an_all_reduce(comm: Communicator) -> None:
    """Rank 2 is killed while large tensors are on their way."""
    for number in range(1000):
        if comm.rank == 2 and number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        all_reduce(comm, torch.zeros(300_000), algorithm="ring")


def be_terminated(comm: Communicator, rank: int) -> None:
    """What has started a rank ends it."""
    if comm.rank == rank:
        os.kill(os.getpid(), signal.SIGTERM)
    comm.barrier()


def behead(comm: Communicator) -> None:
    """Rank 0 kills the head."""
    if comm.rank == 0:
        (head,) = psutil.Process().children()
        head.kill()
    comm.barrier()


def flood(comm: Communicator) -> None:
    """Rank 1 gets more messages than any buffer holds, while it computes; then one rank fails."""
    if comm.rank == 0:
        works = [comm.isend(torch.zeros(8000), 1) for _ in range(500)]
        assert len(works) == 500
        raise ValueError("sent enough")
    if comm.rank == 1:
        while True:
            pass


def fail_behind_a_background_call(comm: Communicator) -> None:
    """Rank 1 raises while a call that it has started in the background waits for rank 0, which does not come."""
    begun = Event()

    def wait(started: Communicator) -> None:
        begun.set()
        started.barrier()

    if comm.rank == 1:
        comm.start(wait)
        begun.wait()
        raise ValueError("and the barrier goes on")
    time.sleep(1000)


def wait_for_file(comm: Communicator, path: str) -> None:
    """Says that it is there, and computes with the others until a file appears."""
    Path(f"{path}-{comm.rank}").touch()
    while not Path(path).exists():
        all_reduce(comm, torch.zeros(1))
        time.sleep(0.02)
