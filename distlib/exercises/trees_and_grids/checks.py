"""Exercises 03 and 03b: all-reduces by a tree, by halving and doubling, and on a grid.

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
from distlib.checks.formatting import count, dtype_name, listed
from distlib.checks.helpers import ring_all_gather, ring_reduce_scatter
from distlib.checks.remark import Remark
from distlib.checks.rules import sent_messages, sums
from distlib.checks.rules.sent_messages import DTYPE, SentMessages, Why, is_other_dtype
from distlib.checks.rules.steps import broadcast_steps, reduce_steps
from distlib.checks.rules.sums import LeftInTensors
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.tensor_cases import TensorCase, row, tensor_cases
from distlib.network.powers import beyond_power_of_two
from distlib.partition import chunk_lengths
from distlib.trace import Message, Trace
from distlib.worlds.diagnosis import name_ranks

say = Sentences(__file__)


# ── what all three have in common ────────────────────────────────────────────────────────────────────────────────────

NO_SUCH_RANK = {
    "tree": say("no_such_rank_tree"),
    "halving_doubling": say("no_such_rank_halving"),
    "grid": say("no_such_rank_grid"),
}
LENGTHS = {
    "tree": say("lengths_tree"),
    "halving_doubling": say("lengths_halving"),
    "grid": say("lengths_grid"),
}


def errors(seen: Seen) -> Signs:
    """Words of an error and their usual cause."""
    case: TensorCase = seen.facts
    kind, dtype, error = case.algorithm or "", dtype_name(case.dtype), str(seen.error)
    is_default = dtype != "float32" and "float32" in error
    return [
        *((sign, alone(error)) for sign in ("wants to", "no other rank here") if case.world_size == 1),
        ("itself", say("itself")),
        ("but the ranks are 0 to", NO_SUCH_RANK[kind]),
        ("waits in split", say("all_split")),
        ("Make the dtypes the same", say("buffer_is_float32" if is_default else "sent_as_it_is", dtype=dtype)),
        ("the same number of elements", _cause_of_lengths(kind, error)),
        ("must match the size of tensor", LENGTHS[kind]),
        ("is invalid for input of size", say("view_divides")),
        ("index out of range" if kind == "grid" else "", say("index_on_grid")),
        ("share memory", say("separate_buffer")),
    ]


def _cause_of_lengths(kind: str, error: str) -> str:
    """Why a message is not as long as the buffer for it: cut differently, or another message altogether."""
    shapes = re.findall(r"(?:sends|into) ([\d×]+) ", error)
    sizes = [math.prod(map(int, shape.split("×"))) for shape in shapes[:2]]
    is_near = max(sizes, default=0) - min(sizes, default=0) <= 1
    return LENGTHS[kind] if kind == "tree" or is_near else say("another_message")


def _divided(held: LeftInTensors) -> str | None:
    """The right values, divided by a number of ranks, perhaps in several steps."""
    whole = {"columns": held.case.columns or 1, "rows": held.case.rows, "ranks": held.size}
    for what, number in whole.items():
        pairs = [(held.values[rank][held.pieces[k]], held.targets[rank][held.pieces[k]]) for rank, k in held.wrong]
        is_divided = all(torch.allclose(found.double(), right.double() / number, rtol=0.02) for found, right in pairs)
        if number > 1 and held.case.dtype.is_floating_point and is_divided:
            return say("divided", number=number, what=what)
    return None


def _wrong_sums(
    seen: Seen,
    causes: Sequence[sums.Cause],
    missing: sums.Cause,
    in_chunks: bool = True,
    otherwise: str = sums.PRINT,
) -> Remarks:
    held = LeftInTensors(seen, in_chunks)
    first = [*sums.WRITTEN_ELSEWHERE, sums.average, _divided, sums.remainder, sums.lost_digits, sums.rank_added]
    last = [sums.zeros, sums.own_alone(say("own_alone")), sums.replaced, missing, sums.other_reduction]
    yield sums.wrong_values(held, say("sum_over_all"), [*first, *causes, *last], otherwise=otherwise)
    yield sums.strayed(held)


TWICE = sums.counted_twice(say("copied_on_the_way_back"))


# ── up a tree and down again ─────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", errors=errors, row=row)
def check_tree_all_reduce(draw: Draw, **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: the sum goes up a tree to rank 0 and down a tree, and ends on every rank, in place.

    Options: `world_sizes`, `lengths`, `dtypes`, `layouts` of `tensor_cases`, as for the next check.
    """
    yield from tensor_cases("all_reduce", algorithm="tree", seed=draw.getrandbits(60), **cases)


