"""Exercise 03: all-reduces by a tree, by halving and doubling, and on a grid.

tree      the whole tensor goes up a tree to rank 0, and down a tree to all ranks; any tree, if it takes few steps
halving   with P the largest power of two up to N: ranks P and up hand theirs in; the first P exchange a half, a
          quarter, …, and back. Which rank is whose partner is free, and how an odd number of elements is cut in two
grid      chunks go round the rows, pieces of a chunk round the columns; each half of a ring either way round
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs, alone
from distlib.checks.helpers import ring_all_gather, ring_reduce_scatter
from distlib.checks.remark import Remark
from distlib.checks.rules import messages, sums
from distlib.checks.rules.messages import DTYPE, Traffic, Why, is_other_dtype
from distlib.checks.rules.steps import broadcast_steps, reduce_steps
from distlib.checks.rules.sums import Held
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.tensor_cases import TensorCase, row, tensor_cases
from distlib.checks.words import count, dtype_name, listed
from distlib.network.powers import beyond_power_of_two
from distlib.partition import chunk_lengths
from distlib.trace import Message, Trace
from distlib.worlds.diagnosis import name_ranks

# fmt: off

# ── what all three have in common ────────────────────────────────────────────────────────────────────────────────────

NO_SUCH_RANK = {
    "tree": "not every number of ranks is a power of two, so a rank may have fewer partners. Compare with "
    "comm.world_size before you send to, or receive from, rank + distance.",
    "halving_doubling": "rank ^ distance is a rank only where the number of ranks is a power of two. With N ranks, and "
    "P the largest power of two up to N, ranks P and up first send their tensor to rank - P, and get the sum from "
    "there at the end. Only the ranks below N - P have such a partner.",
    "grid": "rank r is in row r // columns and column r % columns. Its neighbors in the row have the same row and "
    "(column + 1) % columns and (column - 1) % columns; those in the column are `columns` ranks apart.",
}
LENGTHS = {
    "tree": "in a tree each message is the whole tensor: receive into torch.empty_like(tensor), or into the tensor.",
    "halving_doubling": "the halves of an odd number of elements differ by one. The buffer for what comes in must be "
    "as long as the half that comes, not as the one that leaves.",
    "grid": "where the length does not divide, chunks differ by one element. The buffer for what comes in must be as "
    "long as the chunk that comes, not as the one that leaves.",
}
ANOTHER = ("this is not the message that the receiver waits for: it belongs to another step, or comes from another rank. Does "
           "every recv name the rank that it receives from? And what do the two ranks cut in this step?")


def errors(seen: Seen) -> Signs:
    """Words of an error and their usual cause."""
    case: TensorCase = seen.facts
    kind, dtype = case.algorithm or "", dtype_name(case.dtype)
    sizes = [math.prod(map(int, shape.split("×"))) for shape in re.findall(r"(?:sends|into) ([\d×]+) ", str(seen.error))]
    lengths = LENGTHS[kind] if kind == "tree" or max(sizes[:2], default=0) - min(sizes[:2], default=0) <= 1 else ANOTHER
    return (
        *(((sign, alone(str(seen.error))) for sign in ("wants to", "no other rank here")) if case.world_size == 1 else ()),
        ("itself", "no rank sends to itself. Is the distance between the two ranks never 0?"),
        ("but the ranks are 0 to", NO_SUCH_RANK[kind]),
        ("waits in split", "all ranks must call comm.split, each with a color. A rank that is to be in no group gives "
         "the color None."),
        ("Make the dtypes the same", "torch.empty(n) and torch.zeros(n) make float32. A buffer for what comes in needs "
         f"the tensor's dtype, {dtype}: torch.empty_like(chunk)." if dtype != "float32" and "float32" in str(seen.error)
         else f"the tensor is {dtype}. Send it as it is, and receive it as such."),
        ("the same number of elements", lengths),
        ("must match the size of tensor", LENGTHS[kind]),
        ("is invalid for input of size", "view(n, -1) needs a length that divides by n. torch.tensor_split cuts any "
         "length."),
        ("index out of range", "the grid has `columns` columns and comm.world_size // columns rows: as many chunks in "
         "a row, as many pieces in a column. Are the two mixed up? A chunk has the number of the column, row.rank, and a piece "
         "that of the row, column.rank." if kind == "grid" else
         "there are as many chunks as the algorithm has cut. Is the number of one computed from comm.world_size?"),
        ("share memory", "in one step a part leaves and another one comes in. Receive into a separate buffer "
         "(torch.empty_like(part)), then add it or copy it."),
    )


def _divided(held: Held) -> str | None:
    """The right values, divided by a number of ranks, perhaps in several steps."""
    whole = {"columns": held.case.columns or 1, "rows": held.case.rows, "ranks": held.size}
    for name, number in whole.items():
        pairs = [(held.values[rank][held.pieces[k]], held.targets[rank][held.pieces[k]]) for rank, k in held.wrong]
        is_divided = all(torch.allclose(found.double(), right.double() / number, rtol=0.02) for found, right in pairs)
        if number > 1 and held.case.dtype.is_floating_point and is_divided:
            return f"this is the sum divided by {number}, the number of {name}. The sum is asked for: do not divide."
    return None


def _wrong_sums(
    seen: Seen, causes: Sequence[sums.Cause], missing: sums.Cause, in_chunks: bool = True, otherwise: str = sums.PRINT
) -> Remarks:
    held = Held(seen, in_chunks)
    yield sums.wrong_values(held, "It must be the sum over all ranks.", [
        *sums.IN_ANOTHER_PLACE, sums.average, _divided, sums.remainder, sums.lost_digits, sums.rank_added, *causes,
        sums.zeros, sums.own_alone("Nothing was added to them, and nothing was copied over them."), sums.replaced,
        missing, sums.other_reduction], otherwise=otherwise)
    yield sums.strayed(held)


TWICE = sums.counted_twice("Where the sum is complete, on the way back, what comes in must be copied, not added.")


# ── up a tree and down again ─────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", errors=errors, row=row)
def check_tree_all_reduce(draw: Draw, **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: the sum goes up a tree to rank 0 and down a tree, and ends on every rank, in place.

    Options: `world_sizes`, `lengths`, `dtypes`, `layouts` of `tensor_cases`, as for the next check.
    """
    yield from tensor_cases("all_reduce", algorithm="tree", seed=draw.getrandbits(60), **cases)


