"""Workers of ours around a student's server, and a server of ours for a student's worker.

gate 0   PULL ──►   ◄── parameters   gate 1   computes   gate 2   PUSH, gradient ──►   PULL ──►   …   LEAVE ──►

A student's worker passes gate 2k + 2 inside of compute(k), and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator

PULL, PUSH, LEAVE = range(3)
REQUEST, GRADIENT, PARAMETERS = range(3)
COMPUTES = 0.5  # seconds of virtual time that a student's worker takes for a gradient


def seconds_of(inputs: dict[str, Any], k: int) -> float:
    """A worker takes time before gate 0, to begin; before gates 2, 4, …, to compute; before the last one, to leave."""
    return 0.0 if k % 2 else float(inputs["seconds"][k // 2]) if "seconds" in inputs else COMPUTES


def with_workers(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Any:
    """On the server `function(comm, workers, parameters, learning_rate, bound)`; on other ranks a worker of ours."""
    parameters, server = inputs["parameters"].clone(), inputs["server"]
    if comm.rank == server:
        updates = function(comm, inputs["workers"], parameters, inputs["learning_rate"], inputs["bound"])
        return {"updates": updates, "parameters": parameters}
    gate(0)
    for number, gradient in enumerate([*inputs["gradients"], None]):
        comm.send(torch.tensor([PULL]), server, REQUEST)
        comm.recv(parameters, server, PARAMETERS)
        gate(2 * number + 1, parameters)
        if gradient is not None:
            gate(2 * number + 2)
            comm.send(torch.tensor([PUSH]), server, REQUEST)
            comm.send(gradient, server, GRADIENT)
    gate(2 * len(inputs["gradients"]) + 2)
    return comm.send(torch.tensor([LEAVE]), server, REQUEST)


def with_a_server(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Any:
    """On the worker `function(comm, server, parameters, compute, steps)`; on another rank a server that answers."""
    if "versions" in inputs:
        return _serve(comm, inputs["versions"])
    if not inputs:  # neither of the two
        return None
    parameters, called, held = inputs["parameters"].clone(), list[int](), list[torch.Tensor]()

    def compute(step: int) -> torch.Tensor:
        called.append(int(step))
        held.append(parameters.clone())
        gradient: torch.Tensor = inputs["gradients"][step].clone()
        gate(2 * int(step) + 2)
        return gradient

    function(comm, inputs["server"], parameters, compute, len(inputs["gradients"]))
    return {"called": called, "held": [*held, parameters]}


def _serve(comm: Communicator, versions: list[torch.Tensor]) -> dict[str, list[Any]]:
    requests, gradients, request = list[int](), list[torch.Tensor](), torch.empty(1, dtype=torch.int64)
    while LEAVE not in requests:
        worker = comm.recv(request, tag=REQUEST)
        requests.append(int(request))
        if requests[-1] == PULL:
            comm.send(versions[min(requests.count(PULL), len(versions)) - 1], worker, PARAMETERS)
        elif requests[-1] == PUSH:
            gradients.append(torch.empty_like(versions[0]))
            comm.recv(gradients[-1], worker, GRADIENT)
    return {"requests": requests, "gradients": gradients}
