"""What the models of a check are like: shapes, dtypes, which gradients there are. Test cells name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class Gradients:
    """What the parameters of a model are like.

    Attributes:
        shapes: of the parameters.
        missing: (rank, parameter) pairs: there the gradient is None.
        frozen: parameters that need no gradient.
        dtype: of all parameters.
        others: the dtypes of those that have another one, by their number.
    """

    shapes: Sequence[Sequence[int]]
    missing: Sequence[tuple[int, int]] = ()
    frozen: Sequence[int] = ()
    dtype: torch.dtype = torch.float32
    others: Mapping[int, torch.dtype] = field(default_factory=dict)

    @property
    def trained(self) -> list[int]:
        """The parameters that need a gradient."""
        return [number for number in range(len(self.shapes)) if number not in self.frozen]

    @property
    def nbytes(self) -> int:
        """The size of all gradients of one rank."""
        return sum(torch.Size(self.shapes[k]).numel() * self.dtype_of(k).itemsize for k in self.trained)

    def dtype_of(self, number: int) -> torch.dtype:
        """That of a parameter."""
        return self.others.get(number, self.dtype)
