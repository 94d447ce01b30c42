"""Where a model lies."""

from __future__ import annotations

import torch
from torch import nn


def device_here() -> torch.device:
    """The first GPU of this machine that torch can use, or else the processor."""
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def device_of(model: nn.Module) -> torch.device:
    """Where the parameters of a model lie; the processor for one that has none."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device
