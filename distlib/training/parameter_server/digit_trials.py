"""A small classifier of digits, trained in the order of a server's log: many rates and seeds at once.

What lessons 07 and 07b, and the game of servers and workers, train. A row of `numbers` is a model: all its parameters,
one behind the other.

    images_of_steps    which images each worker takes in each of its steps, mixed or sorted by digit
    replay_digits      the models after each update of a log
    losses_of          how good they are on all training images
    answers_of         which digits they see in the test images
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib.training.datasets import digits
from distlib.training.parameter_server.log import ServerLog
from distlib.training.parameter_server.replay import replay

EACH = 16
"""Images of a gradient."""


@cache
def digit_images() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Images to train on, [1536, 64], less their average; what they show; the same two of the test images."""
    train_set, test_set = digits()
    average = train_set.images.mean(dim=0)
    images, test_images = ((each.images - average).flatten(1) for each in (train_set, test_set))
    return images, train_set.labels, test_images, test_set.labels


def digit_classifier(seed: int) -> nn.Sequential:
    """A model of 2,410 parameters. The seed decides its first weights; the caller's random numbers stay as they are."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def images_of_steps(seed: int, workers: int, steps: int, by_digit: bool = False) -> torch.Tensor:
    """Which images each worker takes in each of its steps, [workers, steps, 16].

    Each worker has an equal part of the images. by_digit: they are sorted by what they show before they are given out.
    """
    labels = digit_images()[1]
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(labels), generator=generator)
    if by_digit:
        order = order[labels[order].argsort(stable=True)]
    own = torch.stack(order.split(len(labels) // workers)[:workers])
    chosen = torch.randint(own.shape[1], (workers, steps, EACH), generator=generator)
    return own.gather(1, chosen.flatten(1)).view_as(chosen)


def replay_digits(
    log: ServerLog,
    rates: Sequence[float],
    *,
    workers: int,
    servers: int = 1,
    backups: int = 0,
    momentum: float = 0.0,
    by_digit: bool = False,
    seeds: int = 5,
) -> Iterator[tuple[float, torch.Tensor]]:
    """Train a model for each rate and each seed in the order of a log: all seeds at the first rate, at the second, …

    Args:
        log: of workers whose ranks begin at `servers`.
        backups: how many of the workers were not waited for. A gradient counts 1/(workers - backups).

    Yields:
        After each update its time, and the models, [rates · seeds, 2410].
    """
    images, labels, *_ = digit_images()
    steps = max(each.clock for each in log.contributions)
    chosen = torch.stack([images_of_steps(seed, workers, steps, by_digit) for seed in range(seeds)])
    chosen = chosen.repeat(len(rates), 1, 1, 1)

    def gradients(numbers: torch.Tensor, worker: int, clock: int) -> torch.Tensor:
        batch = chosen[:, worker - servers, clock - 1]
        numbers = numbers.clone().requires_grad_()
        outputs = outputs_of(numbers, images[batch]).flatten(0, 1)
        loss = cross_entropy(outputs, labels[batch].flatten(), reduction="sum")
        return torch.autograd.grad(loss / EACH, numbers)[0]

    start = torch.stack([nn.utils.parameters_to_vector(digit_classifier(s).parameters()) for s in range(seeds)])
    each_rate = torch.tensor(rates).repeat_interleave(seeds)
    start = start.detach().repeat(len(rates), 1)
    return replay(log, start, gradients, each_rate, share=workers - backups, momentum=momentum)


@torch.no_grad()
def losses_of(numbers: torch.Tensor) -> torch.Tensor:
    """For each model the mean loss on all training images, [models]."""
    images, labels, *_ = digit_images()
    outputs = outputs_of(numbers, images.expand(len(numbers), -1, -1))
    return torch.stack([cross_entropy(each, labels) for each in outputs])


@torch.no_grad()
def answers_of(numbers: torch.Tensor) -> torch.Tensor:
    """For each model the digits that it sees in the test images, [models, 261]."""
    test_images = digit_images()[2]
    return outputs_of(numbers, test_images.expand(len(numbers), -1, -1)).argmax(dim=-1)


def outputs_of(numbers: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """[models, 2410] and [models, samples, 64] → [models, samples, 10]."""
    parts = numbers.split([math.prod(shape) for shape in _shapes()], dim=1)
    weights, bias, last_weights, last_bias = (
        part.view(-1, *shape) for part, shape in zip(parts, _shapes(), strict=True)
    )
    return torch.relu(inputs @ weights.mT + bias[:, None]) @ last_weights.mT + last_bias[:, None]


@cache
def _shapes() -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(parameter.shape) for parameter in digit_classifier(0).parameters())
