"""Tensors whose values tell whose contributions are inside, so that a sum can be taken apart again.

Each pair (rank, chunk) has an element of its own in every chunk. At the start an element is 1 only where that rank's
own contribution to that chunk stands. Any sum of such tensors then counts, element by element, what went into it:

    2 ranks, 2 chunks                      chunk 0                 chunk 1
    element stands for (rank, chunk)   # 00 01 10 11 #         # 00 01 10 11 #
    rank 0 at the start                1  1  .  .  . 1         1  .  1  .  . 1
    rank 1 at the start                1  .  .  1  . 1         1  .  .  .  1 1
    rank 0 after adding 1's chunk 0    2  1  .  1  . 2         1  .  1  .  . 1    chunk 0: both, once each
    … added twice                      3  1  .  2  . 3         1  .  1  .  . 1    rank 1 counted twice
    … added to chunk 1 instead         1  1  .  .  . 1         2  .  1  1  . 2    chunk 1 holds what belongs to chunk 0

The elements # at both ends count all contributions together. They must agree with the ones between them; where chunks
are cut at the wrong place, they do not. Counts are small whole numbers, exact in every floating-point dtype; averages
are read, too. The maximum, minimum or product of contributions has no such counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Cell:
    """What one chunk on one rank holds at one moment.

    Attributes:
        counts: indexed by rank: how often that rank's contribution to this chunk is inside. 1 is right in a sum.
        foreign: (rank, chunk, count) of each contribution inside that belongs to another chunk.
        uneven: whether the elements of this chunk contradict each other: only a part of it was added to or written, or
            it holds numbers that come from nowhere (memory that was never written).
    """

    counts: tuple[float, ...]
    foreign: tuple[tuple[int, int, float], ...] = ()
    uneven: bool = False

    @property
    def is_full(self) -> bool:
        """Whether every rank's contribution to this chunk is inside exactly once, and nothing else."""
        return self.is_clean and all(count == 1 for count in self.counts)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is inside that does not belong here. Contributions may be missing or counted twice."""
        return not self.foreign and not self.uneven

    def __str__(self) -> str:
        inside = [_term(count, str(rank)) for rank, count in enumerate(self.counts) if count]
        inside += [_term(count, f"{rank} of chunk {chunk}") for rank, chunk, count in self.foreign]
        text = "+".join(inside) or "-"
        return f"[{text}]" if self.is_full else f"{text} (uneven)" if self.uneven else text


@dataclass(frozen=True)
class Markers:
    """The layout of a marked tensor for `world_size` ranks and `chunks` chunks."""

    world_size: int
    chunks: int

    @property
    def chunk_length(self) -> int:
        """Elements of one chunk: one for each pair (rank, chunk), and one at each end."""
        return self.world_size * self.chunks + 2

    def initial(self, rank: int, scattered: bool = False) -> list[float]:
        """The values with which `rank` starts, chunk after chunk.

        Args:
            rank: whose contribution they mark.
            scattered: chunk `rank` is the full sum already, as after a reduce-scatter.
        """
        values: list[float] = []
        for chunk in range(self.chunks):
            inside = range(self.world_size) if scattered and chunk == rank else [rank]
            elements = [0.0] * (self.world_size * self.chunks)
            for contributor in inside:
                elements[contributor * self.chunks + chunk] = 1.0
            values += [float(len(inside)), *elements, float(len(inside))]
        return values

    def read(self, values: Sequence[float]) -> list[Cell]:
        """Take a marked tensor apart: one `Cell` a chunk. `values` are all its elements."""
        size = self.chunk_length
        return [self._read_chunk(chunk, values[chunk * size : (chunk + 1) * size]) for chunk in range(self.chunks)]

    def chunks_inside(self, values: Sequence[float]) -> tuple[int, ...]:
        """Which chunks a copy of a part of the tensor consists of; () if it is no whole number of chunks."""
        size = self.chunk_length
        if not values or len(values) % size:
            return ()
        found: set[int] = set()
        for start in range(0, len(values), size):
            elements = values[start + 1 : start + size - 1]
            found |= {index % self.chunks for index, value in enumerate(elements) if value}
        return tuple(sorted(found))

    def _read_chunk(self, chunk: int, values: Sequence[float]) -> Cell:
        first, *elements, last = values
        at = [(divmod(index, self.chunks), value) for index, value in enumerate(elements)]
        counts = tuple(value for (_, belongs_to), value in at if belongs_to == chunk)
        foreign = tuple((rank, other, value) for (rank, other), value in at if other != chunk and value)
        total = sum(elements)
        even = all(math.isclose(end, total, rel_tol=1e-4, abs_tol=1e-6) for end in (first, last))
        return Cell(counts, foreign, uneven=not even)


def is_repeated(count: float) -> bool:
    """Whether a contribution is inside several times: 2, 3, …"""
    return count > 1 and float(count).is_integer()


def is_part(count: float) -> bool:
    """Whether only a part of a contribution is inside, as in an average, or it is no whole number for other reasons."""
    return not float(count).is_integer()


def format_count(count: float) -> str:
    """How often a contribution is inside: "2", "1/4", or "?" if it is no simple number."""
    if count != count or abs(count) > 1e6:
        return "?"
    simple = Fraction(count).limit_denominator(64)
    return str(simple) if abs(simple - Fraction(count)) < 1e-4 else "?"


def _term(count: float, name: str) -> str:
    return name if count == 1 else f"{format_count(count)}×{name}"