@check_tree_all_reduce.judge
def _(seen: Seen) -> Remarks:
    t, total = Traffic(seen), 2 * (seen.size - 1) if seen.facts.length else 0
    yield from _wrong_sums(seen, [sums.rank_0_left_out, _way_down, TWICE], sums.lacking(sums.way_of), in_chunks=False)
    yield messages.silence(t, total)
    yield messages.carries(
        t, lambda m, k: {t.case.length},
        lambda m, k, wanted: f"a message carries {messages.carried(m)}; each should carry the whole tensor of "
        f"{t.case.size}.", [
            (is_other_dtype, DTYPE),
            (None, "the tensor is cut into chunks: that is a ring, or halving and doubling. In a tree the whole tensor "
             "travels in every message."),
        ])
    pairs = Counter((m.src, m.dst) for m in t.full)
    (src, dst), times = (pairs.most_common(1) or [((0, 0), 0)])[0]
    yield messages.number_of_messages(t, total, [
        (lambda t, **_: times > 1,
         f"rank {src} sends to rank {dst} more than once. On the way down a rank receives the sum once."),
        (lambda t, **_: len(pairs) == t.size * (t.size - 1),
         "every rank sends to every other rank, and all of them add up. In a tree only rank 0 gets the whole sum."),
        (lambda t, **_: {(m.src, m.dst, m.round) for m in t.full} == {(m.dst, m.src, m.round) for m in t.full},
         "in every step each rank exchanges its whole tensor with a partner, and all of them add up. That is another "
         "algorithm. In a tree only rank 0 gets the whole sum, and the others are sent it."),
        (None, "a rank sends its sum up once, and receives the result once. When it has sent its sum, it takes no part in "
         "the other steps up."),
    ], note=": one up and one down for every rank but rank 0")
    tops = [rank for rank in seen.ranks if _sends_last(t, rank)]
    if 0 not in tops:
        early = t.sent_by(0)[0]
        yield messages.right_but(
            t, f"rank 0 sent to rank {early.dst} before it had received everything. It should first have the whole "
            "sum.", [
                (lambda t: len(tops) == 1, f"rank {min(tops, default=0)} is at the top of your tree. In this exercise "
                 "it is rank 0."),
                (None, "the two ranks of a pair exchange, and both add up. In a tree the upper rank receives and adds; "
                 "the lower one gets the sum on the way down."),
            ], messages.such_as(early), t.arrows)
    up = [t.sent_by(rank)[0] for rank in seen.ranks[1:] if t.sent_by(rank)]
    down = [m for m in t.full if m not in up]
    received = Counter(m.dst for m in down)
    for rank in seen.ranks[1:] if down else ():
        if received[rank] != 1:
            yield messages.right_but(
                t, f"rank {rank} receives {count(received[rank], 'message')} after the sum is complete; 1 was "
                "expected.", [(None, "the messages do not form a tree up to rank 0 and down again. Up, a rank sends "
                "once. Down, it receives once.")], t.arrows)
    limit = (seen.size - 1).bit_length()  # log2 of it, rounded up
    yield messages.steps(t, up, reduce_steps(Trace(seen.size, up)), limit, [
        (_only_0, "rank 0 takes in every tensor itself, one after the other: that is the master of naive_all_reduce. "
         "Let others add up pairs first."),
        (lambda t, messages: max(Counter(m.dst for m in messages).values()) == 1, CHAIN),
        (None, "a tree, but one in which ranks have to wait for one another. In each step half of the ranks that still "
         "take part should hand in their sum."),
    ], way="the way up to rank 0")
    yield messages.steps(t, down, broadcast_steps(Trace(seen.size, down)), limit, [
        (_only_0, "rank 0 sends to every other rank itself, one after the other: that is the master of "
         "naive_all_reduce. Every rank that has the sum can help."),
        (lambda t, messages: max(Counter(m.src for m in messages).values()) == 1, CHAIN),
        (None, "a tree, but some rank waits where it could send, or sends first to the rank that has least to pass on. "
         "In each step every rank that has the sum should send it to one that does not."),
    ], way="the way down from rank 0")


