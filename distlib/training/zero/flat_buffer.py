"""Several tensors in one flat buffer, padded so that every rank has a shard of the same length. Pure: nothing is sent.

    tensors     weight [3, 2]      bias [3]    padding
    flat        w w w w w w        b b b       0 0 0        9 numbers on 4 ranks: padded to 12
    shards      └ rank 0 ┘└ rank 1 ┘└ rank 2 ┘└ rank 3 ┘    3 numbers each

A shard may begin or end in the middle of a tensor: what the optimizer does, it does element by element. Whole tensors
can't be dealt out evenly, since in many models one tensor is larger than all others together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from distlib.arguments import check_integer


class FlatLayout:
    """Where each tensor stands in a flat buffer, and where each shard begins.

    Args:
        shapes: name → shape, in the order in which the tensors stand in the buffer.
        num_shards: at least 1.

    Attributes:
        shapes: as given.
        length: of all tensors together, in elements.
        padded_length: the next multiple of `num_shards`.
        shard_length: `padded_length` / `num_shards`.

    Raises:
        ValueError: no tensors, or less than 1 shard.
    """

    def __init__(self, shapes: Mapping[str, Sequence[int]], num_shards: int) -> None:
        check_integer("FlatLayout", "num_shards", num_shards, 1)
        if not shapes:
            raise ValueError("FlatLayout expected at least one shape, got none")
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self._lengths = [math.prod(shape) for shape in self.shapes.values()]
        self.num_shards, self.length = num_shards, sum(self._lengths)
        self.shard_length = -(-self.length // num_shards)
        self.padded_length = self.shard_length * num_shards

    def views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tensors, by name, as views of a flat buffer of `length` or `padded_length` elements."""
        pieces = flat[: self.length].split(self._lengths)
        named = zip(self.shapes.items(), pieces, strict=True)
        return {name: piece.view(shape) for (name, shape), piece in named}

    @torch.no_grad()
    def flatten(self, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """A new flat buffer of `padded_length` elements with the values of the tensors; the padding is zero."""
        first = next(iter(tensors.values()))
        flat = torch.zeros(self.padded_length, dtype=first.dtype, device=first.device)
        for name, view in self.views(flat).items():
            view.copy_(tensors[name])
        return flat

    def shard(self, flat: torch.Tensor, index: int) -> torch.Tensor:
        """Shard `index`, as a view of a flat buffer of `padded_length` elements."""
        return flat[index * self.shard_length : (index + 1) * self.shard_length]
