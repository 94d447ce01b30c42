"""Cases in which every rank has one tensor: how many ranks, which tensor, and what each rank must hold at the end.

All values are drawn from a seed. They are multiples of a small power of two, so that sums are exact in the dtype and
the order of addition makes no difference: a check compares with `==`, whichever way round a ring goes.

    all_reduce        every rank starts with its own values      every rank ends with the sum, by any `algorithm`
    reduce_scatter    every rank starts with its own values      rank r ends with chunk r of the sum; the rest is free
    all_gather        rank r starts with chunk r right, the      every rank ends with chunk r of rank r, for all r
                      rest is random
    shift             every rank starts with its own values      rank r ends with the values of rank r - 1
    broadcast         every rank starts with its own values      every rank ends with the root's
    scatter           every rank starts with its own values      rank r returns chunk r of the root's
    gather            every rank starts with its own values      the root returns a list of all, the others None
    reduce            every rank starts with its own values      the root ends with the sum; the others are free
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product

import torch

from distlib.checks.case import Case
from distlib.checks.plays.tensor import LAYOUTS, one_tensor
from distlib.checks.report import sent
from distlib.checks.seen import Seen
from distlib.checks.words import count, dtype_name
from distlib.partition import chunk_lengths

ALGORITHMS = ("tree", "halving_doubling", "grid")


@dataclass(frozen=True)
class TensorCase:
    """The facts of a case in which every rank has one tensor.

    Attributes:
        collective: "all_reduce", "reduce_scatter", "all_gather", or one of the five patterns above.
        world_size: how many ranks run it.
        length: the tensor's number of elements, on every rank.
        dtype: the tensor's dtype.
        layout: how the tensor lies in memory, a key of `LAYOUTS`.
        seed: the seed of the values.
        root: the rank that is handed over as `root`, or None for a function without one.
        algorithm: a name of `ALGORITHMS` where one is asked for that cuts the tensor in a way of its own, else None.
        columns: the number of ranks in a row that is handed over as `columns`, or None for a function without it.
    """

    collective: str
    world_size: int
    length: int
    dtype: torch.dtype
    layout: str
    seed: int
    root: int | None = None
    algorithm: str | None = None
    columns: int | None = None

    @property
    def options(self) -> dict[str, int]:
        """What the function is handed over besides the communicator and the tensor."""
        asked = {"root": self.root, "columns": self.columns}
        return {name: value for name, value in asked.items() if value is not None}

    @property
    def size(self) -> str:
        """As in "10 float32"."""
        return f"{self.length} {dtype_name(self.dtype)}"

    @property
    def title(self) -> str:
        """As in "on 3 ranks, 10 float32"; with a root other than 0: "…, root 2"."""
        root = f", root {self.root}" if self.root else ""
        ranks = count(self.world_size, "rank")
        if self.columns is not None:
            ranks += f" in {count(self.rows, 'row')} of {self.columns}"
        return f"on {ranks}, {self.size}{LAYOUTS[self.layout]}{root}"

    @property
    def rows(self) -> int:
        """The number of rows of the grid; without one, all ranks are in a single row."""
        return self.world_size // (self.columns or self.world_size)

    @property
    def nbytes(self) -> int:
        """The size of one rank's tensor in bytes."""
        return self.length * self.dtype.itemsize

    @property
    def chunk_lengths(self) -> list[int]:
        """The lengths of the chunks, as `torch.tensor_split` cuts them.

        One chunk a rank; for halving and doubling one for each rank of the power of two, in a grid one a column.
        """
        parts = self.columns or self.world_size
        return chunk_lengths(self.length, 1 << (parts.bit_length() - 1) if self.is_halving else parts)

    @property
    def is_halving(self) -> bool:
        """Whether halving and doubling is asked for, which works on a power of two of the ranks."""
        return self.algorithm == "halving_doubling"

    @property
    def chunk_slices(self) -> list[slice]:
        """Where each chunk lies in the flattened tensor."""
        ends = list(accumulate(self.chunk_lengths))
        return [slice(end - length, end) for end, length in zip(ends, self.chunk_lengths, strict=True)]

    def judged_chunks(self, rank: int) -> list[int]:
        """The chunks whose values count on `rank`: all, but after a reduce-scatter only its own."""
        return [rank] if self.collective == "reduce_scatter" else list(range(len(self.chunk_lengths)))


def rank_input(case: TensorCase, rank: int) -> torch.Tensor:
    """What `rank` starts with: shape [length], the same for the same case and rank."""
    draw = random.Random(f"{case.seed} {case.world_size} {case.length} {case.dtype} {rank}")
    limit, unit = _value_range(case.dtype, case.world_size)
    units = [draw.randint(-limit, limit) for _ in range(case.length)]
    return torch.tensor([value * unit for value in units], dtype=case.dtype)


def expected_values(case: TensorCase) -> torch.Tensor:
    """What the judged chunks must hold at the end: shape [length], the same for all ranks."""
    inputs = [rank_input(case, rank) for rank in range(case.world_size)]
    if case.collective == "all_gather":
        return torch.cat([inputs[rank][part] for rank, part in enumerate(case.chunk_slices)])
    total = torch.zeros(case.length, dtype=case.dtype)
    for values in inputs:
        total += values
    return total


def tensor_cases(
    collective: str,
    *,
    world_sizes: Sequence[int],
    lengths: Sequence[int],
    dtypes: Sequence[torch.dtype] = (torch.float32,),
    layouts: Sequence[str] = ("contiguous",),
    roots: Sequence[int | None] = (None,),
    columns: Sequence[int | None] = (None,),
    algorithm: str | None = None,
    seed: int,
) -> Iterator[Case]:
    """Every combination as a case, in the order given. A root that a world does not have is left out, and so are
    columns that do not divide its size.

    Raises:
        ValueError: a layout that does not exist.
    """
    for layout in layouts:
        if layout not in LAYOUTS:
            raise ValueError(f"layouts: expected one of {', '.join(LAYOUTS)}, got {layout!r}")
    for size, length, dtype, layout, root, width in product(world_sizes, lengths, dtypes, layouts, roots, columns):
        if (root is None or root < size) and (width is None or size % width == 0):
            facts = TensorCase(collective, size, length, dtype, layout, seed, root, algorithm, width)
            inputs = [
                {"values": rank_input(facts, rank), "layout": layout, "options": facts.options} for rank in range(size)
            ]
            yield Case(facts.title, one_tensor, inputs, facts, seed=seed)


def row(seen: Seen) -> dict[str, str]:
    """A case as a row of a report's table."""
    case: TensorCase = seen.facts
    asked = {"columns": case.columns, "root": case.root}
    return {
        "ranks": str(case.world_size),
        **{name: str(value) for name, value in asked.items() if value is not None},
        "elements": str(case.length),
        "dtype": dtype_name(case.dtype),
        **sent(seen.trace),
    }


def _value_range(dtype: torch.dtype, world_size: int) -> tuple[int, float | int]:
    """Values are integers up to ± the first number, times the second. Sums over all ranks stay exact."""
    if dtype.is_floating_point or dtype.is_complex:
        exact = round(2 / torch.finfo(dtype).eps)  # integers up to this are exact in the dtype
        return min(exact // (2 * world_size), 400), 0.25
    largest = torch.iinfo(dtype).max // (2 * world_size)
    return min(largest, 2**54), 1  # beyond 2**53 a detour through float64 would lose digits