CHAIN = "the tensor goes from rank to rank in a chain. In each step, let every rank work that can."


def _only_0(t: Traffic, messages: Sequence[Message]) -> bool:
    return all(0 in (m.src, m.dst) for m in messages)


def _sends_last(t: Traffic, rank: int) -> bool:
    """Whether a rank sends only after everything that it receives."""
    received = [m.round for m in t.full if m.dst == rank]
    return all(m.round > max(received, default=0) for m in t.sent_by(rank))


def _way_down(held: Held) -> str | None:
    wrong, inside = held.wrong_ranks, held.inside_first
    if held.size < 2 or 0 in wrong or inside is None or max(inside) > 1:
        return None
    start = f"rank 0 has the sum, but it never arrived at {name_ranks(wrong)}."
    if len(wrong) == held.size - 1:
        return f"{start} The way down is missing: rank 0 sends the sum, and every rank that has it passes it on."
    place, handed_in = wrong[0], min((m.start for m in held.seen.trace if m.src == wrong[0]), default=math.inf)
    parents = [m.src for m in held.seen.trace if m.dst == place and m.start > handed_in]
    if parents and parents[-1] not in (0, *wrong):
        return (f"{start} Rank {parents[-1]} sent to rank {place} before it had the sum itself. On the way up taken "
                "backwards, the last rank that handed in is the first that gets the sum.")
    return f"{start} On the way down, does every rank that has the sum send it to all ranks that it had received from?"


