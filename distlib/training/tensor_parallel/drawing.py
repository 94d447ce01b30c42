"""A part of a random weight, the same whichever way the weight is cut: its seed depends on the layer alone.

The whole weight is drawn row by row, and of each row is kept what belongs to this rank. So it costs the time of the
whole, and the memory of a part and one row. A model on 1 rank and the same model on 8 begin with the same weights.

The distribution is that of nn.Linear: uniform between −1/√in and 1/√in.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


def draw_linear(
    in_features: int,
    out_features: int,
    rows: Sequence[int],
    columns: slice,
    seed: int,
    dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The `rows` and `columns` of a random weight [out_features, in_features], and the whole random bias."""
    generator = torch.Generator().manual_seed(seed)
    bound = in_features**-0.5

    def draw(length: int) -> torch.Tensor:
        return torch.empty(length, dtype=dtype).uniform_(-bound, bound, generator=generator)

    index_of = {row: index for index, row in enumerate(rows)}
    kept = torch.empty(len(rows), len(range(in_features)[columns]), dtype=dtype)
    for row in range(out_features):
        drawn = draw(in_features)
        if row in index_of:
            kept[index_of[row]] = drawn[columns]
    return kept, draw(out_features)
