"""Training with a parameter server: it has the parameters, the workers compute gradients. No worker knows another one.

    worker 1   pull ◄─ parameters   compute   push gradient ─►   pull ◄─ …        ┐
    worker 2   pull ◄─ parameters   compute      push gradient ─►   pull ◄─ …     ┼─►  server
    worker 3   pull ◄─ parameters   compute            push gradient ─►           ┘

With P bytes of parameters and N workers, 2·N·P bytes go through the server's port in each round, however many workers
there are: the server is the bottleneck, as the master of the naive all-reduce is. Several servers share it, each with a
part of the parameters (see `shards`).

What the server may do without, is to wait. Worker w has pushed `clocks[w]` gradients. Whoever is more than `bound`
gradients ahead of the slowest waits for its parameters:

    bound = 0          synchronous: everybody waits for everybody, in every step
    bound = s          stale-synchronous: the fastest may be s steps ahead
    bound = infinity   asynchronous: nobody waits

One loop does all three. A gradient is applied as soon as its worker may go on, together with all others of which that
is true, in the order of clocks and ranks. So with a bound of 0 a step is that of a single process that adds up the
gradients in the order of the ranks; without a bound each gradient is a step of its own.

Every gradient counts 1/N, in every mode: after the same number of samples all modes have moved by as many gradients.

Meanwhile others have changed the parameters that a gradient was computed with. How many updates there were is its
*staleness*. It is 0 in synchronous training.

M. Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014. Q. Ho et al., "More Effective
Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013, section 3. J. Chen et al., "Revisiting
Distributed Synchronous SGD", 2016, arXiv:1604.00981, section 3 (backup workers). W. Zhang et al., "Staleness-aware
Async-SGD for Distributed Deep Learning", IJCAI 2016, arXiv:1511.05950 (a weight that falls with the staleness).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from distlib.communicator import Communicator, Work
from distlib.training.shards import Shard, flatten, unflatten

MakeOptimizer = Callable[[list[torch.Tensor]], torch.optim.Optimizer]
"""Makes an optimizer of some parameters, as `functools.partial(torch.optim.SGD, lr=0.1)` does."""


PULL, PUSH, LEAVE = range(3)
"""What a worker asks for: a request is a message of two numbers, this and how many samples its gradient is of."""

REQUEST, GRADIENT, PARAMETERS = range(3)
"""The tags of the messages between worker and server."""


@dataclass(frozen=True)
class Contribution:
    """A gradient that a server has applied.

    Attributes:
        worker: the rank that computed it.
        clock: its number among the worker's gradients, from 1 on.
        staleness: how many updates there were between the parameters it was computed with and this one.
        samples: how many samples it is of.
    """

    worker: int
    clock: int
    staleness: int
    samples: int


@dataclass(frozen=True)
class Update:
    """One change of the parameters.

    Attributes:
        time: on the server's clock, in seconds.
        contributions: the gradients that it is made of.
    """

    time: float
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True)
class Refusal:
    """A gradient that a server has not applied.

    Attributes:
        worker, clock: as of a `Contribution`.
        reason: "late" (backup workers were faster) or "not finite" (it holds NaN or infinity).
    """

    worker: int
    clock: int
    reason: str


@dataclass
class ServerLog:
    """What a server has done, in this order.

    Attributes:
        updates: number v, from 0 on, made version v + 1 of the parameters from version v.
        refused: what was not applied.
        waits: for each pull that had to wait: worker, and for how many seconds.
    """

    updates: list[Update] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    waits: list[tuple[int, float]] = field(default_factory=list)

    @property
    def contributions(self) -> list[Contribution]:
        """All gradients that were applied."""
        return [contribution for update in self.updates for contribution in update.contributions]

    @property
    def samples(self) -> int:
        """How many samples' gradients were applied: divided by the size of the data set, the *virtual epochs*."""
        return sum(contribution.samples for contribution in self.contributions)


def may_proceed(clocks: Mapping[int, int], worker: int, bound: float, backups: int = 0) -> bool:
    """Whether a worker may have parameters for its next gradient: it is at most `bound` ahead of the slowest.

    Args:
        clocks: for each worker that takes part, how many gradients it has pushed.
        bound: 0 for synchronous, `math.inf` for asynchronous training.
        backups: this many of the slowest don't count.
    """
    return clocks[worker] - _slowest(clocks, backups) <= bound


