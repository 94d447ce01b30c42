"""What every program of this package trains, written once: a plain `nn.Module`, its data, a loss function.

    1,440 images of digits, in their order, two processes, 12 images each in a step: 60 steps

The classifier is that of lesson 05 with one more, wide layer: a model of 1.1 MB fills more than one of DDP's buckets.
"""

from __future__ import annotations

import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from distlib.trainers import in_each_process
from distlib.training.datasets import digits

RANKS = 2
BATCH = 12  # images of each rank in a step
STEPS = 60
LEARNING_RATE, MOMENTUM = 0.05, 0.9

Batch = tuple[torch.Tensor, torch.Tensor]


class WideClassifier(nn.Module):
    """Images [n, 1, 8, 8] → scores [n, 10]. 274,666 parameters, most of them in one matrix."""

    def __init__(self) -> None:
        in_each_process.begin()
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten())
        self.decide = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The scores of a batch of images."""
        scores: torch.Tensor = self.decide(self.look(images))
        return scores


def training_set(steps: int = STEPS) -> TensorDataset:
    """The images for so many steps of all ranks, with their labels."""
    (images, labels), _ = digits()
    count = steps * BATCH * RANKS
    return TensorDataset(_scaled(images[:count]), labels[:count])


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer that all programs use. It keeps one state for each parameter, the momentum."""
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)


def loss_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The loss function: the mean loss of this rank's part of the batch."""
    in_each_process.step(model)
    images, labels = batch
    return cross_entropy(model(images), labels)


def finish(model: nn.Module) -> None:
    """Print the loss on the test images. model: a `WideClassifier`, without what a framework has wrapped it in."""
    in_each_process.end(model)
    _, (images, labels) = digits()
    with torch.no_grad():
        loss = cross_entropy(model(_scaled(images)), labels).item()
    say(f"{in_each_process.who()}: loss on the test images {loss:.6f}")


def say(text: str) -> None:
    """Print a line in one piece, so that lines of several processes do not run into each other."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _scaled(images: torch.Tensor) -> torch.Tensor:
    """From [0, 1] to about [-1, 2], where the training begins at once.

    With the seed that all programs use, no input of a ReLU comes so close to zero here that rounding, which differs
    with the order of a sum, decides on its sign. With images as they are one does: from then on two runs differ by
    1e-2, and the frameworks could not be compared.
    """
    return (images - 0.3) * 3


def numbers(count: int = 32) -> list[int]:
    """A data set whose samples are their own numbers, to see which rank gets which."""
    return list(range(count))
