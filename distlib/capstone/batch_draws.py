"""What the batches of a task are drawn with, so that every way of training sees the same ones."""

from __future__ import annotations

import torch

_APART = 1_000_003  # more than any training has steps: no two seeds have a batch in common


def generator_of_step(seed: int, step: int) -> torch.Generator:
    """The same for everybody who asks; another one for each step and seed."""
    return torch.Generator().manual_seed(seed * _APART + step)
