"""The usual causes of wrong values. Each function looks for one mistake; the first that finds its own says so.

A cause is a guess from what the ranks hold, and as good as the numbers allow: values are random, so a result that
looks like an average is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import torch

from distlib.grading.case import count, dtype_name
from distlib.grading.seen import Seen, exact
from distlib.worlds.diagnosis import name_ranks

Cause = Callable[[Seen], str | None]


def usual_cause(seen: Seen) -> str:
    """What usually makes values wrong in the way that they are wrong in `seen`."""
    return next(filter(None, (cause(seen) for cause in _CAUSES)), "") or _unknown(seen)


def _unknown(seen: Seen) -> str:
    if not seen.in_chunks:
        return "no mistake known here. Print the tensor on every rank, before and after each message."
    return (
        f"no mistake known here. Watch it: chunk_steps(World({max(3, seen.size)}), {seen.case.function}). In which "
        "step does the first cell go wrong?"
    )


# ── the result is in another place ───────────────────────────────────────────────────────────────────────────────────


def _new_tensor(seen: Seen) -> str | None:
    if not seen.would_be_right(lambda rank: seen.outcomes[rank].returned):
        return None
    return (
        "the result is right, but it is in a new tensor that your function returns. Write it into the tensor you were "
        "given: tensor.copy_(result)."
    )


def _moved_tensor(seen: Seen) -> str | None:
    if not seen.would_be_right(lambda rank: seen.outcomes[rank].moved):
        return None
    return (
        "the result is right, but in other memory: you have pointed the tensor there (tensor.data = … or set_). "
        "Other code that holds the tensor does not see it. Copy instead: tensor.copy_(result)."
    )


def _nothing_happened(seen: Seen) -> str | None:
    if len(seen.unchanged) < seen.size or seen.num_messages:
        return None
    return (
        "no message was sent, and every rank's tensor is as it was. Does the function return before it talks to the "
        "others, or does its loop run one time too few?"
    )


def _worked_on_copy(seen: Seen) -> str | None:
    if seen.case.layout in ("transposed", "strided") and {rank for rank, _ in seen.wrong} <= set(seen.unchanged):
        return (
            "your ranks did talk, but the tensor is as it was: reshape(-1), flatten() and contiguous() make a copy of "
            "a tensor whose memory is not contiguous. Work on the copy, then write it back: "
            "tensor.copy_(flat.view(tensor.shape))."
        )
    if len(seen.unchanged) < seen.size:
        return None
    return f"your ranks did talk, but every tensor is as it was: the result went into another one. {_REBOUND}"


_REBOUND = (
    "`tensor = tensor + x` makes a new tensor; `tensor += x`, `tensor.add_(x)` and `tensor.copy_(x)` write into the "
    "one you were given."
)


def _master_left_out(seen: Seen) -> str | None:
    wrong_ranks = sorted({rank for rank, _ in seen.wrong})
    if seen.in_chunks or seen.size < 2 or not set(wrong_ranks) <= set(seen.unchanged):
        return None
    if wrong_ranks == [0]:
        return f"the others have the sum, but rank 0's own tensor is as it was: its sum is in another one. {_REBOUND}"
    if wrong_ranks == list(range(1, seen.size)):
        return (
            "rank 0 has the sum, the others still have their own values: the way back is missing. The master must send "
            "the sum to every other rank, and each of them must receive it."
        )
    return f"{name_ranks(wrong_ranks)} never got the sum. Does the master's loop go over all other ranks?"


# ── another computation ──────────────────────────────────────────────────────────────────────────────────────────────


def _average(seen: Seen) -> str | None:
    if seen.size == 1 or not seen.case.dtype.is_floating_point:
        return None
    mean = exact((seen.expected.double() / seen.size).to(seen.case.dtype))
    if not _all_wrong_are(seen, mean):
        return None
    if seen.case.collective == "all_gather":
        return "the chunks are divided by comm.world_size. An all-gather only copies them."
    return "this is the average. The sum is asked for: do not divide by comm.world_size."


def _other_reduction(seen: Seen) -> str | None:
    if all(sum(seen.inside(rank, k) or ()) == 1 for rank, k in seen.wrong):
        return None  # each piece has one rank's values; by chance these may be the largest
    reductions = {"maximum": torch.maximum, "minimum": torch.minimum, "product": torch.mul}
    for name, combine in reductions.items():
        if seen.size > 1 and _all_wrong_are(seen, reduce(combine, seen.inputs)):
            return f"this is the {name} over the ranks. The sum is asked for."
    return None


def _lost_digits(seen: Seen) -> str | None:
    worst = max(float((values.double() - seen.expected.double()).abs().max()) for values in _judged_values(seen))
    scale = float(seen.expected.double().abs().max())
    if worst > scale * (1e-2 if seen.case.dtype.is_floating_point else 1e-6):
        return None
    return (
        "only the last digits differ: the values took a detour through another dtype. Keep "
        f"{dtype_name(seen.case.dtype)} throughout, for example with torch.empty_like(chunk) as the buffer for what "
        "comes in."
    )


# ── chunks cut, moved or added in another way ────────────────────────────────────────────────────────────────────────


def _remainder(seen: Seen) -> str | None:
    length = seen.case.length // seen.size
    covered = length * seen.size
    if covered == seen.case.length or not covered:
        return None
    if all(torch.equal(values[:covered], seen.expected[:covered]) for values in _judged_values(seen)):
        return f"{_other_chunks(seen, length)} The first {covered} elements are right, the rest is left out."
    if seen.in_chunks and all(_right_if_cut(seen, rank, length) for rank in range(seen.size)):
        return f"{_other_chunks(seen, length)} With chunks of {length} the values would be right."
    return None


def _other_chunks(seen: Seen, length: int) -> str:
    whole, size = seen.case.length, seen.size
    lengths = ", ".join(str(n) for n in seen.case.chunk_lengths)
    return (
        f"{whole} does not divide by {size}. Do you cut chunks of {whole} // {size} = {length}? torch.tensor_split "
        f"cuts {lengths}."
    )


def _right_if_cut(seen: Seen, rank: int, length: int) -> bool:
    """Whether what counts on `rank` would be right if all chunks had this length."""
    parts = [slice(k * length, (k + 1) * length) for k in range(seen.size)]
    values = seen.values[rank]
    if seen.case.collective == "all_gather":
        return all(torch.equal(values[part], seen.inputs[k][part]) for k, part in enumerate(parts))
    judged = parts if seen.case.collective == "all_reduce" else [parts[rank]]
    return all(torch.equal(values[part], seen.expected[part]) for part in judged)


def _counted_twice(seen: Seen) -> str | None:
    inside = _inside_first_wrong(seen)
    twice = [rank for rank, times in enumerate(inside or ()) if times > 1]
    if not twice:
        return None
    told = f"the sum counts {name_ranks(twice)} more than once."
    if not seen.in_chunks:
        return f"{told} Which rank adds its values to a sum that already has them?"
    if seen.case.collective == "reduce_scatter":
        return f"{told} Is that one step too many? The reduce-scatter takes world_size - 1 steps."
    return (
        f"{told} A chunk that is full must be copied, not added to: that is the all-gather. It begins after step N - 1."
    )


def _not_gathered(seen: Seen) -> str | None:
    if seen.case.collective != "all_reduce" or not seen.in_chunks or seen.size < 2:
        return None
    lengths = seen.case.chunk_lengths
    right = [[k for k in range(seen.size) if lengths[k] and seen.is_right(rank, k)] for rank in range(seen.size)]
    if any(len(chunks) != 1 for chunks in right) or len({chunks[0] for chunks in right}) < seen.size:
        return None
    return (
        "every rank has the full sum in exactly one chunk: the reduce-scatter is done, and the all-gather, which "
        "passes the full chunks on round the ring, is missing or moves the wrong chunk."
    )


def _full_sum_elsewhere(seen: Seen) -> str | None:
    size = seen.size
    if seen.case.collective != "reduce_scatter":
        return None
    for shift in range(1, size):
        if all(seen.is_right(rank, (rank + shift) % size) for rank in range(size)):
            return (
                f"each rank does hold one full sum, but in the wrong chunk: rank 0 in chunk {shift}, rank 1 in chunk "
                f"{(1 + shift) % size}. Let each rank begin with a chunk {_lower(shift, size)}, so that the last chunk "
                "it receives is its own."
            )
    return None


def _lower(shift: int, size: int) -> str:
    return f"{count(shift, 'place')} lower" if shift <= size // 2 else f"{count(size - shift, 'place')} higher"


def _whose_values(seen: Seen) -> str | None:
    inside = _inside_first_wrong(seen)
    if inside is None:
        return None
    missing = [source for source, times in enumerate(inside) if times == 0]
    if len(missing) == len(inside):
        return "it is zero: the buffer for what comes in was made, but nothing was received into it before it was used."
    if sum(inside) == 1:
        return _one_ranks_values(seen.wrong[0][0], inside.index(1))
    told = f"the sum lacks the values of {name_ranks(missing)}."
    if not seen.in_chunks:
        return f"{told} Does the master's loop go over all other ranks?"
    return f"{told} Is the loop one step short, or does a chunk leave before this rank has added its own values?"


def _one_ranks_values(rank: int, source: int) -> str:
    if source == rank:
        return "the rank still has its own values there: nothing was added to them."
    return (
        f"these are the values of rank {source} alone: what was received has replaced what was there. Receive into a "
        "buffer of its own, then add it."
    )


def _gathered_wrong(seen: Seen) -> str | None:
    if seen.case.collective != "all_gather":
        return None
    rank, piece = seen.wrong[0]
    part = seen.pieces[piece]
    found = seen.values[rank][part]
    for source, values in enumerate(seen.inputs):
        if torch.equal(found, values[part]):
            return _start_values(rank, source, piece)
        if source != piece and torch.equal(found, values[part] + seen.inputs[piece][part]):
            return (
                f"the chunk of rank {piece} was added to what was there before. In an all-gather a chunk that comes in "
                "is complete: it replaces the old one."
            )
    for other, start in enumerate(seen.pieces):
        if other != piece and torch.equal(found, seen.inputs[other][start]):
            return (
                f"this is the chunk of rank {other}: it has come to the wrong place. The chunk you receive in a step "
                "is the one your neighbor sends in that step: compute its number from the neighbor's rank."
            )
    return None


def _start_values(rank: int, source: int, piece: int) -> str:
    if source == rank:
        return (
            f"the chunk is as it was at the start: rank {piece}'s never arrived there. Is the loop one step short, or "
            "is the wrong chunk passed on?"
        )
    return (
        f"these are the values that rank {source} had there at the start, and only rank {piece}'s chunk {piece} was "
        "right then. In the first step a rank sends its own chunk, later the one it has just received."
    )


_CAUSES: tuple[Cause, ...] = (
    _new_tensor,
    _moved_tensor,
    _nothing_happened,
    _worked_on_copy,
    _master_left_out,
    _average,
    _remainder,
    _lost_digits,
    _counted_twice,
    _not_gathered,
    _full_sum_elsewhere,
    _whose_values,
    _gathered_wrong,
    _other_reduction,
)


# What goes wrong in every in-place sum, whichever way the values travel.
GENERAL_CAUSES: tuple[Cause, ...] = (
    _new_tensor,
    _moved_tensor,
    _nothing_happened,
    _worked_on_copy,
    _average,
    _lost_digits,
    _other_reduction,
)


def _inside_first_wrong(seen: Seen) -> tuple[int, ...] | None:
    """Whose values are in the first wrong piece. None for an all-gather, where pieces are no sums."""
    return None if seen.case.collective == "all_gather" else seen.inside(*seen.wrong[0])


def _all_wrong_are(seen: Seen, candidate: torch.Tensor) -> bool:
    """Whether every wrong piece has the values of `candidate` (shape [length])."""
    return all(torch.equal(seen.values[rank][seen.pieces[k]], candidate[seen.pieces[k]]) for rank, k in seen.wrong)


def _judged_values(seen: Seen) -> Sequence[torch.Tensor]:
    """Each rank's values, with what does not count on it taken as right."""
    judged = []
    for rank, values in enumerate(seen.values):
        filled = seen.expected.clone()
        for piece in seen.judged(rank):
            filled[seen.pieces[piece]] = values[seen.pieces[piece]]
        judged.append(filled)
    return judged