def _slowest(clocks: Mapping[int, int], backups: int) -> int:
    """The clock of the slowest worker that counts."""
    return sorted(clocks.values())[min(backups, len(clocks) - 1)] if clocks else 0


def server_loop(
    comm: Communicator,
    workers: Sequence[int],
    parameters: torch.Tensor,
    optimizer: MakeOptimizer,
    *,
    bound: float = 0,
    backups: int = 0,
    weigh: Callable[[int], float] | None = None,
    after_update: Callable[[ServerLog], None] | None = None,
) -> ServerLog:
    """Serve the workers until all have left.

    Args:
        comm: of this server and all workers.
        workers: their ranks.
        parameters: this server's part of them, one-dimensional. Changed in place.
        optimizer: takes a step for each update.
        bound: how many gradients a worker may be ahead of the slowest: see the module.
        backups: with a bound of 0, an update takes the first N − backups gradients of N workers; one that comes later
            is refused, and its worker goes on with the others.
        weigh: the weight of a gradient by its staleness, such as `lambda staleness: 1 / (1 + staleness)`. None: 1.
        after_update: called after each update with the log, whose last update it is.

    A gradient that is not finite is refused; its worker goes on.

    Returns:
        What it has done.

    Raises:
        ValueError: no workers, a negative bound, as many backups as workers, or backups with a bound above 0.
        MessageMismatch: a gradient with a different number of elements, or of a different dtype.
    """
    if not workers or not bound >= 0 or not 0 <= backups < len(workers) or (backups and bound):
        raise ValueError(
            f"expected at least one worker, a bound of at least 0, fewer backups than workers, and backups only with a "
            f"bound of 0, got {len(workers)} workers, bound={bound}, backups={backups}"
        )
    server = _Server(comm, workers, parameters, optimizer, bound, backups, weigh, after_update)
    request = torch.empty(2, dtype=torch.int64)
    while server.clocks:
        worker = comm.recv(request, tag=REQUEST)
        kind, samples = request.tolist()
        if kind == PUSH:
            server.take_gradient(worker, samples)
        elif kind == PULL:
            server.waiting[worker] = comm.time()
        else:
            del server.clocks[worker]
        server.go_on()
    return server.log


_Pending = tuple[int, int, int, torch.Tensor]
"""A gradient that has come and is not applied yet: its clock, its worker, of how many samples it is, and itself."""


class _Server:
    """What a server knows.

    Attributes:
        clocks: for each worker that has not left, how many gradients it has pushed.
        waiting: the workers that have asked for parameters, and since when.
    """

    def __init__(
        self,
        comm: Communicator,
        workers: Sequence[int],
        parameters: torch.Tensor,
        optimizer: MakeOptimizer,
        bound: float,
        backups: int,
        weigh: Callable[[int], float] | None,
        after_update: Callable[[ServerLog], None] | None,
    ) -> None:
        self.clocks = dict.fromkeys(sorted(workers), 0)
        self.waiting: dict[int, float] = {}
        self.log = ServerLog()
        self._comm, self._parameters, self._optimizer = comm, parameters, optimizer([parameters])
        self._bound, self._backups, self._weigh, self._after_update = bound, backups, weigh, after_update
        self._share = len(workers) - backups
        self._version_of = dict.fromkeys(workers, 0)  # which version of the parameters each worker has
        self._pending: list[_Pending] = []

    def take_gradient(self, worker: int, samples: int) -> None:
        """Receive the gradient that a worker has announced, and keep it if it is to be applied."""
        gradient = torch.empty_like(self._parameters)
        self._comm.recv(gradient, worker, GRADIENT)
        clock, full = self.clocks[worker] + 1, _slowest(self.clocks, self._backups)
        self.clocks[worker] = max(clock, full)
        if clock <= full:  # this step has been taken without it
            self.log.refused.append(Refusal(worker, clock, "late"))
        elif not gradient.isfinite().all():
            self.log.refused.append(Refusal(worker, clock, "not finite"))
        else:
            self._pending.append((clock, worker, samples, gradient))

    def go_on(self) -> None:
        """Do what has become possible after a request: apply gradients, and answer those who may proceed."""
        newest = _slowest(self.clocks, self._backups) + self._bound
        ripe = sorted((each for each in self._pending if each[0] <= newest), key=lambda each: each[:2])
        if ripe:
            self._pending = [each for each in self._pending if each[0] > newest]
            self._update(ripe)
        free = [each for each in self.waiting if may_proceed(self.clocks, each, self._bound, self._backups)]
        sent = [self._answer(worker) for worker in free]
        for work in sent:
            work.wait()

    def _answer(self, worker: int) -> Work:
        """Begin to send the parameters to a worker that waits for them."""
        waited = self._comm.time() - self.waiting.pop(worker)
        if waited > 0:
            self.log.waits.append((worker, waited))
        self._version_of[worker] = len(self.log.updates)
        return self._comm.isend(self._parameters, worker, PARAMETERS)

    @torch.no_grad()
    def _update(self, gradients: list[_Pending]) -> None:
        """Apply gradients: one step of the optimizer."""
        version = len(self.log.updates)
        total, contributions = torch.zeros_like(self._parameters), []
        for clock, worker, samples, gradient in gradients:
            staleness = version - self._version_of[worker]
            total.add_(gradient if self._weigh is None else gradient * self._weigh(staleness))
            contributions.append(Contribution(worker, clock, staleness, samples))
        self._parameters.grad = total / self._share
        self._optimizer.step()
        self.log.updates.append(Update(self._comm.time(), tuple(contributions)))
        if self._after_update is not None:
            self._after_update(self.log)


