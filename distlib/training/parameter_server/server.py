"""A server's side: one loop for synchronous, stale-synchronous and asynchronous training."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence

import torch

from distlib.communicator import Communicator, Work
from distlib.training.parameter_server.checkpoint import Checkpoint, Keep
from distlib.training.parameter_server.log import Contribution, Refusal, ServerLog, Update
from distlib.training.parameter_server.protocol import GRADIENT, PARAMETERS, PULL, PUSH, REQUEST
from distlib.worlds.diagnosis import PeerLost

MakeOptimizer = Callable[[list[torch.Tensor]], torch.optim.Optimizer]
"""Makes an optimizer of some parameters, as `functools.partial(torch.optim.SGD, lr=0.1)` does."""

SYNCHRONOUS, ASYNCHRONOUS = 0, math.inf
"""Bounds by name."""


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
    schedule: Callable[[int], float] | None = None,
    after_update: Callable[[ServerLog], None] | None = None,
    stop_on_loss: bool = False,
    start: Checkpoint | None = None,
    keep: Keep | None = None,
) -> ServerLog:
    """Serve the workers until all have left.

    Args:
        comm: of this server and all workers.
        workers: the ranks that take part from the start, and are waited for. Others may join with a pull.
        parameters: this server's part of them, one-dimensional. Changed in place.
        optimizer: takes a step for each update.
        bound: how many gradients a worker may be ahead of the slowest: see the package.
        backups: with a bound of 0, an update takes the first N − backups gradients of N workers; one that comes later
            is refused, and its worker goes on with the others.
        weigh: the weight of a gradient by its staleness, such as `lambda staleness: 1 / (1 + staleness)`. None: 1.
        schedule: what the optimizer's learning rates are multiplied by in an update, by the number of samples that were
            applied before it. None: 1.
        after_update: called after each update with the log, whose last update it is.
        stop_on_loss: whether the death of a worker raises PeerLost here. Else the others go on.
        start: a state to begin from, instead of the parameters. Of the workers, those take part that did so then, or
            all if none did.
        keep: called with the new state after each update, before any worker gets its parameters; and after a worker has
            joined, left or died.

    Three gradients are taken and refused, and are entered in the log: one that is late, one that is not finite, and one
    of a rank that does not take part (that has left, say, or that the server takes for dead).

    Returns:
        What it has done.

    Raises:
        ValueError: no workers, a negative bound, as many backups as workers, or backups with a bound above 0.
        MessageMismatch: a gradient with a different number of elements, or of a different dtype.
        PeerLost: a worker has died, and `stop_on_loss`.
    """
    if not workers or not bound >= 0 or not 0 <= backups < len(workers) or (backups and bound):
        raise ValueError(
            f"expected at least one worker, a bound of at least 0, fewer backups than workers, and backups only with a "
            f"bound of 0, got {len(workers)} workers, bound={bound}, backups={backups}"
        )
    server = _Server(comm, workers, parameters, optimizer, bound, backups, weigh, schedule, after_update, keep)
    if start is not None:
        server.restore(start)
    request = torch.empty(2, dtype=torch.int64)
    while server.clocks:
        try:
            worker = comm.recv(request, tag=REQUEST)
            server.serve(worker, *request.tolist())
        except PeerLost as error:
            if stop_on_loss:
                raise
            server.give_up(error)
        server.go_on()
    server.finish()
    return server.log


_Pending = tuple[int, int, int, torch.Tensor]
"""A gradient that has come and is not applied yet: its clock, its worker, of how many samples it is, and itself."""


class _Server:
    """What a server knows.

    Attributes:
        clocks: for each worker that takes part, how many gradients it has pushed.
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
        schedule: Callable[[int], float] | None,
        after_update: Callable[[ServerLog], None] | None,
        keep: Keep | None,
    ) -> None:
        self.clocks = dict.fromkeys(sorted(workers), 0)
        self.waiting: dict[int, float] = {}
        self.log = ServerLog()
        self._comm, self._parameters, self._optimizer = comm, parameters, optimizer([parameters])
        self._bound, self._backups, self._weigh, self._schedule = bound, backups, weigh, schedule
        self._after_update, self._keep = after_update, keep
        self._share = len(workers) - backups
        self._rates = [group["lr"] for group in self._optimizer.param_groups]
        self._earlier = 0  # updates before this server began
        self._version_of = dict.fromkeys(workers, 0)  # which version of the parameters each worker has
        self._pending: list[_Pending] = []
        self._snapshot: torch.Tensor | None = None  # a copy of this version of the parameters, if it has been sent
        self._sending: dict[int, Work] = {}  # for each worker, the parameters that are on their way to it

    @torch.no_grad()
    def restore(self, start: Checkpoint) -> None:
        """Go on from an earlier state."""
        self._parameters.copy_(start.parameters)
        self._optimizer.load_state_dict(start.optimizer)
        self._earlier, self.log.samples = start.version, start.samples
        if start.workers:
            self.clocks = dict.fromkeys(start.workers, 0)

    def serve(self, worker: int, kind: int, samples: int) -> None:
        """Take this request of a worker; it is answered when it may be."""
        self._finish_sending(worker)
        if kind == PUSH:
            self._take_gradient(worker, samples)
        elif kind == PULL:
            if worker not in self.clocks:
                self._join(worker)
            self.waiting[worker] = self._comm.time()
        elif worker in self.clocks:
            del self.clocks[worker]
            self._keep_state()

    def give_up(self, error: PeerLost) -> None:
        """Take the workers that the error names for dead: nobody waits for their gradients any longer."""
        for worker in error.lost:
            self._finish_sending(worker)
        for worker in sorted(set(error.lost) & set(self.clocks)):
            del self.clocks[worker]
            self.waiting.pop(worker, None)
            self.log.lost.append((worker, self._comm.time()))
            self._keep_state()

    def go_on(self) -> None:
        """Do what has become possible after a request: apply gradients, and answer those who may proceed."""
        newest = _slowest(self.clocks, self._backups) + self._bound if self.clocks else math.inf
        ripe = sorted((each for each in self._pending if each[0] <= newest), key=lambda each: each[:2])
        if ripe:
            self._pending = [each for each in self._pending if each[0] > newest]
            self._update(ripe)
        free = [each for each in self.waiting if may_proceed(self.clocks, each, self._bound, self._backups)]
        for worker in free:
            self._answer(worker)

    def finish(self) -> None:
        """Wait until nothing is on its way any longer."""
        for worker in list(self._sending):
            self._finish_sending(worker)

    def _finish_sending(self, worker: int) -> None:
        """End the sending of parameters to a worker. At its next request it has them, and this returns at once."""
        if work := self._sending.pop(worker, None):
            with contextlib.suppress(PeerLost):  # the next request from anyone reports it
                work.wait()

    def _join(self, worker: int) -> None:
        self.clocks[worker] = _slowest(self.clocks, self._backups)
        self.log.joined.append((worker, self._comm.time()))
        self._keep_state()

    def _take_gradient(self, worker: int, samples: int) -> None:
        """Receive the gradient that a worker has announced, and keep it if it is to be applied."""
        gradient = torch.empty_like(self._parameters)
        self._comm.recv(gradient, worker, GRADIENT)
        if worker not in self.clocks:
            self.log.refused.append(Refusal(worker, 0, "not a member"))
            return
        clock, full = self.clocks[worker] + 1, _slowest(self.clocks, self._backups)
        self.clocks[worker] = max(clock, full)
        if clock <= full:  # this step has been taken without it
            self.log.refused.append(Refusal(worker, clock, "late"))
        elif not gradient.isfinite().all():
            self.log.refused.append(Refusal(worker, clock, "not finite"))
        else:
            self._pending.append((clock, worker, samples, gradient))

    def _answer(self, worker: int) -> None:
        """Begin to send the parameters to a worker that waits for them.

        It goes on while the server takes gradients, and even while it changes the parameters: so a copy is sent, the
        same one to all workers that get this version.
        """
        waited = self._comm.time() - self.waiting.pop(worker)
        if waited > 0:
            self.log.waits.append((worker, waited))
        self._version_of[worker] = len(self.log.updates)
        if self._snapshot is None:
            self._snapshot = self._parameters.clone()
        self._sending[worker] = self._comm.isend(self._snapshot, worker, PARAMETERS)

    @torch.no_grad()
    def _update(self, gradients: list[_Pending]) -> None:
        """Apply gradients: one step of the optimizer."""
        version = len(self.log.updates)
        total, contributions = torch.zeros_like(self._parameters), []
        for clock, worker, samples, gradient in gradients:
            staleness = version - self._version_of.get(worker, 0)
            total.add_(gradient if self._weigh is None else gradient * self._weigh(staleness))
            contributions.append(Contribution(worker, clock, staleness, samples))
        if self._schedule is not None:
            factor = self._schedule(self.log.samples)
            for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
                group["lr"] = rate * factor
        self._parameters.grad = total / self._share
        self._optimizer.step()
        self._snapshot = None
        self.log.updates.append(Update(self._comm.time(), tuple(contributions)))
        self.log.samples += sum(contribution.samples for contribution in contributions)
        self._keep_state()
        if self._after_update is not None:
            self._after_update(self.log)

    def _keep_state(self) -> None:
        if self._keep is not None:
            version = self._earlier + len(self.log.updates)
            state = self._optimizer.state_dict()
            self._keep(Checkpoint(version, self.log.samples, tuple(self.clocks), self._parameters, state))
