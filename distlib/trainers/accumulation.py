"""Who divides by what, when two small batches make one step? What each of the programs about it needs.

wanted      the gradient of the mean loss of all images of the step: 2 ranks × 2 small batches
tell        how much of it there is: 2.00 × means that nobody has divided by the number of small batches
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib.trainers import in_each_process
from distlib.trainers.same_task import BATCH, RANKS, Batch, say, training_set

SMALL = 2  # batches in a step


def micro_batches(rank: int) -> list[Batch]:
    """The small batches of a rank for one step."""
    images, labels = training_set(steps=SMALL).tensors
    starts = [(small * RANKS + rank) * BATCH for small in range(SMALL)]
    return [(images[start : start + BATCH], labels[start : start + BATCH]) for start in starts]


def wanted_gradient(model: nn.Module) -> torch.Tensor:
    """The gradient of the mean loss of all images of the step, as one vector."""
    images, labels = training_set(steps=SMALL).tensors
    gradients = torch.autograd.grad(cross_entropy(model(images), labels), list(model.parameters()))
    return torch.cat([gradient.flatten() for gradient in gradients])


def tell(model: nn.Module, wanted: torch.Tensor) -> None:
    """Print how many times the wanted gradient the model's is."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    _print(torch.cat([gradient.flatten() for gradient in gradients]), wanted)


def tell_of_step(before: Sequence[torch.Tensor], model: nn.Module, wanted: torch.Tensor) -> None:
    """The same from a step with a rate of 1, which is as long as the gradient."""
    after = list(model.parameters())
    _print(torch.cat([(old - new.detach()).flatten() for old, new in zip(before, after, strict=True)]), wanted)


def _print(found: torch.Tensor, wanted: torch.Tensor) -> None:
    times = float(found @ wanted / (wanted @ wanted))
    off = float((found - times * wanted).abs().max())
    say(f"{in_each_process.who()}: {times:.2f} × the gradient of the mean loss (but for {off:.0e})")