class ParameterClient:
    """A worker's way to the servers. Requests to all of them are under way at the same time.

    Args:
        comm: of this worker and the servers.
        servers: their ranks.
        parameters: of this worker's model, all of one dtype.
        shards: for each server, what it keeps of them (see `shard_parameters`).

    Raises:
        ValueError: not as many shards as servers.
    """

    def __init__(
        self, comm: Communicator, servers: Sequence[int], parameters: Sequence[torch.Tensor], shards: Sequence[Shard]
    ) -> None:
        if len(servers) != len(shards) or not servers:
            raise ValueError(f"expected a shard for each of at least one server, got {len(servers)} and {len(shards)}")
        self._comm, self._parameters = comm, parameters
        self._shards = dict(zip(servers, shards, strict=True))

    def pull(self) -> None:
        """Write the servers' parameters into this worker's, in place. Waits for as long as the servers say."""
        parts = {
            server: self._parameters[0].new_empty(sum(piece.length for piece in shard))
            for server, shard in self._shards.items()
        }
        receiving = [self._comm.irecv(part, server, PARAMETERS) for server, part in parts.items()]
        self._ask(PULL)
        for work in receiving:
            work.wait()
        for server, part in parts.items():
            unflatten(part, self._parameters, self._shards[server])

    def push(self, gradients: Sequence[torch.Tensor], samples: int) -> None:
        """Send gradients, which are not changed; return when all servers have taken their parts.

        Args:
            gradients: as the parameters.
            samples: how many samples they are of.
        """
        parts = {server: flatten(gradients, shard) for server, shard in self._shards.items()}
        sending = [self._comm.isend(part, server, GRADIENT) for server, part in parts.items()]
        self._ask(PUSH, samples)
        for work in sending:
            work.wait()

    def leave(self) -> None:
        """Tell the servers that no more gradients come from here."""
        self._ask(LEAVE)

    def _ask(self, request: int, samples: int = 0) -> None:
        message = torch.tensor([request, samples])
        for work in [self._comm.isend(message, server, REQUEST) for server in self._shards]:
            work.wait()


def worker_loop(
    client: ParameterClient,
    compute: Callable[[int], tuple[Sequence[torch.Tensor], int]],
    steps: int,
    pull_every: int = 1,
) -> None:
    """Pull, compute, push, `steps` times; at the end pull once more and leave.

    Args:
        client: the way to the servers.
        compute: takes the step's number; returns the gradients for the client's parameters, and of how many samples.
        pull_every: how many gradients are computed with the same parameters.

    Raises:
        ValueError: a number of steps below 0, or pull_every below 1.
    """
    if steps < 0 or pull_every < 1:
        raise ValueError(f"expected steps of at least 0 and pull_every of at least 1, got {steps} and {pull_every}")
    for step in range(steps):
        if step % pull_every == 0:
            client.pull()
        client.push(*compute(step))
    client.pull()
    client.leave()


SYNCHRONOUS, ASYNCHRONOUS = 0, math.inf
"""Bounds by name."""
