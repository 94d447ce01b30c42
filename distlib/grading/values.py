"""The remark about wrong values: what was expected, what was found, and whose values each chunk holds.

    on rank 0, chunk 1 (elements 4 to 7) is wrong. It must be the sum over all ranks.
      expected [-43.5, 24.25, 107, -30.5]
      found    [-91.5, -49.5, 61.25, 59.5]
      The ranks whose values are in each chunk; every chunk should say all:
                chunk 0  chunk 1
        rank 0  all      0
        rank 1  1        all

What can't be seen: values that are right by accident. They are drawn at random, so this needs luck in every case.
"""

from __future__ import annotations

from collections.abc import Sequence

from distlib.checks.remark import Remark
from distlib.checks.rules.values import SHOWN, first_numbers
from distlib.grading.algorithm_causes import algorithm_cause
from distlib.grading.seen import DECODED_RANKS, Seen
from distlib.grading.value_causes import usual_cause
from distlib.worlds.diagnosis import name_ranks


def explain_values(seen: Seen) -> Remark | None:
    """The remark about the first wrong piece; None if all values are right."""
    if not seen.wrong:
        return _explain_strayed(seen)
    rank, piece = seen.wrong[0]
    return Remark(
        f"{_where(seen, rank, piece)} {_what_should_be_there(seen)}",
        (*_expected_and_found(seen, rank, piece), *_contents_table(seen)),
        algorithm_cause(seen) if seen.case.algorithm else usual_cause(seen),
    )


def _where(seen: Seen, rank: int, piece: int) -> str:
    if not seen.in_chunks:
        return f"on rank {rank} the tensor is wrong."
    part = seen.pieces[piece]
    last = part.stop - 1
    elements = f"element {last}" if part.start == last else f"elements {part.start} to {last}"
    return f"on rank {rank}, chunk {piece} ({elements}) is wrong."


def _what_should_be_there(seen: Seen) -> str:
    if seen.case.collective == "all_gather":
        return "Chunk k must be what rank k had in its chunk k at the start."
    if seen.case.collective == "reduce_scatter":
        return "Chunk r of rank r must be the sum over all ranks."
    return "It must be the sum over all ranks."


def _expected_and_found(seen: Seen, rank: int, piece: int) -> list[str]:
    part = seen.pieces[piece]
    start = part.start
    if part.stop - part.start > SHOWN:
        differs = (seen.values[rank][part] != seen.expected[part]).nonzero()
        start += int(differs[0])
    rest = slice(start, part.stop)
    at = f"   from element {start} on" if start != part.start else ""
    return [
        f"expected {first_numbers(seen.expected[rest])}{at}",
        f"found    {first_numbers(seen.values[rank][rest])}",
    ]


def _contents_table(seen: Seen) -> list[str]:
    """Whose values each chunk holds, a line a rank. Empty where that says nothing."""
    if not seen.in_chunks or seen.case.collective == "all_gather" or not 2 <= seen.size <= DECODED_RANKS:
        return []
    pieces = range(len(seen.pieces))
    rows = [[_contents(seen, rank, piece) for piece in pieces] for rank in range(seen.size)]
    if any(text == "?" for row in rows for text in row):
        return []
    header = ["", *(f"chunk {piece}" for piece in pieces)]
    lines = _table([header, *([f"rank {rank}", *row] for rank, row in enumerate(rows))])
    goal = "chunk r of rank r" if seen.case.collective == "reduce_scatter" else "every chunk"
    return [f"The ranks whose values are in each chunk; {goal} should say all:", *lines]


def _contents(seen: Seen, rank: int, piece: int) -> str:
    if seen.pieces[piece].start == seen.pieces[piece].stop:
        return "(empty)"
    inside = seen.inside(rank, piece)
    if inside is None:
        return "?"
    if all(times == 1 for times in inside):
        return "all"
    return "+".join(str(source) for source, times in enumerate(inside) for _ in range(times)) or "zeros"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _explain_strayed(seen: Seen) -> Remark | None:
    strayed = [rank for rank, outcome in enumerate(seen.outcomes) if outcome.strayed]
    if not strayed:
        return None
    return Remark(
        f"the values are right, but {name_ranks(strayed)} also wrote into memory that is not part of the tensor.",
        cause="the tensor is a view of a longer one. Write through the tensor you were given, not through its storage.",
    )