# ── halving and doubling ─────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", errors=errors, row=row)
def check_halving_doubling_all_reduce(draw: Draw, **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: an all-reduce by halving and doubling over a power of two of the ranks, in place."""
    yield from tensor_cases("all_reduce", algorithm="halving_doubling", seed=draw.getrandbits(60), **cases)


@check_halving_doubling_all_reduce.judge
def _(seen: Seen) -> Remarks:
    t, (extra, core) = Traffic(seen), beyond_power_of_two(seen.size)
    half = core.bit_length() - 1  # steps of halving, and of doubling
    expected = [2 * half + 1] * extra + [2 * half] * (core - extra) + [1] * extra
    yield from _wrong_sums(seen, [_ranks_outside, TWICE, _halves_too_short, _not_doubled, _wrong_half_sent, _doubled_in_another_order],
                           sums.lacking("In every step of halving, what a rank receives is added to the half that it keeps, "
                                        "and the next step goes on with this half."))
    yield messages.silence(t, sum(expected))
    found = t.trace.messages_sent
    if t.is_exact and list(found) != expected and sorted(found) == sorted(expected):
        yield messages.right_but(t, f"the ranks send {listed(found)} messages; {listed(expected)} were expected.", [
            (None, f"you leave out different ranks than the exercise does. Here ranks {core} and up first send their "
             f"tensor to rank - {core}, and get the sum from there at the end.")])
    yield _sizes_of_halves(t, core, half) if t.is_exact else None
    yield messages.messages_by_rank(t, expected, [
        (lambda t, **_: extra > 0, f"{seen.size} is not a power of two. Ranks {core} and up send once, and receive "
         f"once; the first {core} ranks halve and double."),
        (lambda t, **_: t.carries_whole, "whole tensors travel. Halving and doubling sends a half, a quarter and so "
         "on, and the same back."),
        (None, "there are log2(N) steps of halving and log2(N) of doubling, and a rank sends one message in each."),
    ])
    yield _pairs(t, core) if t.is_exact else None
    yield messages.rounds(t, 2 * half + 2 * bool(extra), [
        (lambda t, found, expected: found > expected,
         "one rank of a pair receives first and sends afterwards, so each step takes two rounds. Let both send and "
         "receive at the same time: comm.exchange(outgoing, partner, incoming, partner)."),
        (None, "each step must build on the one before: what a rank has received is part of what it sends next."),
    ])
    yield messages.total_bytes(t, 2 * (core - 1 + extra) * t.case.nbytes, [
        (None, "the two halves of a step are not the whole of what was there: is one of them padded, or do they "
               "overlap?")])


def _sizes_of_halves(t: Traffic, core: int, half: int) -> Remark | None:
    """A half may be one of elements, or of chunks."""
    length = t.case.length

    def limits(m: Message, k: int) -> tuple[int, int] | None:
        if m.src >= core or k == 2 * half:
            return (length, length) if m.src >= core or m.src + core < t.size else None
        block = core >> (k + 1) if k < half else 1 << (k - half)
        return None if k > 2 * half else (block * (length // core), block * math.ceil(length / core))

    def what(m: Message, k: int, wanted: tuple[int, int]) -> str:
        parts, (least, most) = 2 ** (k + 1 if k < half else 2 * half - k), wanted
        is_whole, number = m.src >= core or k >= 2 * half, f"{least}" if least == most else f"{least} to {most}"
        part = "the whole tensor" if is_whole else f"1/{parts} of the tensor, in step {k + 1} of {2 * half}"
        return f"message {k + 1} of rank {m.src} carries {messages.carried(m)}; {number} were expected: {part}."

    def elements(m: Message) -> list[int]:
        return [math.prod(other.shape) for other in t.sent_by(m.src)]

    return messages.carries(t, limits, what, [
        (is_other_dtype, DTYPE),
        (lambda t, m, number: m.src >= core,
         f"ranks {core} and up send their whole tensor, and take no part in halving."),
        (lambda t, m, number: m.nbytes == t.case.nbytes,
         f"whole tensors travel, as in a tree, or as from ranks that P leaves out. With N = {t.size} ranks P is {core}: ranks "
         f"0 to {core - 1} cut it. Each sends the half that its partner is to keep, and adds to the half that it keeps."),
        (lambda t, m, number: elements(m) == sorted(elements(m)) and elements(m)[0] < elements(m)[-1],
         "the doubling comes first. Begin with halving: the first message is the largest, half of the tensor."),
        (lambda t, m, number: len(set(elements(m))) == 1 and core > 2,
         "every message carries one chunk, as in a ring. In the first step of halving a rank sends half of the tensor, "
         "then a quarter, and so on."),
        (lambda t, m, number: number >= half,
         "when doubling, a rank sends all that is complete on it: first one chunk, then two, four and so on, and no "
         "more than that."),
        (None, "a rank goes on with the half that it keeps: what it sends in the next step is half of that half. Cut "
         "it without filling it up."),
    ], messages=[m for rank in range(t.size) for m in t.sent_by(rank)],
        details=lambda m: [f"elements of rank {m.src}'s messages: {listed(elements(m))}"])


def _pairs(t: Traffic, core: int) -> Remark | None:
    """In each step two ranks exchange."""
    sent = [[m for m in t.sent_by(rank) if m.dst < core] for rank in range(core)]
    for step, m in ((step, m) for mine in sent for step, m in enumerate(mine)):
        back = sent[m.dst][step] if step < len(sent[m.dst]) else None
        if back is not None and back.dst != m.src:
            return messages.right_but(
                t, f"in step {step + 1} rank {m.src} sends to rank {m.dst}, and that one to rank {back.dst}. Two ranks "
                "should exchange.", [(None, "in every step the ranks form pairs, such as rank and rank ^ distance.")],
                messages.such_as(m), messages.such_as(back))
    return None


def _ranks_outside(held: Held) -> str | None:
    extra, core = beyond_power_of_two(held.size)
    outside, inside = list(range(core, held.size)), held.inside_first
    if extra and set(held.wrong_ranks) <= set(outside):
        return (f"the sum has not come to {name_ranks(held.wrong_ranks)}, or not the whole of it. At the end, after the "
                f"doubling, it must be sent to ranks {core} and up.")
    if extra and inside and all(times == (rank < core) for rank, times in enumerate(inside)):
        return (f"the sum lacks the values of {name_ranks(outside)}. Before the first step, ranks {core} and up send "
                f"their tensor to rank - {core}, which adds it to its own.")
    if extra and inside and all(times == (rank >= extra) for rank, times in enumerate(inside)):
        return (f"the sum lacks the values of {name_ranks(list(range(extra)))}: what comes from {name_ranks(outside)} "
                "before the first step has replaced them. Receive into a buffer, then add it.")
    return None


def _not_doubled(held: Held) -> str | None:
    if not sums.one_full_chunk_each(held, range(len(held.pieces))):
        return None
    if all(sent > 1 for sent in held.seen.trace.messages_sent) and held.size == 2:
        return ("on each rank the half that came in last is complete, and the half that it keeps is not. Was the sum put into "
                "another tensor? `half = half + incoming` makes a new one; `half += incoming` writes into the tensor.")
    return ("every rank has the full sum in exactly one chunk: halving is done. Doubling, which brings the chunks "
            "together again, is missing or sends the wrong ones.")


def _halves_too_short(held: Held) -> str | None:
    extra, core = beyond_power_of_two(held.size)
    t, steps = Traffic(held.seen), 2 * (core.bit_length() - 1) * core + 2 * extra
    if not t.is_exact or len(t.full) != steps or sum(m.nbytes for m in t.full) >= 2 * (core - 1 + extra) * t.case.nbytes:
        return None
    return ("the two halves of a step are not the whole of what was there: with an odd number of elements, twice n // 2 "
            "leaves one out. torch.tensor_split(part, 2) cuts all of them.")


def _wrong_half_sent(held: Held) -> str | None:
    if held.size != 2 or held.case.length % 2:
        return None
    mine, theirs = held.inputs[0].tensor_split(2)[0], held.inputs[1].tensor_split(2)[1]
    if not torch.equal(held.values[0].tensor_split(2)[0], mine + theirs):
        return None
    return ("the second half of rank 1 was added to the first half of rank 0. The two ranks of a pair keep different halves, "
            "and each sends the one that the other keeps.")


def _doubled_in_another_order(held: Held) -> str | None:
    _, core = beyond_power_of_two(held.size)
    half = core.bit_length() - 1
    for rank in range(core):
        partners = [m.dst for m in held.seen.trace if m.src == rank and m.dst < core]
        first, last = partners[:half], partners[half:]
        if len(partners) == 2 * half and sorted(first) == sorted(last) and last != first[::-1]:
            return (f"when halving, rank {rank} talks to ranks {listed(first)}; when doubling, to ranks "
                    f"{listed(last)}. Doubling takes the same pairs, from the last to the first: what came apart last "
                    "comes together first.")
    return None


# ── on a grid ────────────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", "columns=1", errors=errors, row=row, helpers=[ring_reduce_scatter, ring_all_gather])
def check_grid_all_reduce(draw: Draw, *, grids: Sequence[tuple[int, int]], **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor, columns)`: an all-reduce round the rows and the columns of a grid, in place.

    Args:
        grids: rows and columns; there are rows * columns ranks, and rank r is in row r // columns.
        cases: `lengths`, `dtypes`, `layouts` of `tensor_cases`.
    """
    seed = draw.getrandbits(60)
    for rows, columns in grids:
        yield from tensor_cases(
            "all_reduce", world_sizes=[rows * columns], columns=[columns], algorithm="grid", seed=seed, **cases)


@check_grid_all_reduce.judge
def _(seen: Seen) -> Remarks:
    t, columns, rows = Traffic(seen), seen.facts.columns, seen.facts.rows
    yield from _wrong_sums(
        seen, [_other_messages, TWICE, _row_or_column_only, _not_gathered, _column_not_gathered],
        sums.lacking("Is a loop one step short, or does a chunk leave before this rank has added its own values?"),
        otherwise=RIGHT_MESSAGES)
    yield messages.silence(t, seen.size * 2 * (columns + rows - 2))
    yield _aside(t)
    yield from _along(t, "row", columns)
    yield from _along(t, "column", rows)
    yield messages.rounds(t, 2 * (columns + rows - 2), [
        (lambda t, found, expected: found > expected,
         "your sends wait for one another. Let every rank send and receive at the same time: comm.exchange(outgoing, "
         "next_rank, incoming, previous_rank)."),
        (None, "a chunk visits every rank of its row, then every rank of its column, and then its row once more."),
    ])


RIGHT_MESSAGES = (
    "the messages go where they should, and are as long as they should be. So what is in them is wrong. After the "
    "reduce-scatter along the row, the chunk that goes on along the column is the one that has just been added up, with "
    "the number of the rank's column: row.rank. Print the chunks after each part, and run this test again.")


def _lies(t: Traffic, m: Message, way: str) -> bool:
    """Whether a message stays in a row, or in a column."""
    columns = t.case.columns or 1
    return m.src // columns == m.dst // columns if way == "row" else m.src % columns == m.dst % columns


def _aside(t: Traffic) -> Remark | None:
    """Who may send to whom."""
    columns = t.case.columns or 1
    return messages.goes(
        t, lambda src, dst: src // columns == dst // columns or src % columns == dst % columns,
        lambda m: f"that is neither in its row nor in its column. Rank {m.src} is in row {m.src // columns}, column "
        f"{m.src % columns} of the grid, and rank {m.dst} in row {m.dst // columns}, column {m.dst % columns}", [
            (lambda t: len({(m.dst - m.src) % t.size for m in t.full}) == 1,
             "that is one ring through all ranks. Here every row is a ring, and every column is one."),
            (None, f"rank r is in row r // columns and in column r % columns; here columns is {columns}. Each ring goes "
             "through a row or a column, and none through all ranks of comm."),
        ])


def _sizes(t: Traffic, way: str) -> Remark | None:
    """How much the messages along the rows, or along the columns, carry."""
    chunks, along = set(t.case.chunk_lengths), {each: [m for m in t.full if _lies(t, m, each)] for each in ("row", "column")}
    pieces = {piece for chunk in chunks for piece in chunk_lengths(chunk, t.case.rows)}
    lengths, part = (chunks, t.case.columns) if way == "row" else (pieces, t.size)
    return messages.carries(
        t, lambda m, k: lengths - {0},
        lambda m, k, wanted: f"along a {way} a message carries {messages.carried(m)}; "
        f"{' or '.join(map(str, sorted(wanted)))} were expected, 1/{part} of the tensor.",
        _why_size(t, way, along), along[way], lambda m: [f"bytes sent by each rank: {listed(t.trace.bytes_sent)}"])


def _other_messages(held: Held) -> str | None:
    """The values are wrong because other messages were sent."""
    t = Traffic(held.seen)
    columns = t.case.columns or 1
    remark = _aside(t) or _sizes(t, "row") or _sizes(t, "column")
    if remark is None:
        return None
    if columns > 1 and all(_lies(t, m, "row") for m in t.full):
        return (f"every message stays in its row, and none goes along a column. The ranks of a column all have the same r % "
                f"columns: comm.split(comm.rank % columns). Those of a row have the same r // columns; here columns is {columns}.")
    return f"{remark.seen.removeprefix('the values are right, but ')} {remark.cause[:1].upper()}{remark.cause[1:]}"


def _along(t: Traffic, way: str, ranks: int) -> Remarks:
    """The messages along the rows, or along the columns. `ranks`: of one."""
    mine, rows, columns = [m for m in t.full if _lies(t, m, way)], t.case.rows, t.case.columns or 1
    times = 2 * rows * (columns - 1) if way == "row" else 2 * (rows - 1)
    for half in _halves(t, mine, ranks - 1):
        yield messages.one_neighbor(t, half, [
            (None, f"each {way} is a ring: what comes from one neighbor is added, or copied, and passed on to the "
             "other one.")], along=f"along its {way} ")
    yield _sizes(t, way)
    if len(mine) == t.size * 2 * (ranks - 1):
        yield messages.total_bytes(t, times * t.case.nbytes, [
            (None, "some chunk is sent more often than needed and another one less often, or chunks are padded.")],
            mine, f"along the {way}s {{found:,}} bytes were sent")
    yield messages.messages_by_rank(t, [2 * (ranks - 1)] * t.size, [
        (lambda t, found, expected, alike: not alike,
         f"some ranks of a {way} do more than others. In a ring all do the same, in every step."),
        (lambda t, found, expected, alike: found > expected,
         f"a loop runs too often, or there is one ring too many. A {way} has {count(ranks, 'rank')}: it takes {count(ranks - 1, 'step')} to add, and "
         "as many to copy."),
        (None, f"is the loop one step short? Along the {way}, every rank sends in every step."),
    ], along=f"along its {way} ", messages=mine)


def _why_size(t: Traffic, way: str, along: dict[str, list[Message]]) -> Why:
    """Why a message along a row or a column has another length."""
    columns, rows, length = t.case.columns or 1, t.case.rows, t.case.length
    columns_first = {piece for chunk in chunk_lengths(length, rows) for piece in chunk_lengths(chunk, columns)}
    rows_for_columns = {piece for chunk in chunk_lengths(length, rows) for piece in chunk_lengths(chunk, rows)}
    torch_chunks = {len(chunk) for chunk in torch.empty(length).chunk(columns)}
    rows_done = max((m.round for m in along["row"]), default=0) < min((m.round for m in along["column"]), default=0)
    return [
        (is_other_dtype, DTYPE),
        (lambda t, m, number: way == "column" and math.prod(m.shape) in chunk_lengths(length, rows) and rows_done,
         "whole tensors are summed up along the columns, by every column the same. After the reduce-scatter along the "
         "row a rank looks after one chunk only; only this chunk has to travel along its column."),
        (lambda t, m, number: way == "row" and {math.prod(m.shape) for m in along["row"]} == torch_chunks,
         "torch.chunk cuts other lengths than torch.tensor_split, whose lengths differ by one at most."),
        (lambda t, m, number: way == "row" and math.prod(m.shape) in columns_first,
         "you begin with the columns. Here the rows come first: chunks along the row, pieces along the column."),
        (lambda t, m, number: m.nbytes == t.case.nbytes,
         f"the whole tensor travels along the {way}. Cut it with torch.tensor_split, and send one chunk per step."),
        (lambda t, m, number: way == "column" and math.prod(m.shape) in {*t.case.chunk_lengths, *chunk_lengths(length, rows)},
         "a chunk travels along the column as a whole, or the whole tensor in parts. What belongs there is one chunk, the one "
         "that is the sum of the row: cut it once more, into one piece for each row."),
        (lambda t, m, number: way == "column" and math.prod(m.shape) in rows_for_columns,
         f"is the tensor cut into {rows} chunks, one for each row? It takes {columns}, one for each column: "
         "torch.tensor_split(flat, columns)."),
        (None, "torch.tensor_split(flat, columns) cuts the tensor for the row. What travels along a column are the "
         "pieces that torch.tensor_split(chunk, rows) cuts one of these chunks into. Nothing is padded."),
    ]


def _halves(t: Traffic, messages: Sequence[Message], number: int) -> tuple[list[Message], list[Message]]:
    """What each rank sends in the two halves of a ring, `number` messages in each. They may go round different ways.

    Where chunks are empty, the second half of a rank begins where it first sends to another rank.
    """
    halves: tuple[list[Message], list[Message]] = ([], [])
    for rank in range(t.size):
        sent = [m for m in messages if m.src == rank]
        turn = next((k for k, m in enumerate(sent) if m.dst != sent[0].dst), len(sent))
        cut = number if t.is_exact else turn
        halves[0].extend(sent[:cut])
        halves[1].extend(sent[cut:])
    return halves


def _row_or_column_only(held: Held) -> str | None:
    columns, inside, (place, _) = held.case.columns or 1, held.inside_first, held.first
    if inside is None or max(inside) > 1:
        return None
    members = [rank for rank, times in enumerate(inside) if times]
    if columns > 1 and members == [rank for rank in range(held.size) if rank // columns == place // columns]:
        own = place % columns
        if own != held.first[1] and held.is_right(place, own):
            return (f"this is the sum of its row only, but chunk {own} of this rank is complete. The all-gather along the row "
                    "comes last, when the columns have been added up: it hands out these complete chunks.")
        return "this is the sum of its row only. The chunk must be summed up along the column as well."
    if held.case.rows > 1 and members == [rank for rank in range(held.size) if rank % columns == place % columns]:
        return "this is the sum of its column only: is the rank's row added up first?"
    return None


def _not_gathered(held: Held) -> str | None:
    if not sums.one_full_chunk_each(held, range(held.size)) or held.case.columns == 1:
        return None
    return ("every rank has the full sum in exactly one chunk. The last part, the all-gather along the row, is missing "
            "or moves the wrong chunk.")


def _column_not_gathered(held: Held) -> str | None:
    rows, chunks = held.case.rows, [part for part in held.pieces if part.stop - part.start >= held.case.rows]
    right = partial(_right_pieces, held, rows)
    if rows < 2 or not chunks or any(right(rank, part) != 1 for rank in range(held.size) for part in chunks):
        return None
    return ("every chunk is complete in one of its pieces only. Along the column the reduce-scatter is done, and the "
            "all-gather is missing or moves the wrong piece.")


def _right_pieces(held: Held, rows: int, rank: int, part: slice) -> int:
    """How many pieces of a chunk are right."""
    pairs = zip(held.values[rank][part].tensor_split(rows), held.targets[rank][part].tensor_split(rows), strict=True)
    return sum(torch.equal(found, expected) for found, expected in pairs)
# fmt: on
