"""What the models of a check are like: shapes, dtypes, which gradients there are. Test cells name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Gradients:
    """What the parameters of a model are like.

    Attributes:
        shapes: of the parameters.
        missing: (rank, parameter) pairs: there the gradient is None.
        frozen: parameters that need no gradient.
        dtype: of all parameters.
    """

    shapes: Sequence[Sequence[int]]
    missing: Sequence[tuple[int, int]] = ()
    frozen: Sequence[int] = ()
    dtype: torch.dtype = torch.float32

    @property
    def trained(self) -> list[int]:
        """The parameters that need a gradient."""
        return [number for number in range(len(self.shapes)) if number not in self.frozen]

    @property
    def nbytes(self) -> int:
        """The size of all gradients of one rank."""
        return sum(torch.Size(self.shapes[number]).numel() for number in self.trained) * self.dtype.itemsize
