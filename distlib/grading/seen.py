"""What a run has left behind, and questions about it: which pieces are wrong, and whose values are inside them.

Every rank starts with values of its own, so a wrong sum can be taken apart. With 3 ranks, a piece of rank 0 that holds
x₀ + 2·x₂ has the contents (1, 0, 2): rank 1's values are missing, rank 2's are counted twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from distlib.grading.case import Case, expected_values, rank_input
from distlib.grading.rank_side import Outcome

DECODED_RANKS = 6  # with more ranks, the 3**N combinations are too many to try


@dataclass(frozen=True)
class Seen:
    """What a run has left behind on its ranks. Values are flattened, and in a dtype in which their sums are exact.

    Attributes:
        case: what was run.
        outcomes: by rank.
        num_messages: how many messages there were, of whomever.
        in_chunks: whether to speak of chunks; otherwise of the tensor as a whole.
    """

    case: Case
    outcomes: Sequence[Outcome]
    num_messages: int
    in_chunks: bool

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.case.world_size

    @cached_property
    def inputs(self) -> list[torch.Tensor]:
        """What each rank started with."""
        return [exact(rank_input(self.case, rank)) for rank in range(self.size)]

    @cached_property
    def values(self) -> list[torch.Tensor]:
        """What each rank ended with."""
        return [exact(outcome.values) for outcome in self.outcomes]

    @cached_property
    def expected(self) -> torch.Tensor:
        """What each rank should have ended with, in its judged pieces."""
        return exact(expected_values(self.case))

    @cached_property
    def pieces(self) -> list[slice]:
        """The chunks, or the whole tensor as one piece."""
        return self.case.chunk_slices if self.in_chunks else [slice(0, self.case.length)]

    def judged(self, rank: int) -> list[int]:
        """The pieces that count on `rank`."""
        return self.case.judged_chunks(rank) if self.in_chunks else [0]

    def is_right(self, rank: int, piece: int) -> bool:
        """Whether `rank` holds in this piece what is expected there."""
        part = self.pieces[piece]
        return torch.equal(self.values[rank][part], self.expected[part])

    @cached_property
    def wrong(self) -> list[tuple[int, int]]:
        """The judged pieces that are wrong, as (rank, piece)."""
        return [(rank, k) for rank in range(self.size) for k in self.judged(rank) if not self.is_right(rank, k)]

    @cached_property
    def unchanged(self) -> list[int]:
        """The ranks whose tensor is as it was at the start."""
        return [rank for rank, values in enumerate(self.values) if torch.equal(values, self.inputs[rank])]

    def inside(self, rank: int, piece: int) -> tuple[int, ...] | None:
        """How often each rank's values are in a piece; None if it is no such sum, or it is empty."""
        part = self.pieces[piece]
        return contents(self.values[rank][part], [values[part] for values in self.inputs])

    def would_be_right(self, candidate: Callable[[int], torch.Tensor | None]) -> bool:
        """Whether `candidate(rank)`, in the place of what the rank holds, would be right on every rank."""
        found = [candidate(rank) for rank in range(self.size)]
        return all(values is not None and self._fits(rank, values) for rank, values in enumerate(found))

    def _fits(self, rank: int, values: torch.Tensor) -> bool:
        if values.numel() != self.case.length:
            return False
        parts = [self.pieces[k] for k in self.judged(rank)]
        return all(torch.equal(exact(values)[part], self.expected[part]) for part in parts)


def exact(values: torch.Tensor) -> torch.Tensor:
    """`values` in a dtype in which small multiples and sums of the values of all cases are exact."""
    return values.to(torch.float64 if values.dtype.is_floating_point else torch.int64)


def contents(found: torch.Tensor, inputs: Sequence[torch.Tensor]) -> tuple[int, ...] | None:
    """The weights 0, 1 or 2 with which `inputs` sum up to `found`; of several, those nearest to all ones.

    None if there are none, if `found` is empty, or if there are more than `DECODED_RANKS` inputs.
    """
    if len(inputs) > DECODED_RANKS or found.numel() == 0:
        return None
    weights = sorted(itertools.product((0, 1, 2), repeat=len(inputs)), key=lambda row: sum(abs(w - 1) for w in row))
    table = torch.tensor(weights, dtype=found.dtype)
    sums = (table[:, :, None] * torch.stack(list(inputs))[None]).sum(dim=1)
    hits = (sums == found).all(dim=1).nonzero()
    return weights[int(hits[0])] if len(hits) else None
