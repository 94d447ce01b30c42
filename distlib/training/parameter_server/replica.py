"""A second server that knows what the first one knows, and takes its place when that one dies.

    worker ── gradient ──►  primary  ── state ──►  replica
    worker ◄─ parameters ─  primary                             only when the replica has the state they come from

The primary sends its state after each update, before any worker gets parameters of it. So no worker ever has a version
that the replica does not know. When the primary dies, the replica serves, and `ParameterClient` sends it what the
primary has not taken. What the replica does not have yet is lost: gradients that wait for a synchronous step, and an
update whose state was still on its way. No worker has seen that update, and no gradient is applied twice.

The price: with each update the parameters, and the optimizer's state, go through the primary's port once more.

The design is that of primary and backup: T. C. Bressoud and F. B. Schneider, "Hypervisor-Based Fault Tolerance", ACM
TOCS 14(1), 1996. Li et al. (OSDI 2014, section 4.3) replicate each server's keys on other servers in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from distlib.communicator import Communicator
from distlib.training.parameter_server.checkpoint import Checkpoint, Keep
from distlib.training.parameter_server.log import ServerLog
from distlib.training.parameter_server.protocol import STATE
from distlib.training.parameter_server.server import MakeOptimizer, server_loop
from distlib.worlds.diagnosis import PeerLost


def keep_on_replica(comm: Communicator, replica: int) -> Keep:
    """Send the state to rank `replica`, for `server_loop(keep=…)`. If that rank is lost, go on without it."""
    alive = True

    def keep(checkpoint: Checkpoint) -> None:
        nonlocal alive
        if not alive:
            return
        content = torch.frombuffer(bytearray(checkpoint.to_bytes()), dtype=torch.uint8)
        try:
            comm.send(torch.tensor([len(content)]), replica, STATE)
            comm.send(content, replica, STATE)
        except PeerLost:
            alive = False

    return keep


def replica_loop(
    comm: Communicator,
    primary: int,
    workers: Sequence[int],
    parameters: torch.Tensor,
    optimizer: MakeOptimizer,
    **options: Any,
) -> ServerLog | None:
    """Follow a primary; serve in its place if it is lost.

    Args:
        comm: of both servers and all workers.
        primary: the rank whose `server_loop` has `keep=keep_on_replica(comm, this rank)`.
        workers, parameters, optimizer, options: as of the primary's `server_loop`. The parameters are changed in place,
            and at the end they are the primary's last ones, or this server's.

    Returns:
        What it has done as a server; None if it never was one.
    """
    newest: Checkpoint | None = None
    try:
        while newest is None or newest.workers:
            newest = _receive_state(comm, primary)
    except PeerLost:
        return server_loop(comm, workers, parameters, optimizer, start=newest, **options)
    parameters.copy_(newest.parameters)
    return None


def _receive_state(comm: Communicator, primary: int) -> Checkpoint:
    length = torch.empty(1, dtype=torch.int64)
    comm.recv(length, primary, STATE)
    content = torch.empty(int(length), dtype=torch.uint8)
    comm.recv(content, primary, STATE)
    return Checkpoint.from_bytes(content.numpy().tobytes())
