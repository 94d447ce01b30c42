"""What a notebook in an allocation does; run by test_slurm. Prints a line of JSON."""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import torch

from distlib import DeadlockError, PeerLost, all_reduce
from distlib.communicator import Communicator
from distlib.launch.slurm_world import SlurmWorld


def total(comm: Communicator, length: int) -> tuple[str, float]:
    """The node, and a sum over all ranks."""
    tensor = torch.full((length,), float(comm.rank))
    all_reduce(comm, tensor, algorithm="ring")
    print(f"here is {comm.rank}")
    return socket.gethostname(), float(tensor[-1])


def circle(comm: Communicator) -> None:
    """A deadlock."""
    comm.recv(torch.zeros(2), (comm.rank + 1) % comm.world_size)


def die(comm: Communicator) -> None:
    """Rank 3 is killed."""
    if comm.rank == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()


printed: list[str] = []
world = SlurmWorld(
    2, directory=Path(sys.argv[1]), on_output=lambda rank, stream, text: printed.append(f"{rank} {stream} {text}")
)
told: dict[str, object] = {}
times = []
for length in (3, 100_000, 3):
    start = time.perf_counter()
    told[str(length)] = world.run(total, length)
    times.append(time.perf_counter() - start)
told["printed"] = sorted(printed)
told["messages"] = len(world.trace)
try:
    world.run(circle)
except DeadlockError as error:
    told["deadlock"] = str(error)
told["after"] = world.run(total, 1)
start = time.perf_counter()
try:
    world.run(die)
except PeerLost as error:
    told["lost"], told["where"] = error.lost, error.__notes__
times.append(time.perf_counter() - start)
told["again"] = world.run(total, 2)
world.close()
print(*(f"{seconds:.3f} s" for seconds in times), file=sys.stderr)
print(json.dumps(told))
