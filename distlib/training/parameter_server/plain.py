"""A parameter server to read first: one rank keeps the parameters, the workers compute gradients for it.

    worker    pull ◄── parameters    compute    push ── gradient ──►    pull ◄── …
    server    synchronous: a step takes one gradient of every worker, so everybody waits for the slowest
              asynchronous: each gradient is a step of its own, so nobody waits, but gradients are stale

The full edition adds: any bound between these two, backup workers and any optimizer (`server`); several servers, each
with a part of the parameters (`worker`); workers and servers that die or join (`checkpoint`, `replica`); tables of
which a step needs a few rows (`sparse`).

Source: M. Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from distlib.communicator import Communicator

PULL, PUSH, LEAVE = range(3)  # what a worker asks for
REQUEST, GRADIENT, PARAMETERS = range(3)  # the tags of messages


class Applied(NamedTuple):
    """A gradient that the server has applied."""

    worker: int  # the rank that computed it
    samples: int  # how many samples it is of
    staleness: int  # how often the parameters had changed since this worker pulled them


def plain_server(
    comm: Communicator, workers: Sequence[int], parameters: torch.Tensor, rate: float, synchronous: bool
) -> list[Applied]:
    """Serve the workers until all of them have left. Returns what it has applied, in this order.

    Args:
        parameters: one-dimensional. A step subtracts the rate times the sum of its gradients, divided by the workers.
    """
    present, pulled_at, step = set(workers), dict.fromkeys(workers, 0), 0
    waiting: list[int] = []  # the workers that have asked for parameters
    gradients: dict[int, tuple[torch.Tensor, int]] = {}  # by worker: what it has pushed, and of how many samples
    applied: list[Applied] = []
    request = torch.empty(2, dtype=torch.int64)
    while present:
        worker = comm.recv(request, tag=REQUEST)  # from any worker, in the order in which they ask
        kind, samples = request.tolist()
        if kind == PULL:
            waiting.append(worker)
        elif kind == PUSH:
            gradient = torch.empty_like(parameters)
            comm.recv(gradient, worker, GRADIENT)
            gradients[worker] = gradient, samples
        else:
            present.remove(worker)
        if gradients and (not synchronous or gradients.keys() >= present):
            total = torch.zeros_like(parameters)
            for each, (gradient, samples) in sorted(gradients.items()):  # by rank: the same sum in every run
                total += gradient
                applied.append(Applied(each, samples, step - pulled_at[each]))
            parameters -= rate * total / len(workers)
            gradients.clear()
            step += 1
        served = [each for each in waiting if each not in gradients]  # their own gradients are in the parameters
        waiting = [each for each in waiting if each in gradients]
        for each in served:
            pulled_at[each] = step
            comm.send(parameters, each, PARAMETERS)
    return applied


def plain_worker(
    comm: Communicator,
    server: int,
    parameters: torch.Tensor,
    compute: Callable[[], tuple[torch.Tensor, int]],
    steps: int,
) -> None:
    """Pull, compute and push `steps` times; then pull the result into `parameters`, and leave.

    Args:
        compute: returns the gradient at `parameters`, one-dimensional too, and of how many samples it is.
    """

    def ask(kind: int, samples: int = 0) -> None:
        comm.send(torch.tensor([kind, samples]), server, REQUEST)

    for _ in range(steps):
        ask(PULL)
        comm.recv(parameters, server, PARAMETERS)
        gradient, samples = compute()
        ask(PUSH, samples)
        comm.send(gradient, server, GRADIENT)
    ask(PULL)
    comm.recv(parameters, server, PARAMETERS)
    ask(LEAVE)