@check_tree_all_reduce.judge
def _(seen: Seen) -> Remarks:
    t, total = SentMessages(seen), 2 * (seen.size - 1) if seen.facts.length else 0
    causes = [sums.rank_0_left_out, _way_down, TWICE]
    yield from _wrong_sums(seen, causes, sums.lacking(sums.way_of), in_chunks=False)
    yield sent_messages.silence(t, total)
    yield _whole_tensors(t)
    yield _number_in_tree(t, total)
    yield _top(t)
    up = [t.sent_by(rank)[0] for rank in seen.ranks[1:] if t.sent_by(rank)]
    down = [m for m in t.full if m not in up]
    yield from _received_once(t, down)
    yield from _steps_in_tree(t, up, down)


def _whole_tensors(t: SentMessages) -> Remark | None:
    """Each message carries the whole tensor."""

    def what(m: Message, k: int, wanted: object) -> str:
        return say("whole_tensor", carried=sent_messages.carried(m), size=t.case.size)

    why: Why = [(is_other_dtype, DTYPE), (None, say("cut_into_chunks"))]
    return sent_messages.carries(t, lambda m, k: {t.case.length}, what, why)


def _number_in_tree(t: SentMessages, total: int) -> Remark | None:
    """Every rank but rank 0 sends its sum up once, and is sent the result once."""
    pairs = Counter((m.src, m.dst) for m in t.full)
    (src, dst), times = (pairs.most_common(1) or [((0, 0), 0)])[0]
    why: Why = [
        (lambda t, **_: times > 1, say("sent_more_than_once", src=src, dst=dst)),
        (None, say("once_up_once_down")),
    ]
    return sent_messages.number_of_messages(t, total, why, note=": one up and one down for every rank but rank 0")


def _top(t: SentMessages) -> Remark | None:
    """Rank 0 sends only when it has received everything."""
    tops = [rank for rank in range(t.size) if _sends_last(t, rank)]
    if 0 in tops:
        return None
    early = t.sent_by(0)[0]
    why: Why = [
        (lambda t: len(tops) == 1, say("another_top", rank=min(tops, default=0))),
        (None, say("pairs_exchange")),
    ]
    return sent_messages.right_but(t, say("sent_early", dst=early.dst), why, sent_messages.such_as(early), t.arrows)


def _sends_last(t: SentMessages, rank: int) -> bool:
    """Whether a rank sends only after everything that it receives."""
    received = [m.round for m in t.full if m.dst == rank]
    return all(m.round > max(received, default=0) for m in t.sent_by(rank))


def _received_once(t: SentMessages, down: Sequence[Message]) -> Remarks:
    """Every rank but rank 0 receives once after the sum is complete."""
    received = Counter(m.dst for m in down)
    for rank in range(1, t.size) if down else ():
        if received[rank] != 1:
            seen = say("received_after_the_sum", rank=rank, received=count(received[rank], "message"))
            yield sent_messages.right_but(t, seen, [(None, say("no_tree"))], t.arrows)


def _steps_in_tree(t: SentMessages, up: Sequence[Message], down: Sequence[Message]) -> Remarks:
    """Either way takes log2 of the number of ranks, rounded up."""
    limit = (t.size - 1).bit_length()
    why_up: Why = [
        (_only_0, say("master_up")),
        (lambda t, messages: max(Counter(m.dst for m in messages).values()) == 1, say("chain")),
        (None, say("slow_tree_up")),
    ]
    why_down: Why = [
        (_only_0, say("master_down")),
        (lambda t, messages: max(Counter(m.src for m in messages).values()) == 1, say("chain")),
        (None, say("slow_tree_down")),
    ]
    steps = reduce_steps(Trace(t.size, up))
    yield sent_messages.steps(t, up, steps, limit, why_up, way="the way up to rank 0")
    steps = broadcast_steps(Trace(t.size, down))
    yield sent_messages.steps(t, down, steps, limit, why_down, way="the way down from rank 0")


