"""One case of a check: how many ranks, which tensor, and what each rank must hold at the end. No communication.

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
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import torch

from distlib.partition import chunk_lengths

LAYOUTS = {
    "contiguous": "",
    "matrix": ", as a matrix",
    "transposed": ", a transposed matrix (its memory is not contiguous)",
    "strided": ", every second element of a longer tensor (its memory is not contiguous)",
}


ALGORITHMS = ("tree", "halving_doubling", "grid")


@dataclass(frozen=True)
class Case:
    """One run of a student's function.

    Attributes:
        function: the function's name, for messages.
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

    function: str
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
        """As in "ring_all_reduce on 3 ranks, 10 float32"; with a root other than 0: "…, root 2"."""
        root = f", root {self.root}" if self.root else ""
        ranks = count(self.world_size, "rank")
        if self.columns is not None:
            ranks += f" in {count(self.rows, 'row')} of {self.columns}"
        return f"{self.function} on {ranks}, {self.size}{LAYOUTS[self.layout]}{root}"

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


def rank_input(case: Case, rank: int) -> torch.Tensor:
    """What `rank` starts with: shape [length], the same for the same case and rank."""
    draw = random.Random(f"{case.seed} {case.world_size} {case.length} {case.dtype} {rank}")
    limit, unit = _value_range(case.dtype, case.world_size)
    units = [draw.randint(-limit, limit) for _ in range(case.length)]
    return torch.tensor([value * unit for value in units], dtype=case.dtype)


def expected_values(case: Case) -> torch.Tensor:
    """What the judged chunks must hold at the end: shape [length], the same for all ranks."""
    inputs = [rank_input(case, rank) for rank in range(case.world_size)]
    if case.collective == "all_gather":
        return torch.cat([inputs[rank][part] for rank, part in enumerate(case.chunk_slices)])
    total = torch.zeros(case.length, dtype=case.dtype)
    for values in inputs:
        total += values
    return total


def lay_out(values: torch.Tensor, layout: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Put `values` (shape [length]) into memory the way `layout` says.

    Returns:
        The whole memory as a tensor of one dimension, and the view of it that holds the values in order.
    """
    length = values.numel()
    memory = torch.full((2 * length + 1 if layout == "strided" else length,), 1, dtype=values.dtype)
    view = _VIEWS[layout](memory, length)
    view.copy_(values.view(view.shape))
    return memory, view


def dtype_name(dtype: torch.dtype) -> str:
    """ "float32" for torch.float32."""
    return str(dtype).removeprefix("torch.")


def count(number: int, noun: str) -> str:
    """ "1 rank", "3 ranks"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _value_range(dtype: torch.dtype, world_size: int) -> tuple[int, float | int]:
    """Values are integers up to ± the first number, times the second. Sums over all ranks stay exact."""
    if dtype.is_floating_point or dtype.is_complex:
        exact = round(2 / torch.finfo(dtype).eps)  # integers up to this are exact in the dtype
        return min(exact // (2 * world_size), 400), 0.25
    largest = torch.iinfo(dtype).max // (2 * world_size)
    return min(largest, 2**54), 1  # beyond 2**53 a detour through float64 would lose digits


def _rows(length: int) -> int:
    """The number of rows of the squarest matrix with `length` elements."""
    return max((rows for rows in range(1, length + 1) if length % rows == 0 and rows * rows <= length), default=1)


def _matrix(memory: torch.Tensor, length: int) -> torch.Tensor:
    rows = _rows(length)
    return memory.view(rows, length // rows)


_VIEWS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "contiguous": lambda memory, length: memory,
    "matrix": _matrix,
    "transposed": lambda memory, length: _matrix(memory, length).t(),
    "strided": lambda memory, length: memory[1 : 2 * length + 1 : 2],
}
