"""A worker's side: pull parameters, compute a gradient, push it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from distlib.communicator import Communicator, Work
from distlib.training.parameter_server.protocol import GRADIENT, LEAVE, PARAMETERS, PULL, PUSH, REQUEST
from distlib.training.shards import Shard, flatten, unflatten
from distlib.worlds.diagnosis import PeerLost


class ParameterClient:
    """A worker's way to the servers. Requests to all of them are under way at the same time.

    Args:
        comm: of this worker and the servers.
        servers: their ranks.
        parameters: of this worker's model, all of one dtype.
        shards: for each server, what it keeps of them (see `shard_parameters`).
        replicas: server → the rank that takes its place if it is lost (see `replica`). Without one, whatever is asked
            of a lost server raises PeerLost.

    Raises:
        ValueError: not as many shards as servers.
    """

    def __init__(
        self,
        comm: Communicator,
        servers: Sequence[int],
        parameters: Sequence[torch.Tensor],
        shards: Sequence[Shard],
        replicas: Mapping[int, int] | None = None,
    ) -> None:
        if len(servers) != len(shards) or not servers:
            raise ValueError(f"expected a shard for each of at least one server, got {len(servers)} and {len(shards)}")
        self._comm, self._parameters, self._shards = comm, parameters, list(shards)
        self._servers, self._replicas = list(servers), dict(replicas or {})

    def pull(self) -> None:
        """Write the servers' parameters into this worker's, in place. Waits for as long as the servers say."""
        parts = [self._parameters[0].new_empty(sum(piece.length for piece in shard)) for shard in self._shards]
        self._with_each_server(
            lambda number, server: [self._comm.irecv(parts[number], server, PARAMETERS), self._ask(server, PULL)]
        )
        for part, shard in zip(parts, self._shards, strict=True):
            unflatten(part, self._parameters, shard)

    def push(self, gradients: Sequence[torch.Tensor], samples: int) -> None:
        """Send gradients, which are not changed; return when all servers have taken their parts.

        Args:
            gradients: as the parameters.
            samples: how many samples they are of.
        """
        parts = [flatten(gradients, shard) for shard in self._shards]
        self._with_each_server(
            lambda number, server: [self._comm.isend(parts[number], server, GRADIENT), self._ask(server, PUSH, samples)]
        )

    def leave(self) -> None:
        """Tell the servers that no more gradients come from here."""
        self._with_each_server(lambda number, server: [self._ask(server, LEAVE)])

    def _ask(self, server: int, request: int, samples: int = 0) -> Work:
        return self._comm.isend(torch.tensor([request, samples]), server, REQUEST)

    def _with_each_server(self, begin: Callable[[int, int], list[Work]]) -> None:
        """Begin something with every server, and wait for all of it; with the replica, where the server is lost.

        Args:
            begin: takes the number of the shard and the rank of its server.
        """
        begun = [(number, begin(number, server)) for number, server in enumerate(self._servers)]
        while begun:
            number, works = begun.pop(0)
            lost = _wait(works)
            if lost is not None:
                replica = self._replicas.pop(self._servers[number], None)
                if replica is None:
                    raise lost
                self._servers[number] = replica
                begun.append((number, begin(number, replica)))


def _wait(works: list[Work]) -> PeerLost | None:
    """Wait for all of it, also if a part fails because the other rank is lost; returns that error."""
    lost = None
    for work in works:
        try:
            work.wait()
        except PeerLost as error:
            lost = error
    return lost


def worker_loop(
    client: ParameterClient,
    compute: Callable[[int], tuple[Sequence[torch.Tensor], int]],
    steps: int,
    pull_every: int = 1,
) -> None:
    """Pull, compute, push, `steps` times; at the end pull once more and leave.

    A worker that is not among those the server began with joins with its first pull.

    Args:
        client: the way to the servers.
        compute: takes the step's number; returns the gradients for the client's parameters, and of how many samples.
        pull_every: how many gradients are computed with the same parameters.

    Raises:
        ValueError: a number of steps below 0, or pull_every below 1.
        PeerLost: a server has died, and has no replica.
    """
    if steps < 0 or pull_every < 1:
        raise ValueError(f"expected steps of at least 0 and pull_every of at least 1, got {steps} and {pull_every}")
    for step in range(steps):
        if step % pull_every == 0:
            client.pull()
        client.push(*compute(step))
    client.pull()
    client.leave()
