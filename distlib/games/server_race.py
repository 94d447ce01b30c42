"""Lesson 07b's game: nine ranks on a slow network, one of them four times slower. Which are servers, and who waits?

    race(rate=3.2, servers=1, bound=0)            seconds until the goal: a loss of 0.1, the median of five seeds

    servers     1 to 8 of the nine ranks; the others work
    bound       how many gradients a worker may be ahead of the slowest: 0 synchronous, math.inf asynchronous
    backups     with a bound of 0: as many of the slowest workers are not waited for
    rate        of learning
    by_digit    level 2: each worker has the images of few digits

The model, the images and the ways to train are those of the lesson, which checks that both arrive at the same moment.
One run in virtual time says who pushes when; a replay of its log trains five models at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial

import torch

from distlib.arguments import check_integer
from distlib.communicator import Communicator
from distlib.network import Cluster, Link
from distlib.training.parameter_server import ParameterClient, ServerLog, server_loop, worker_loop
from distlib.training.parameter_server.digit_trials import EACH, digit_classifier, losses_of, replay_digits
from distlib.training.shards import flatten, shard_parameters
from distlib.worlds.simulated.simulator import SimulatedWorld

RANKS, STEPS = 9, 60  # STEPS: of each worker
GOAL = 0.1
SECONDS = 10e-3  # that a gradient takes
EVERY = 0.005  # virtual seconds between two looks at the loss
MOST_RATE = 1000.0
LINK = Link(latency=100e-6, bandwidth=10e6)


@dataclass(frozen=True)
class ServerRace:
    """A race that was run.

    Attributes:
        by_digit, rate, servers, bound, backups: what was chosen.
        seconds: until the goal; infinity if 60 steps of each worker were not enough.
        losses: (virtual seconds, median of the losses on all training images), up to the goal.
    """

    by_digit: bool
    rate: float
    servers: int
    bound: float
    backups: int
    seconds: float
    losses: tuple[tuple[float, float], ...]

    @property
    def level(self) -> int:
        """1 with mixed images, 2 with images by digit."""
        return 2 if self.by_digit else 1

    def __str__(self) -> str:
        if self.seconds < math.inf:
            return f"goal reached after {self.seconds:.3f} virtual seconds"
        return f"goal not reached: after {STEPS} steps per worker the loss is {self.losses[-1][1]:.2f}"


def race(rate: float, servers: int = 1, by_digit: bool = False, *, bound: float = 0, backups: int = 0) -> ServerRace:
    """Run a race; see the text of this module.

    Raises:
        ValueError: a number that the game does not have.
    """
    check_integer("race", "servers", servers, 1, RANKS - 1)
    check_integer("race", "backups", backups, 0, RANKS - servers - 1)
    if not 0 < rate <= MOST_RATE:
        raise ValueError(f"expected a rate above 0 and up to {MOST_RATE:g}, got {rate!r}")
    if not (bound == math.inf or (float(bound).is_integer() and 0 <= bound <= STEPS)):
        raise ValueError(f"expected a bound from 0 to {STEPS}, or math.inf, got {bound!r}")
    if bound and backups:
        raise ValueError(f"backup workers go with a bound of 0, got bound={bound:g} and backups={backups}")
    log = _log(servers, bound, backups)
    with _one_thread():
        seconds, losses = _reach_goal(log, rate, servers, by_digit, backups)
    return ServerRace(by_digit, rate, servers, bound, backups, seconds, losses)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums are rounded as on any other machine, however many cores it has; and matrices this small gain nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ── one run in virtual time: who pushes when ─────────────────────────────────────────────────────────────────────────


@cache
def _log(servers: int, bound: float, backups: int) -> ServerLog:
    """What the first server has done."""
    cluster = Cluster.flat(RANKS, LINK, stragglers={RANKS - 1: 4.0}, jitter=0.1)
    log: ServerLog = SimulatedWorld(RANKS, cluster).run(_train, servers, bound, backups)[0]
    return log


def _train(comm: Communicator, servers: int, bound: float, backups: int) -> ServerLog | None:
    """The first ranks serve, the others push gradients. When they do does not depend on what is in them."""
    parameters = list(digit_classifier(0).parameters())
    shards = shard_parameters(parameters, servers)
    if comm.rank < servers:
        mine, workers = flatten(parameters, shards[comm.rank]), range(servers, comm.world_size)
        sgd = partial(torch.optim.SGD, lr=0.4)
        return server_loop(comm, workers, mine, sgd, bound=bound, backups=backups)

    def compute(step: int) -> tuple[list[torch.Tensor], int]:
        comm.sleep(SECONDS)
        return [torch.zeros_like(parameter) for parameter in parameters], EACH

    worker_loop(ParameterClient(comm, range(servers), parameters, shards), compute, STEPS)
    return None


# ── trainings in the order of its log, one for each seed ─────────────────────────────────────────────────────────────


@torch.no_grad()
def _reach_goal(
    log: ServerLog, rate: float, servers: int, by_digit: bool, backups: int
) -> tuple[float, tuple[tuple[float, float], ...]]:
    """When the goal is reached, and the losses up to there."""
    losses: list[tuple[float, float]] = []
    last = log.updates[-1].time
    how = {"workers": RANKS - servers, "servers": servers, "backups": backups}
    for time, models in replay_digits(log, [rate], by_digit=by_digit, **how):
        if time == last or time >= EVERY * (len(losses) + 1):
            losses.append((time, float(losses_of(models).median())))
            if losses[-1][1] <= GOAL:
                return time, tuple(losses)
    return math.inf, tuple(losses)
