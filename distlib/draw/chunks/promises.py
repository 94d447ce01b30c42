"""Where a function has promised full sums to be when it ends, and what is to be seen where it breaks this.

    end="scattered"     chunk 0  chunk 1        end="everywhere"     chunk 0  chunk 1
    rank 0                sum                   rank 0                 sum      sum
    rank 1                         sum          rank 1                 sum      sum

On the way, a full sum may be anywhere, such as on a master that hands them out in the end. So it is astray only if it
never comes to where it belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from distlib.draw.chunks.markers import Cell
from distlib.draw.style import count

End = Literal["scattered", "everywhere"]
States = Sequence[Sequence[Sequence[Cell]]]
_RankAndChunk = tuple[int, int]
"""Rank, chunk."""


def promised_cells(end: End | None, world_size: int, chunks: int) -> list[_RankAndChunk]:
    """The cells, as (rank, chunk), in which the full sum is promised; none if nothing is promised."""
    if end == "scattered":
        return [(rank, rank) for rank in range(world_size)]
    return [(rank, chunk) for rank in range(world_size) for chunk in range(chunks)] if end == "everywhere" else []


def is_astray(states: States, round: int, rank: int, chunk: int) -> bool:
    """Whether a full sum is on this rank instead of rank `chunk`, to which it belongs after a reduce-scatter."""
    return rank != chunk and states[round][rank][chunk].is_full and not states[-1][chunk][chunk].is_full


def find_broken(states: States, end: End | None) -> tuple[int, str]:
    """What was promised and is missing in the end: the round in which it can first be seen, and a sentence or two."""
    last = states[-1]
    missing = [
        (rank, chunk) for rank, chunk in promised_cells(end, len(last), len(last[0])) if not last[rank][chunk].is_full
    ]
    if not missing:
        return 0, ""
    astray = _find_astray(states) if end == "scattered" else None
    return astray or _find_lost(states, missing) or _tell_missing(states, missing)


def _find_astray(states: States) -> tuple[int, str] | None:
    cells = [(rank, chunk) for rank, row in enumerate(states[-1]) for chunk in range(len(row))]
    for round in range(len(states)):
        for rank, chunk in cells:
            if is_astray(states, round, rank, chunk):
                ends = count(sum(is_astray(states, len(states) - 1, *cell) for cell in cells), "full sum")
                text = f"rank {rank} holds the full sum of chunk {chunk}, which belongs to rank {chunk}."
                return round, f"After round {round}, {text} In the end: {ends} on a wrong rank."
    return None


def _find_lost(states: States, missing: Sequence[_RankAndChunk]) -> tuple[int, str] | None:
    """The first full sum that a rank had where it belongs, and has no longer."""
    for round in range(1, len(states)):
        for rank, chunk in missing:
            if states[round - 1][rank][chunk].is_full and not states[round][rank][chunk].is_full:
                text = f"After round {round}, chunk {chunk} on rank {rank} no longer holds the full sum."
                return round, f"{text} {_count(missing)}"
    return None


def _tell_missing(states: States, missing: Sequence[_RankAndChunk]) -> tuple[int, str]:
    rank, chunk = missing[0]
    when = f"After the last round, round {len(states) - 1}" if len(states) > 1 else "Without any message"
    return len(states) - 1, f"{when}, chunk {chunk} on rank {rank} does not hold the full sum. {_count(missing)}"


def _count(missing: Sequence[_RankAndChunk]) -> str:
    return f"In the end: {count(len(missing), 'cell')} without the full sum that belongs there."
