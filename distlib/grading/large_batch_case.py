"""What the checks of accumulate_gradients and local_sgd_round draw at random, and how they show a tensor."""

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


def is_close(found: Any, expected: torch.Tensor, relative: float = 1e-9) -> bool:
    """Whether a float64 tensor is the expected one, to rounding."""
    is_alike = isinstance(found, torch.Tensor) and found.dtype == expected.dtype and found.shape == expected.shape
    return is_alike and torch.allclose(found, expected, rtol=relative, atol=relative / 1000)


def shown(value: Any) -> str:
    """A tensor as a student reads it: its first numbers."""
    if not isinstance(value, torch.Tensor):
        return str(value)
    flat = value.flatten().tolist()
    numbers = ", ".join(f"{number:.4g}" for number in flat[:6])
    return f"[{numbers}{', …' if len(flat) > 6 else ''}], {str(value.dtype).removeprefix('torch.')}"
