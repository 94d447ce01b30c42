"""The usual causes of wrong sums in an all-reduce by a tree, by halving and doubling, or on a grid.

As in `value_causes`: each function looks for one mistake, and the first that finds its own says so.
"""

from __future__ import annotations

import torch

from distlib.grading.seen import Seen
from distlib.grading.value_causes import GENERAL_CAUSES, Cause
from distlib.network.powers import beyond_power_of_two
from distlib.worlds.diagnosis import name_ranks


def algorithm_cause(seen: Seen) -> str:
    """What usually makes values wrong in the way that they are wrong in `seen`, in the algorithm that is asked for."""
    causes = (*GENERAL_CAUSES, *_CAUSES[seen.case.algorithm or ""])
    return next(filter(None, (cause(seen) for cause in causes)), "") or (
        "no mistake known here. Print the tensor on every rank, before and after each message."
    )


def _wrong_ranks(seen: Seen) -> list[int]:
    return sorted({rank for rank, _ in seen.wrong})


# ── in any of them ───────────────────────────────────────────────────────────────────────────────────────────────────


def _remainder(seen: Seen) -> str | None:
    parts = len(seen.pieces)
    length = seen.case.length // parts
    covered = length * parts
    if not 0 < covered < seen.case.length:
        return None
    if not all(torch.equal(values[:covered], seen.expected[:covered]) for values in seen.values):
        return None
    lengths = ", ".join(map(str, seen.case.chunk_lengths))
    return (
        f"{seen.case.length} does not divide by {parts}. Do you cut chunks of {length}? torch.tensor_split cuts "
        f"{lengths}. The first {covered} elements are right, the rest is left out."
    )


def _counted_twice(seen: Seen) -> str | None:
    inside = seen.inside(*seen.wrong[0])
    twice = [rank for rank, times in enumerate(inside or ()) if times > 1]
    if not twice:
        return None
    return (
        f"the sum counts {name_ranks(twice)} more than once. Where the sum is complete, on the way back, what comes in "
        "must be copied, not added."
    )


def _lacking(seen: Seen) -> str | None:
    inside = seen.inside(*seen.wrong[0])
    if inside is None:
        return None
    missing = [rank for rank, times in enumerate(inside) if times == 0]
    if len(missing) == len(inside):
        return "it is zero: the buffer for what comes in was made, but nothing was received into it before it was used."
    if sum(inside) == 1 and inside[seen.wrong[0][0]]:
        return "the rank still has its own values there: nothing was added to them, and nothing was copied over them."
    if sum(inside) == 1:
        return (
            f"these are the values of rank {inside.index(1)} alone: what was received has replaced what was there. "
            "Receive into a separate buffer, then add it."
        )
    return f"the sum lacks the values of {name_ranks(missing)}. {_ADVICE[seen.case.algorithm or '']}"


_ADVICE = {
    "tree": "Does a rank send up before it has received from everybody below it?",
    "halving_doubling": "In every step of halving, what a rank receives is added to the half that it keeps, and the "
    "next step goes on with this half.",
    "grid": "Is a loop one step short, or does a chunk leave before this rank has added its own values?",
}


# ── tree ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _way_down(seen: Seen) -> str | None:
    wrong = _wrong_ranks(seen)
    if seen.size < 2 or 0 in wrong or (inside := seen.inside(*seen.wrong[0])) is None or max(inside) > 1:
        return None
    told = f"rank 0 has the sum, but it never arrived at {name_ranks(wrong)}."
    if len(wrong) == seen.size - 1:
        return f"{told} The way down is missing: rank 0 sends the sum, and every rank that has it passes it on."
    return f"{told} On the way down, does every rank that has the sum send it to all ranks that it had received from?"


# ── halving and doubling ─────────────────────────────────────────────────────────────────────────────────────────────


def _outside(seen: Seen) -> str | None:
    extra, core = beyond_power_of_two(seen.size)
    if not extra:
        return None
    outside = list(range(core, seen.size))
    if set(_wrong_ranks(seen)) <= set(outside):
        return (
            f"the sum has not come to {name_ranks(_wrong_ranks(seen))}. At the end it must be sent to ranks "
            f"{core} and up."
        )
    inside = seen.inside(*seen.wrong[0])
    if inside and all(times == (rank < core) for rank, times in enumerate(inside)):
        return (
            f"the sum lacks the values of {name_ranks(outside)}. Before the first step, ranks {core} and up send "
            f"their tensor to rank - {core}, which adds it to its own."
        )
    return None


def _not_doubled(seen: Seen) -> str | None:
    core = len(seen.pieces)
    lengths = seen.case.chunk_lengths
    right = [[k for k in range(core) if lengths[k] and seen.is_right(rank, k)] for rank in range(core)]
    if core < 2 or any(len(chunks) != 1 for chunks in right) or len({chunks[0] for chunks in right}) < core:
        return None
    return (
        "every rank has the full sum in exactly one chunk: halving is done. Doubling, which brings the chunks together "
        "again, is missing or sends the wrong ones."
    )


def _wrong_half_sent(seen: Seen) -> str | None:
    if seen.size != 2 or len(seen.expected) % 2:
        return None
    mine, theirs = seen.inputs[0].tensor_split(2)[0], seen.inputs[1].tensor_split(2)[1]
    if not torch.equal(seen.values[0].tensor_split(2)[0], mine + theirs):
        return None
    return "a rank has sent the half that it keeps. Its partner needs the other one."


# ── grid ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _row_or_column_only(seen: Seen) -> str | None:
    columns = seen.case.columns
    inside = seen.inside(*seen.wrong[0])
    if not columns or inside is None or max(inside) > 1:
        return None
    place = seen.wrong[0][0]
    members = [rank for rank, times in enumerate(inside) if times]
    if columns > 1 and members == [rank for rank in range(seen.size) if rank // columns == place // columns]:
        return "this is the sum of its row only. The chunk must be summed up along the column as well."
    if seen.case.rows > 1 and members == [rank for rank in range(seen.size) if rank % columns == place % columns]:
        return "this is the sum of its column only: is the rank's row added up first?"
    return None


def _not_gathered(seen: Seen) -> str | None:
    columns = seen.case.columns or 1
    lengths = seen.case.chunk_lengths
    right = [[k for k in range(columns) if lengths[k] and seen.is_right(rank, k)] for rank in range(seen.size)]
    if columns < 2 or any(len(chunks) != 1 for chunks in right):
        return None
    return (
        "every rank has the full sum in exactly one chunk. The last part, the all-gather along the row, is missing or "
        "moves the wrong chunk."
    )


def _column_not_gathered(seen: Seen) -> str | None:
    rows = seen.case.rows
    chunks = [part for part in seen.pieces if part.stop - part.start >= rows]
    if rows < 2 or not chunks:
        return None
    for values in seen.values:
        for part in chunks:
            pairs = zip(values[part].tensor_split(rows), seen.expected[part].tensor_split(rows), strict=True)
            if sum(torch.equal(found, expected) for found, expected in pairs) != 1:
                return None
    return (
        "every chunk is complete in one of its pieces only. Along the column the reduce-scatter is done, and the "
        "all-gather is missing or moves the wrong piece."
    )


_CAUSES: dict[str, tuple[Cause, ...]] = {
    "tree": (_way_down, _counted_twice, _lacking),
    "halving_doubling": (_remainder, _outside, _counted_twice, _not_doubled, _wrong_half_sent, _lacking),
    "grid": (_remainder, _counted_twice, _row_or_column_only, _not_gathered, _column_not_gathered, _lacking),
}
