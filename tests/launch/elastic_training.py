"""A script for `distlib launch`: a training that is the same on any number of ranks, and goes on where it was."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import torch

from distlib import all_reduce
from distlib.communicator import Communicator
from distlib.launch.checkpoints import Checkpoints
from distlib.launch.notice import REQUEUE, ends_soon

BATCH = 12  # samples of a step, on all ranks together
EVERY = 5  # steps between two checkpoints


def train(
    comm: Communicator, folder: str, steps: int, trouble: Callable[[Communicator, int], None] = lambda comm, step: None
) -> list[tuple[int, float]] | int:
    """Train from the last checkpoint on. Returns step and loss of each step, or REQUEUE if the job is about to end."""
    checkpoints = Checkpoints(comm, folder)
    first, state = checkpoints.resume()
    weights, velocity = torch.zeros(2, 8, dtype=torch.float64) if state is None else state["both"]
    losses = []
    for step in range(first, steps):
        trouble(comm, step)
        losses.append((step, one_step(comm, weights, velocity, step)))
        ends = ends_soon(comm)
        if ends or (step + 1) % EVERY == 0:
            checkpoints.save(step + 1, {"both": torch.stack([weights, velocity])})
        if ends:
            return REQUEUE
    return losses


def one_step(comm: Communicator, weights: torch.Tensor, velocity: torch.Tensor, step: int) -> float:
    """SGD with momentum on the batch of this number, of which each rank takes a part. Returns the mean loss."""
    samples = torch.randn(BATCH, 8, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
    mine = samples[comm.rank :: comm.world_size]
    errors = mine @ weights - mine.sum(1)
    total = torch.cat([(errors**2).sum()[None], 2 * errors @ mine]) / BATCH
    all_reduce(comm, total)
    velocity.mul_(0.9).add_(total[1:])
    weights.sub_(0.05 * velocity)
    return float(total[0])


# What may happen


def kill_rank(comm: Communicator, step: int, rank: int, at: int, of: int) -> None:
    """In the run on `of` ranks, one is killed before the step `at`."""
    if (comm.rank, step, comm.world_size) == (rank, at, of):
        os.kill(os.getpid(), signal.SIGKILL)


def stop_rank(comm: Communicator, step: int) -> None:
    """In the run on 3 ranks, rank 1 falls silent before step 7: its process is stopped, and not ended."""
    if (comm.rank, step, comm.world_size) == (1, 7, 3):
        os.kill(os.getpid(), signal.SIGSTOP)


# For the command line


def print_end(comm: Communicator, losses: list[tuple[int, float]] | int) -> None:
    """Rank 0 prints how many ranks have ended a training, the step from which they went on, and the last loss."""
    assert not isinstance(losses, int)
    if comm.rank == 0:
        print(comm.world_size, losses[0][0], f"{losses[-1][1]:.12f}")


def stay(comm: Communicator, folder: str) -> None:
    """Say by a file that this rank is there, and communicate until another one is lost."""
    (Path(folder) / f"there-{comm.rank}").touch()
    while True:
        all_reduce(comm, torch.zeros(1))
        comm.sleep(0.02)


def lose_a_rank(comm: Communicator, folder: str) -> None:
    """A training of 12 steps; rank 1 of 3 is killed in it. Rank 0 prints the last loss."""
    print_end(comm, train(comm, folder, 12, lambda comm, step: kill_rank(comm, step, rank=1, at=7, of=3)))


def once_killed(comm: Communicator, folder: str) -> None:
    """A training of 12 steps; when it has been started for the first time, the last rank is killed in it."""
    mark = Path(folder) / "has been killed"

    def kill_once(comm: Communicator, step: int) -> None:
        if step == 7 and comm.rank == comm.world_size - 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    print_end(comm, train(comm, folder, 12, kill_once))


def lose_a_node(comm: Communicator, folder: str, ranks: str = "2") -> None:
    """A training of 12 steps. On so many ranks it does not get further than step 7: the test takes one of them away.

    Ranks that start earlier, because their nodes were first, wait for the others, and so do those that are left;
    torchrun then restarts all.
    """

    def wait(comm: Communicator, step: int) -> None:
        expected = int(ranks) - (Path(folder) / "there-0").exists()
        while comm.world_size < expected:
            comm.sleep(0.02)
        if (step, comm.world_size) == (7, int(ranks)):
            stay(comm, folder)

    print_end(comm, train(comm, folder, 12, wait))


def regain_a_node(comm: Communicator, folder: str) -> None:
    """A training of 12 steps, only on 2 ranks. They don't get further than step 7 until one of them has been lost."""
    lost = Path(folder) / "lost"

    def wait(comm: Communicator, step: int) -> None:
        while comm.world_size == 1:
            (Path(folder) / ("alone-again" if lost.exists() else "alone-at-first")).touch()
            comm.sleep(0.02)
        if step == 7 and not lost.exists():
            stay(comm, folder)

    print_end(comm, train(comm, folder, 12, wait))


def warn_a_rank(comm: Communicator, folder: str, name: str) -> object:
    """In step 3 the last rank gets the signal of this name, and with it notice."""

    def warn(comm: Communicator, step: int) -> None:
        if (comm.rank, step) == (comm.world_size - 1, 3):
            os.kill(os.getpid(), signal.Signals[name])

    return train(comm, folder, 1000, warn)


def until_warned(comm: Communicator, folder: str) -> object:
    """A training that does not end. Says that it has begun by a file."""

    def say(comm: Communicator, step: int) -> None:
        if step == 3:
            (Path(folder) / f"begun-{comm.rank}").touch()
        comm.sleep(0.01)

    return train(comm, folder, 1_000_000, say)
