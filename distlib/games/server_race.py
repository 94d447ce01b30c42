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
from torch import nn
from torch.nn.functional import cross_entropy

from distlib.arguments import check_integer
from distlib.communicator import Communicator
from distlib.network import Cluster, Link
from distlib.training.datasets import digits
from distlib.training.parameter_server import ParameterClient, ServerLog, replay, server_loop, worker_loop
from distlib.training.shards import flatten, shard_parameters
from distlib.worlds.simulated.simulator import SimulatedWorld

RANKS, STEPS, EACH, SEEDS = 9, 60, 16, 5  # EACH: images of a gradient; STEPS: of each worker
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
    log, share = _log(servers, bound, backups), RANKS - servers - backups
    with _one_thread():
        seconds, losses = _reach_goal(log, rate, servers, by_digit, share)
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
    parameters = list(_model(0).parameters())
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
    log: ServerLog, rate: float, servers: int, by_digit: bool, share: int
) -> tuple[float, tuple[tuple[float, float], ...]]:
    """When the goal is reached, and the losses up to there."""
    losses: list[tuple[float, float]] = []
    last = log.updates[-1].time
    for time, numbers in _models(log, rate, servers, by_digit, share):
        if time == last or time >= EVERY * (len(losses) + 1):
            losses.append((time, float(_losses(numbers).median())))
            if losses[-1][1] <= GOAL:
                return time, tuple(losses)
    return math.inf, tuple(losses)


def _models(
    log: ServerLog, rate: float, servers: int, by_digit: bool, share: int
) -> Iterator[tuple[float, torch.Tensor]]:
    """After each update its time, and the five models, [seeds, numbers]."""
    images, labels = _images()
    steps = max(each.clock for each in log.contributions)
    chosen = torch.stack([_images_of_steps(seed, RANKS - servers, steps, by_digit) for seed in range(SEEDS)])

    def gradients(numbers: torch.Tensor, worker: int, clock: int) -> torch.Tensor:
        batch = chosen[:, worker - servers, clock - 1]
        numbers = numbers.clone().requires_grad_()
        outputs = _outputs(numbers, images[batch]).flatten(0, 1)
        loss = cross_entropy(outputs, labels[batch].flatten(), reduction="sum")
        return torch.autograd.grad(loss / EACH, numbers)[0]

    start = torch.stack([nn.utils.parameters_to_vector(_model(seed).parameters()).detach() for seed in range(SEEDS)])
    return replay(log, start, gradients, torch.full((SEEDS,), rate), share=share)


def _images_of_steps(seed: int, workers: int, steps: int, by_digit: bool) -> torch.Tensor:
    """Which images each worker takes in each of its steps, [workers, steps, 16]."""
    labels = _images()[1]
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    if by_digit:
        order = order[labels[order].argsort(stable=True)]
    own = torch.stack(order.split(len(labels) // workers)[:workers])
    chosen = torch.randint(own.shape[1], (workers, steps, EACH), generator=generator)
    return own.gather(1, chosen.flatten(1)).view_as(chosen)


def _losses(numbers: torch.Tensor) -> torch.Tensor:
    """For each model the mean loss on all training images."""
    images, labels = _images()
    outputs = _outputs(numbers, images.expand(len(numbers), -1, -1))
    return torch.stack([cross_entropy(each, labels) for each in outputs])


def _outputs(numbers: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """[models, numbers] and [models, samples, 64] → [models, samples, 10]"""
    shapes = _shapes()
    parts = numbers.split([math.prod(shape) for shape in shapes], dim=1)
    weights, bias, last_weights, last_bias = (part.view(-1, *shape) for part, shape in zip(parts, shapes, strict=True))
    return torch.relu(inputs @ weights.mT + bias[:, None]) @ last_weights.mT + last_bias[:, None]


@cache
def _shapes() -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(parameter.shape) for parameter in _model(0).parameters())


@cache
def _images() -> tuple[torch.Tensor, torch.Tensor]:
    """The images to train on, [1536, 64], less their average, and what they show."""
    train_set, _ = digits()
    return (train_set.images - train_set.images.mean(dim=0)).flatten(1), train_set.labels


def _model(seed: int) -> nn.Module:
    """A small classifier. The seed decides its first weights; the random numbers of whoever calls stay as they are."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
