"""A training by one process: what every other way of training is held against.

for step in range(steps):
    tokens, following = task.batch(step)              the whole batch; each way of training takes its parts of it
    scores = model(tokens)
    loss = the mean cross-entropy of what the task counts
    gradients clipped to norm 1, AdamW, a learning rate that is warmed up
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib.arguments import check_integer
from distlib.capstone.characters import Characters
from distlib.capstone.devices import device_of

RATE, WARM_UP = 1e-3, 30  # the learning rate, and the steps in which it grows to this
MAX_NORM = 1.0
BETAS = (0.9, 0.98)


class LanguageTask(Protocol):
    """What a model is to learn. See `Additions` and `Texts`."""

    characters: Characters
    length: int
    batch_size: int

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]: ...

    def counted(self, scores: torch.Tensor, following: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...

    def sample(self, model: nn.Module) -> str: ...


@dataclass(frozen=True)
class TrainingProgress:
    """Where a training is.

    Attributes:
        step: how many steps are done.
        loss: of the last of them, in nats per character.
        tokens_per_second: since the beginning.
        sample: what the model writes now.
    """

    step: int
    loss: float
    tokens_per_second: float
    sample: str

    def __str__(self) -> str:
        words = " ".join(self.sample.split())
        return f"step {self.step:5,}  loss {self.loss:.3f}  {self.tokens_per_second:7,.0f} tokens/s  {words}"


def new_optimizer(parameters: Iterable[torch.Tensor]) -> torch.optim.AdamW:
    """The optimizer that all ways of training use, of what a rank trains."""
    return torch.optim.AdamW(parameters, lr=RATE, betas=BETAS)


def rate_of(step: int) -> float:
    """The learning rate of a step: it grows to `RATE` in the first 30, and stays."""
    return RATE * min(1.0, (step + 1) / WARM_UP)


def set_rate(optimizer: torch.optim.Optimizer, step: int) -> None:
    """Give an optimizer the learning rate of a step."""
    for group in optimizer.param_groups:
        group["lr"] = rate_of(step)


def loss_of_scores(task: LanguageTask, scores: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy of what the task counts, in nats."""
    scores, following = task.counted(scores, following)
    return cross_entropy(scores.flatten(0, 1), following.flatten())


def step_alone(model: nn.Module, optimizer: torch.optim.Optimizer, task: LanguageTask, step: int) -> float:
    """One step, in place. Returns its loss."""
    set_rate(optimizer, step)
    tokens, following = (each.to(device_of(model)) for each in task.batch(step))
    optimizer.zero_grad()
    loss = loss_of_scores(task, model(tokens), following)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
    optimizer.step()
    return loss.item()


def train_alone(
    model: nn.Module,
    task: LanguageTask,
    steps: int,
    *,
    every: int = 0,
    on_progress: Callable[[TrainingProgress], None] = print,
) -> list[float]:
    """Train a model in this process, in place.

    Args:
        steps: at least 1.
        every: after how many steps `on_progress` is called; 0: never.
        on_progress: gets a `TrainingProgress`; prints it unless told otherwise.

    Returns:
        The loss of each step.

    Raises:
        ValueError: less than one step.
    """
    check_integer("train_alone", "steps", steps, 1)
    return list(_losses(model, task, steps, every, on_progress))


def _losses(
    model: nn.Module, task: LanguageTask, steps: int, every: int, on_progress: Callable[[TrainingProgress], None]
) -> Iterator[float]:
    optimizer, start = new_optimizer(model.parameters()), time.perf_counter()
    for step in range(steps):
        loss = step_alone(model, optimizer, task, step)
        if every and (step + 1) % every == 0:
            tokens = (step + 1) * task.batch_size * task.length
            on_progress(TrainingProgress(step + 1, loss, tokens / (time.perf_counter() - start), task.sample(model)))
        yield loss
