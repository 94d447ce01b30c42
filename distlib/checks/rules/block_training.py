"""What one process makes of a `BlockModel` that ranks train together: gradients, norms, steps of SGD."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch

from distlib.checks.plays.block_models import BlockModel

ROOT = "the root"  # the unit that has what lies in no block
GATHER, SCATTER = "all_gather_into_tensor", "reduce_scatter_tensor"  # what fully_shard calls for a unit
NUMBER_BYTES = 8  # of a float64

Gradients = dict[str, torch.Tensor]  # by the name of the parameter
Batch = tuple[torch.Tensor, torch.Tensor]  # inputs, targets


def sum_of_gradients(model: BlockModel, batches: Iterable[Batch], factor: float) -> Gradients:
    """The gradients of mean squared errors, added up over batches, times a factor. All parameters have some."""
    model.zero_grad()
    for x, y in batches:
        torch.nn.functional.mse_loss(model(x), y).backward()
    return {name: factor * each.grad for name, each in model.named_parameters() if each.grad is not None}


def norm_of(tensors: Iterable[torch.Tensor]) -> float:
    """The norm of all numbers in some tensors."""
    return math.sqrt(sum(float(each.double().square().sum()) for each in tensors))


def clipped(gradients: Gradients, max_norm: float, norm: float | None = None) -> Gradients:
    """As torch clips them. `norm`: the one to clip by; by default that of these gradients."""
    factor = min(1.0, max_norm / ((norm_of(gradients.values()) if norm is None else norm) + 1e-6))
    return {name: factor * each for name, each in gradients.items()}


def take_step(model: BlockModel, gradients: Mapping[str, torch.Tensor], rate: float) -> None:
    """A step of SGD."""
    with torch.no_grad():
        for name, gradient in gradients.items():
            model.get_parameter(name).sub_(rate * gradient)


def rows_of_rank(tensor: torch.Tensor, ranks: int, rank: int) -> torch.Tensor:
    """What `fully_shard` gives to a rank: the rows of its chunk. The last ranks may have none."""
    chunks = tensor.chunk(ranks)
    return chunks[rank] if rank < len(chunks) else tensor[:0]


def padded_rows(tensor: torch.Tensor, ranks: int) -> int:
    """The bytes of a rank's rows as they travel: with zeros, so that all ranks have equally many."""
    return -(-len(tensor) // ranks) * (tensor.numel() // len(tensor)) * tensor.itemsize


def by_unit(nbytes: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Bytes added up by the unit of `fully_shard` that a parameter is in, where each block is one.

    Args:
        nbytes: the names of parameters, and the bytes of each.
    """
    found: dict[str, int] = {}
    for name, each in nbytes:
        unit = ".".join(name.split(".")[:2]) if name.startswith("blocks.") else ROOT
        found[unit] = found.get(unit, 0) + each
    return found


def is_same_norm(found: object, right: object) -> bool:
    """Whether two norms differ by rounding at most, also if they were computed in float32."""
    close = isinstance(found, int | float) and isinstance(right, int | float)
    return close and math.isclose(found, right, rel_tol=1e-5, abs_tol=1e-9)  # type: ignore[arg-type]
