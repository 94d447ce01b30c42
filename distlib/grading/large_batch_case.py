"""What the checks of accumulate_gradients and local_sgd_round draw at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

FEATURES, HIDDEN, CLASSES = 3, 4, 3
ROUNDED = "it is right to about seven digits only. Make buffers of the parameters' dtype: torch.cat and zeros_like do."


def draw_values(generator: torch.Generator, shape: Sequence[int]) -> torch.Tensor:
    """Random float64 numbers."""
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def draw_state(generator: torch.Generator, *, buffers: bool, frozen: bool) -> dict[str, Any]:
    """The state of a scenarios.large_batches.Model."""
    shapes = ((HIDDEN, FEATURES), (CLASSES, HIDDEN))
    layers = [(draw_values(generator, shape), draw_values(generator, shape[:1])) for shape in shapes]
    return {
        "layers": layers,
        "mean": draw_values(generator, (FEATURES,)) if buffers else None,
        "count": torch.tensor(0) if buffers else None,
        "frozen": frozen,
    }


def draw_batch(generator: torch.Generator, length: int, loss: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of `length` samples."""
    inputs = draw_values(generator, (length, FEATURES))
    if loss == "squared":
        return inputs, draw_values(generator, (length,))
    return inputs, torch.randint(CLASSES, (length,), generator=generator)
