"""Cases in which every rank has one tensor: how many ranks, which tensor, and what each rank must hold at the end.

All values are drawn from a seed. They are small whole numbers, so that sums are exact in the dtype and the order of
addition makes no difference: a check compares with `==`, whichever way round a ring goes.

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
from functools import cache
from itertools import accumulate, product

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count, dtype_name
from distlib.checks.plays.tensor import LAYOUTS, one_tensor
from distlib.checks.report import sent
from distlib.checks.seen import Seen
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
        """Length and dtype in words: "10 float32"."""
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
        """The chunks whose values count on `rank`: all; after a reduce-scatter its own; after a reduce, on the root."""
        if self.collective == "reduce" and rank != (self.root or 0):
            return []
        return [rank] if self.collective == "reduce_scatter" else list(range(len(self.chunk_lengths)))


def tensor_facts(seen: Seen, who: str) -> TensorCase:
    """The facts of a run.

    Raises:
        TypeError: there are none. `who` asks for them.
    """
    facts: TensorCase | None = seen.facts
    if facts is None:
        raise TypeError(
            f"{who} asks for the facts of a TensorCase. Take the cases from tensor_cases, or give Case some"
        )
    return facts


def rank_input(case: TensorCase, rank: int) -> torch.Tensor:
    """What `rank` starts with: shape [length], the same for the same case and rank. See `_element`."""
    return torch.tensor([_element(case, number)[rank] for number in range(case.length)], dtype=case.dtype)


def expected_on(case: TensorCase, rank: int) -> torch.Tensor | None:
    """What the tensor of `rank` must hold at the end: shape [length]; only the judged chunks count. None: anything."""
    inputs = [rank_input(case, rank) for rank in range(case.world_size)]
    root = case.root or 0
    if case.collective == "all_gather":
        return torch.cat([inputs[rank][part] for rank, part in enumerate(case.chunk_slices)])
    if case.collective in ("all_reduce", "reduce_scatter", "reduce"):
        total = torch.stack(inputs).sum(dim=0, dtype=case.dtype)
        return None if case.collective == "reduce" and rank != root else total
    if case.collective not in ("shift", "broadcast", "scatter", "gather"):
        raise ValueError(f"nobody has said here what {case.collective} leaves on a rank: judge the values with `holds`")
    return inputs[{"shift": rank - 1, "broadcast": root}.get(case.collective, rank)]


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
    """Every combination as a case, in the order given, played by `plays.tensor.one_tensor`: a rank's input is "values".

    A root that a world does not have is left out, and so are columns that do not divide its size; a scalar has one
    element.

    Args:
        collective: one of those above, or a name of your own. For that, `LeftInTensors` does not know what is right:
            judge with `rules.values.holds`.

    Raises:
        ValueError: a layout that does not exist.
    """
    for layout in layouts:
        if layout not in LAYOUTS:
            raise ValueError(f"layouts: expected one of {', '.join(LAYOUTS)}, got {layout!r}")
    for size, length, dtype, layout, root, width in product(world_sizes, lengths, dtypes, layouts, roots, columns):
        if (
            (root is None or root < size)
            and (width is None or size % width == 0)
            and (layout != "scalar" or length == 1)
        ):
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


# ── the numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────

_EXPONENTS = 6  # as many ranks can be told apart inside one element
_WIDE = {torch.int64: 3**34, torch.int32: 3**16, torch.float64: 3**16}  # more than float64, or float32, holds exactly


@cache
def _element(case: TensorCase, number: int) -> list[int]:
    """The whole numbers that the ranks have in one element, by rank: small ones, and exact in the dtype, sums too.

    One of them is no multiple of 3, the next one is one of 3 but not of 9, then of 9 but not of 27, and so on, in a
    shuffled order. So a sum in which every rank is counted 0 times, once or twice tells which: its digits to base 3 do.
    The last element is larger than a narrower dtype can hold: a detour through that loses its last digits.
    """
    draw = random.Random(f"{case.seed} {case.world_size} {case.length} {case.dtype} {number}")
    if case.dtype == torch.bool:
        return [draw.randint(0, 1) for _ in range(case.world_size)]
    limit, is_signed = _limit(case.dtype, case.world_size)
    powers = [3**k for k in range(_EXPONENTS) if 3**k <= limit]
    ranks = draw.sample(range(case.world_size), case.world_size)
    values = [_multiple(draw, powers[index % len(powers)], limit) for index in ranks]
    values = [value * (draw.choice((-1, 1)) if is_signed else 1) for value in values]
    wide = _WIDE.get(case.dtype) if number == case.length - 1 else None
    return [wide + 2 * value for value in values] if wide else values  # odd: the last digit is lost for certain


def _multiple(draw: random.Random, power: int, limit: int) -> int:
    """A multiple of a power of 3, but not of the next one, up to `limit`."""
    return power * draw.choice([factor for factor in range(1, limit // power + 1) if factor % 3])


def _limit(dtype: torch.dtype, world_size: int) -> tuple[int, bool]:
    """The largest value, and whether there are negative ones. Twice the sum over all ranks is exact in the dtype."""
    is_whole = not dtype.is_floating_point and not dtype.is_complex
    exact = torch.iinfo(dtype).max if is_whole else round(2 / torch.finfo(dtype).eps)
    wanted = max(40, 3 ** (min(world_size, _EXPONENTS) - 1))
    return max(1, min(wanted, exact // (2 * world_size))), dtype.is_signed