def _only_0(t: SentMessages, messages: Sequence[Message]) -> bool:
    return all(0 in (m.src, m.dst) for m in messages)


def _way_down(held: LeftInTensors) -> str | None:
    wrong, inside = held.wrong_ranks, held.inside_first
    if held.size < 2 or 0 in wrong or inside is None or max(inside) > 1:
        return None
    ranks = name_ranks(wrong)
    if len(wrong) == held.size - 1:
        return say("no_way_down", ranks=ranks)
    rank, handed_in = wrong[0], min((m.start for m in held.seen.trace if m.src == wrong[0]), default=math.inf)
    parents = [m.src for m in held.seen.trace if m.dst == rank and m.start > handed_in]
    if parents and parents[-1] not in (0, *wrong):
        return say("passed_on_early", ranks=ranks, parent=parents[-1], rank=rank)
    return say("some_not_reached", ranks=ranks)


# ── halving and doubling ─────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", errors=errors, row=row)
def check_halving_doubling_all_reduce(draw: Draw, **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: an all-reduce by halving and doubling over a power of two of the ranks, in place."""
    yield from tensor_cases("all_reduce", algorithm="halving_doubling", seed=draw.getrandbits(60), **cases)


@check_halving_doubling_all_reduce.judge
def _(seen: Seen) -> Remarks:
    t, (extra, core) = SentMessages(seen), beyond_power_of_two(seen.size)
    half = core.bit_length() - 1  # steps of halving, and of doubling
    expected = [2 * half + 1] * extra + [2 * half] * (core - extra) + [1] * extra
    halves = [_halves_too_short, _not_doubled, _wrong_half_sent, _doubled_in_another_order]
    yield from _wrong_sums(seen, [_ranks_outside, TWICE, *halves], sums.lacking(say("added_to_kept_half")))
    yield sent_messages.silence(t, sum(expected))
    yield from _numbers_when_halving(t, expected, core, half)
    yield _pairs(t, core) if t.is_exact else None
    why: Why = [(lambda t, found, expected: found > expected, say("two_rounds_a_step"))]
    yield sent_messages.rounds(t, 2 * half + 2 * bool(extra), why)
    nbytes = 2 * (core - 1 + extra) * t.case.nbytes
    yield sent_messages.total_bytes(t, nbytes, [(None, say("halves_are_not_the_whole"))])


def _numbers_when_halving(t: SentMessages, expected: Sequence[int], core: int, half: int) -> Remarks:
    """How many messages each rank sends, and how long they are."""
    found = t.trace.messages_sent
    if t.is_exact and list(found) != expected and sorted(found) == sorted(expected):
        seen = say("numbers_of_messages", found=listed(found), expected=listed(expected))
        yield sent_messages.right_but(t, seen, [(None, say("others_left_out", core=core))])
    yield _sizes_of_halves(t, core, half) if t.is_exact else None
    why: Why = [
        (None, say("one_message_a_step")),
    ]
    yield sent_messages.messages_by_rank(t, expected, why)


def _sizes_of_halves(t: SentMessages, core: int, half: int) -> Remark | None:
    """A half may be one of elements, or of chunks."""
    length = t.case.length

    def limits(m: Message, k: int) -> tuple[int, int] | None:
        if m.src >= core or k == 2 * half:
            return (length, length) if m.src >= core or m.src + core < t.size else None
        block = core >> (k + 1) if k < half else 1 << (k - half)
        return None if k > 2 * half else (block * (length // core), block * math.ceil(length / core))

    def what(m: Message, k: int, wanted: tuple[int, int]) -> str:
        least, most = wanted
        expected = f"{least}" if least == most else f"{least} to {most}"
        message = {"number": k + 1, "rank": m.src, "carried": sent_messages.carried(m), "expected": expected}
        if m.src >= core or k >= 2 * half:
            return say("not_the_whole", **message)
        return say("not_this_half", **message, parts=2 ** (k + 1 if k < half else 2 * half - k), steps=2 * half)

    def details(m: Message) -> list[str]:
        return [f"elements of rank {m.src}'s messages: {listed(_elements(t, m))}"]

    in_order = [m for rank in range(t.size) for m in t.sent_by(rank)]
    return sent_messages.carries(t, limits, what, _why_this_half(t, core, half), in_order, details)


def _why_this_half(t: SentMessages, core: int, half: int) -> Why:
    """Why a message has a length that halving and doubling does not give it."""

    def is_growing(t: SentMessages, m: Message, number: int) -> bool:
        elements = _elements(t, m)
        return number == 0 and elements == sorted(elements) and elements[0] < elements[-1]

    as_in_a_tree = say("whole_as_in_a_tree", size=t.size, core=core, last=core - 1)
    return [
        (is_other_dtype, DTYPE),
        (lambda t, m, number: m.src >= core, say("outside_sends_whole", core=core)),
        (lambda t, m, number: m.nbytes == t.case.nbytes, as_in_a_tree),
        (is_growing, say("doubling_first")),
        (lambda t, m, number: len(set(_elements(t, m))) == 1 and core > 2, say("one_chunk_each")),
        (lambda t, m, number: number >= half, say("all_that_is_complete")),
        (None, say("half_of_that_half")),
    ]


def _elements(t: SentMessages, m: Message) -> list[int]:
    """The elements of all messages of the rank that sent `m`."""
    return [math.prod(other.shape) for other in t.sent_by(m.src)]


def _pairs(t: SentMessages, core: int) -> Remark | None:
    """In each step two ranks exchange."""
    sent = [[m for m in t.sent_by(rank) if m.dst < core] for rank in range(core)]
    for step, m in ((step, m) for mine in sent for step, m in enumerate(mine)):
        back = sent[m.dst][step] if step < len(sent[m.dst]) else None
        if back is not None and back.dst != m.src:
            seen = say("no_pair", step=step + 1, rank=m.src, dst=m.dst, other=back.dst)
            such = sent_messages.such_as(m), sent_messages.such_as(back)
            return sent_messages.right_but(t, seen, [(None, say("form_pairs"))], *such)
    return None


def _ranks_outside(held: LeftInTensors) -> str | None:
    extra, core = beyond_power_of_two(held.size)
    outside, inside = list(range(core, held.size)), held.inside_first
    if extra and set(held.wrong_ranks) <= set(outside):
        return say("not_handed_back", ranks=name_ranks(held.wrong_ranks), core=core)
    if extra and inside and all(times == (rank < core) for rank, times in enumerate(inside)):
        return say("not_handed_in", ranks=name_ranks(outside), core=core)
    if extra and inside and all(times == (rank >= extra) for rank, times in enumerate(inside)):
        partners = name_ranks(list(range(extra)))
        return say("replaced_before_first_step", ranks=partners, outside=name_ranks(outside))
    return None


def _not_doubled(held: LeftInTensors) -> str | None:
    if not sums.one_full_chunk_each(held, range(len(held.pieces))):
        return None
    if all(sent > 1 for sent in held.seen.trace.messages_sent) and held.size == 2:
        return say("half_in_another_tensor")
    return say("not_doubled")


def _halves_too_short(held: LeftInTensors) -> str | None:
    extra, core = beyond_power_of_two(held.size)
    t, steps = SentMessages(held.seen), 2 * (core.bit_length() - 1) * core + 2 * extra
    nbytes = 2 * (core - 1 + extra) * t.case.nbytes
    if not t.is_exact or len(t.full) != steps or sum(m.nbytes for m in t.full) >= nbytes:
        return None
    return say("halves_too_short")


def _wrong_half_sent(held: LeftInTensors) -> str | None:
    if held.size != 2 or held.case.length % 2:
        return None
    mine, theirs = held.inputs[0].tensor_split(2)[0], held.inputs[1].tensor_split(2)[1]
    is_mixed = torch.equal(held.values[0].tensor_split(2)[0], mine + theirs)
    return say("wrong_half_sent") if is_mixed else None


def _doubled_in_another_order(held: LeftInTensors) -> str | None:
    _, core = beyond_power_of_two(held.size)
    half = core.bit_length() - 1
    for rank in range(core):
        partners = [m.dst for m in held.seen.trace if m.src == rank and m.dst < core]
        first, last = partners[:half], partners[half:]
        if len(partners) == 2 * half and sorted(first) == sorted(last) and last != first[::-1]:
            return say("doubled_in_another_order", rank=rank, first=listed(first), last=listed(last))
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
            "all_reduce", world_sizes=[rows * columns], columns=[columns], algorithm="grid", seed=seed, **cases
        )


@check_grid_all_reduce.judge
def _(seen: Seen) -> Remarks:
    t, columns, rows = SentMessages(seen), seen.facts.columns, seen.facts.rows
    causes = [_other_messages, TWICE, _row_or_column_only, _not_gathered, _column_not_gathered]
    yield from _wrong_sums(seen, causes, sums.lacking(say("one_step_short")), otherwise=say("right_messages"))
    yield sent_messages.silence(t, seen.size * 2 * (columns + rows - 2))
    yield _aside(t)
    yield from _along(t, "row", columns)
    yield from _along(t, "column", rows)
    why: Why = [(lambda t, found, expected: found > expected, say("sends_wait"))]
    yield sent_messages.rounds(t, 2 * (columns + rows - 2), why)


def _lies(t: SentMessages, m: Message, way: str) -> bool:
    """Whether a message stays in a row, or in a column."""
    columns = t.case.columns or 1
    return m.src // columns == m.dst // columns if way == "row" else m.src % columns == m.dst % columns


def _aside(t: SentMessages) -> Remark | None:
    """Who may send to whom."""
    columns = t.case.columns or 1

    def is_allowed(src: int, dst: int) -> bool:
        return src // columns == dst // columns or src % columns == dst % columns

    def rule(m: Message) -> str:
        src = {"src": m.src, "src_row": m.src // columns, "src_column": m.src % columns}
        dst = {"dst": m.dst, "dst_row": m.dst // columns, "dst_column": m.dst % columns}
        return say("aside", **src, **dst)

    why: Why = [
        (lambda t: len({(m.dst - m.src) % t.size for m in t.full}) == 1, say("one_large_ring")),
        (None, say("rings_of_the_grid", columns=columns)),
    ]
    return sent_messages.goes(t, is_allowed, rule, why)


def _sizes(t: SentMessages, way: str) -> Remark | None:
    """How much the messages along the rows, or along the columns, carry."""
    along = {each: [m for m in t.full if _lies(t, m, each)] for each in ("row", "column")}
    chunks = set(t.case.chunk_lengths)
    pieces = {piece for chunk in chunks for piece in chunk_lengths(chunk, t.case.rows)}
    lengths, parts = (chunks, t.case.columns) if way == "row" else (pieces, t.size)

    def what(m: Message, k: int, wanted: set[int]) -> str:
        expected = " or ".join(map(str, sorted(wanted)))
        return say("not_this_part", way=way, carried=sent_messages.carried(m), expected=expected, parts=parts)

    def details(m: Message) -> list[str]:
        return [f"bytes sent by each rank: {listed(t.trace.bytes_sent)}"]

    return sent_messages.carries(t, lambda m, k: lengths - {0}, what, _why_size(t, way, along), along[way], details)


def _other_messages(held: LeftInTensors) -> str | None:
    """The values are wrong because other messages were sent."""
    t = SentMessages(held.seen)
    columns = t.case.columns or 1
    remark = _aside(t) or _sizes(t, "row") or _sizes(t, "column")
    if remark is None:
        return None
    if columns > 1 and all(_lies(t, m, "row") for m in t.full):
        return say("rows_only", columns=columns)
    return f"{remark.seen.removeprefix('the values are right, but ')} {remark.cause[:1].upper()}{remark.cause[1:]}"


def _along(t: SentMessages, way: str, ranks: int) -> Remarks:
    """The messages along the rows, or along the columns. `ranks`: of one."""
    mine, rows, columns = [m for m in t.full if _lies(t, m, way)], t.case.rows, t.case.columns or 1
    times = 2 * rows * (columns - 1) if way == "row" else 2 * (rows - 1)
    for half in _halves(t, mine, ranks - 1):
        yield sent_messages.one_neighbor(t, half, [(None, say("one_way_round", way=way))], along=f"along its {way} ")
    yield _sizes(t, way)
    if len(mine) == t.size * 2 * (ranks - 1):
        who = f"along the {way}s {{found:,}} bytes were sent"
        words = say("padded" if len({m.nbytes for m in mine}) == 1 else "longer_than_chunks")
        yield sent_messages.total_bytes(t, times * t.case.nbytes, [(None, words)], mine, who)
    too_often = say("too_often", way=way, ranks=count(ranks, "rank"), steps=count(ranks - 1, "step"))
    why: Why = [
        (lambda t, found, expected, alike: found > expected, too_often),
    ]
    expected = [2 * (ranks - 1)] * t.size
    yield sent_messages.messages_by_rank(t, expected, why, along=f"along its {way} ", messages=mine)


def _why_size(t: SentMessages, way: str, along: dict[str, list[Message]]) -> Why:
    """Why a message along a row or a column has another length."""
    why = _why_size_in_row(t, along["row"]) if way == "row" else _why_size_in_column(t, along)
    return [(is_other_dtype, DTYPE), *why, (None, say("pieces_of_chunks"))]


def _why_size_in_row(t: SentMessages, along: Sequence[Message]) -> Why:
    columns, rows, length = t.case.columns or 1, t.case.rows, t.case.length
    columns_first = {piece for chunk in chunk_lengths(length, rows) for piece in chunk_lengths(chunk, columns)}
    torch_chunks = {len(chunk) for chunk in torch.empty(length).chunk(columns)}
    found = {math.prod(m.shape) for m in along}
    return [
        (lambda t, m, number: found == torch_chunks, say("torch_chunk")),
        (lambda t, m, number: math.prod(m.shape) in columns_first, say("columns_first")),
        (lambda t, m, number: m.nbytes == t.case.nbytes, say("whole_along", way="row")),
    ]


def _why_size_in_column(t: SentMessages, along: dict[str, list[Message]]) -> Why:
    columns, rows = t.case.columns or 1, t.case.rows
    tensor_in_rows = chunk_lengths(t.case.length, rows)
    cut_for_rows = {piece for chunk in tensor_in_rows for piece in chunk_lengths(chunk, rows)}
    rows_done = max((m.round for m in along["row"]), default=0) < min((m.round for m in along["column"]), default=0)
    chunks = {*t.case.chunk_lengths, *tensor_in_rows}
    return [
        (lambda t, m, number: math.prod(m.shape) in tensor_in_rows and rows_done, say("columns_sum_all")),
        (lambda t, m, number: m.nbytes == t.case.nbytes, say("whole_along", way="column")),
        (lambda t, m, number: math.prod(m.shape) in chunks, say("chunk_not_cut")),
        (lambda t, m, number: math.prod(m.shape) in cut_for_rows, say("cut_for_rows", rows=rows, columns=columns)),
    ]


def _halves(t: SentMessages, messages: Sequence[Message], number: int) -> tuple[list[Message], list[Message]]:
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


def _row_or_column_only(held: LeftInTensors) -> str | None:
    columns, inside, (at, wrong) = held.case.columns or 1, held.inside_first, held.first
    if inside is None or max(inside) > 1:
        return None
    members = [rank for rank, times in enumerate(inside) if times]
    if columns > 1 and members == [rank for rank in range(held.size) if rank // columns == at // columns]:
        own = at % columns
        is_early = own != wrong and held.is_right(at, own)
        return say("gathered_early", chunk=own) if is_early else say("sum_of_row")
    if held.case.rows > 1 and members == [rank for rank in range(held.size) if rank % columns == at % columns]:
        return say("sum_of_column")
    return None


def _not_gathered(held: LeftInTensors) -> str | None:
    if not sums.one_full_chunk_each(held, range(held.size)) or held.case.columns == 1:
        return None
    return say("row_not_gathered")


def _column_not_gathered(held: LeftInTensors) -> str | None:
    rows, chunks = held.case.rows, [part for part in held.pieces if part.stop - part.start >= held.case.rows]
    right = partial(_right_pieces, held, rows)
    if rows < 2 or not chunks or any(right(rank, part) != 1 for rank in range(held.size) for part in chunks):
        return None
    return say("column_not_gathered")


def _right_pieces(held: LeftInTensors, rows: int, rank: int, part: slice) -> int:
    """How many pieces of a chunk are right."""
    pairs = zip(held.values[rank][part].tensor_split(rows), held.targets[rank][part].tensor_split(rows), strict=True)
    return sum(torch.equal(found, expected) for found, expected in pairs)
