"""Exercise 02: the all-reduce through a master, and the ring with its two halves.

A star carries the whole tensor in every message; a ring one chunk in every message, and each half of a ring may go
round either way. What is inside a wrong chunk says whose values are missing or counted twice (`rules.sums`), and
whether the numbers of the chunks are those of a usual mistake (`rings`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs, alone, same_partner
from distlib.checks.formatting import count, dtype_name, listed
from distlib.checks.helpers import ring_all_gather, ring_reduce_scatter
from distlib.checks.remark import Remark
from distlib.checks.rules import sent_messages, sums
from distlib.checks.rules.sent_messages import SentMessages, Why
from distlib.checks.rules.sums import LeftInTensors
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.tensor_cases import TensorCase, row, tensor_cases
from distlib.exercises.all_reduce import rings
from distlib.trace import Message
from distlib.worlds.diagnosis import name_ranks

say = Sentences(__file__)


# ── what stops with an error ─────────────────────────────────────────────────────────────────────────────────────────


def errors(seen: Seen) -> Signs:
    """Words of an error and their usual cause, where every rank has one tensor and chunks of it travel."""
    case: TensorCase = seen.facts
    is_uneven = case.length % case.world_size != 0
    uneven = say("uneven", length=case.length, size=case.world_size, lengths=listed(case.chunk_lengths))
    partner = same_partner(str(seen.error)) if case.world_size > 2 else ""
    return (
        ("item assignment", say("item_assignment")),
        ("'NoneType'", say("returns_none")),
        ("wants to" if case.world_size == 1 else "", alone(str(seen.error))),
        ("itself", say("itself")),
        ("wants to", say("no_such_rank")),
        ("Make the dtypes the same", _other_dtype(seen)),
        ("the same number of elements" if is_uneven else "", uneven),
        ("must match the size of tensor" if is_uneven else "", uneven),
        ("The expanded size" if is_uneven else "", uneven),
        ("required positional argument: 'tensor'", say("comm_first")),
        ("0-d tensor", say("any_shape")),
        ("two bool tensors", say("any_dtype")),
        ("is invalid for input of size", say("view_divides")),
        ("index out of range", say("chunk_numbers")),
        ("share memory", say("separate_buffer")),
        (partner, say("same_neighbor")),
    )


def _other_dtype(seen: Seen) -> str:
    dtype = dtype_name(seen.facts.dtype)
    return say("makes_float32" if dtype != "float32" and "float32" in str(seen.error) else "send_as_it_is", dtype=dtype)


# ── through a master ─────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", errors=errors, row=row)
def check_naive_all_reduce(draw: Draw, **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: all send their tensor to rank 0, which adds up and sends the sum to all, in place.

    Options: `world_sizes`, `lengths`, `dtypes`, `layouts` of `tensor_cases`, as for the other checks of this file.
    """
    yield from tensor_cases("all_reduce", seed=draw.getrandbits(60), **cases)


@check_naive_all_reduce.judge
def _(seen: Seen) -> Remarks:
    held = LeftInTensors(seen)
    causes: list[sums.Cause] = [
        *sums.WRITTEN_ELSEWHERE,
        sums.rank_0_left_out,
        _master_left_out,
        sums.average,
        sums.lost_digits,
        _rest_left_out,
        sums.rank_added,
        sums.counted_twice(say("who_adds_twice")),
        sums.zeros,
        sums.replaced,
        sums.own_alone(say("nothing_added")),
        sums.lacking(sums.way_of),
        sums.other_reduction,
    ]
    yield sums.wrong_values(held, say("the_sum"), causes)
    yield sums.strayed(held)
    yield from _star(SentMessages(seen))


def _star(t: SentMessages) -> Remarks:
    """The messages of an all-reduce through rank 0."""
    last = t.size - 1
    yield sent_messages.silence(t, 2 * last)
    yield _to_or_from_rank_0(t)
    yield _whole_buffers(t)
    yield sent_messages.messages_by_rank(t, [last] + [1] * last, [(None, say("once_each"))])
    why: Why = [(lambda t, found, expected: found < expected, say("master_sends_first"))]
    yield sent_messages.rounds(t, 2 if last else 0, why)


def _to_or_from_rank_0(t: SentMessages) -> Remark | None:
    why: Why = [
        (lambda t: t.hub is not None and t.trace.rounds == 2, say("another_master", hub=t.hub)),
        (None, say("from_rank_to_rank")),
    ]
    return sent_messages.goes(t, lambda src, dst: 0 in (src, dst), lambda m: say("to_or_from_rank_0"), why)


def _whole_buffers(t: SentMessages) -> Remark | None:
    def seen(m: Message, number: int, wanted: object) -> str:
        return say("carries_a_part", carried=sent_messages.carried(m), whole=t.case.size)

    why: Why = [(sent_messages.is_other_dtype, sent_messages.DTYPE), (None, say("not_cut"))]
    return sent_messages.carries(t, lambda m, number: {t.case.length}, seen, why)


def _master_left_out(held: LeftInTensors) -> str | None:
    wrong = held.wrong_ranks
    if held.size < 2 or not set(wrong) <= set(held.unchanged):
        return None
    if wrong == list(range(1, held.size)):
        return say("no_way_back")
    return say("never_got_the_sum", ranks=name_ranks(wrong))


def _rest_left_out(held: LeftInTensors) -> str | None:
    return say("rest_left_out") if sums.remainder(held) else None


# ── the messages of a ring ───────────────────────────────────────────────────────────────────────────────────────────


def ring(t: SentMessages, halves: int) -> Remarks:
    """The messages of one half of a ring, or of both: each half goes round its own way."""
    steps = halves * (t.size - 1)
    yield sent_messages.silence(t, t.size * steps)
    yield _through_a_hub(t)
    yield from _neighbors(t, halves)
    yield _one_chunk_each(t, steps)
    if len(t.trace) == t.size * steps:
        why: Why = [(lambda t: t.is_padded, say("padded")), (None, say("longer_than_chunks"))]
        yield sent_messages.total_bytes(t, steps * t.case.nbytes, why)
    yield _one_message_each(t, halves)
    yield sent_messages.rounds(t, steps, [(lambda t, found, expected: found > expected, say("sends_wait"))])


def _through_a_hub(t: SentMessages) -> Remark | None:
    if t.hub is None or not t.is_exact:
        return None
    sent, received = t.trace.bytes_sent[t.hub], t.trace.bytes_received[t.hub]
    times, nbytes = (sent + received) / t.case.nbytes, t.case.nbytes
    text = say("through_a_hub", hub=t.hub, received=received, sent=sent, times=times, nbytes=nbytes)
    why: Why = [(None, say("no_rank_is_special", hub=t.hub, size=t.size))]
    return sent_messages.right_but(t, text, why, sent_messages.such_as(t.full[0]))


def _neighbors(t: SentMessages, halves: int) -> Remarks:
    """In each half a rank sends to one neighbor only, and the neighbors make a circle."""
    why: Why = [
        (lambda t: t.carries_whole, say("whole_buffers")),
        (lambda t: any(sent_messages.is_other_dtype(t, m) for m in t.full), sent_messages.DTYPE),
        (None, say("straight")),
    ]
    for half in rings.halves(t, halves):
        yield sent_messages.one_neighbor(t, half, why)
        if t.is_exact:
            yield sent_messages.one_circle(t, [(None, say("neighbors"))], half)


def _one_chunk_each(t: SentMessages, steps: int) -> Remark | None:
    """Each message carries one chunk."""
    chunks = t.case.chunk_lengths

    def seen(m: Message, number: int, wanted: object) -> str:
        facts = {"whole": t.case.size, "ranks": count(t.size, "rank"), "lengths": listed(chunks)}
        return say("carries_no_chunk", carried=sent_messages.carried(m), **facts)

    why: Why = [
        (sent_messages.is_other_dtype, sent_messages.DTYPE),
        (_is_a_master, say("one_collects")),
        (_goes_to_all, say("whole_buffers")),
        (_is_whole, say("whole_buffer_goes_round")),
        (lambda t, m, number: t.is_padded, say("padded")),
        (_is_cut_by_torch_chunk, say("torch_chunk")),
        (None, say("cut_the_flat_tensor")),
    ]
    nbytes = _bytes_by_rank(t, steps)
    return sent_messages.carries(t, lambda m, number: set(chunks), seen, why, details=lambda m: nbytes)


def _is_whole(t: SentMessages, m: Message, number: int) -> bool:
    return m.nbytes == t.case.nbytes


def _is_a_master(t: SentMessages, m: Message, number: int) -> bool:
    return _is_whole(t, m, number) and len(t.trace) == 2 * (t.size - 1) and t.trace.rounds == 2


def _goes_to_all(t: SentMessages, m: Message, number: int) -> bool:
    is_sent_to_all = max(t.trace.messages_sent) == t.size - 1
    return _is_whole(t, m, number) and is_sent_to_all and t.case.collective != "all_gather"


def _is_cut_by_torch_chunk(t: SentMessages, m: Message, number: int) -> bool:
    return {m.nbytes for m in t.full} <= rings.bytes_of_torch_chunk(t.case)


def _bytes_by_rank(t: SentMessages, steps: int) -> list[str]:
    """The line that shows how much each rank has sent; none if that is as it should be."""
    sent, expected = listed(t.trace.bytes_sent), listed([round(steps * t.case.nbytes / t.size)] * t.size)
    if sent == expected:
        return []
    return [say("bytes_nearly" if t.case.length % t.size else "bytes", sent=sent, expected=expected)]


def _one_message_each(t: SentMessages, halves: int) -> Remark | None:
    """Each rank sends one message in each step."""
    steps = halves * (t.size - 1)
    why: Why = [
        (lambda t, found, expected, alike: t.size == 2 and found == 2 * expected, say("twice_on_2_ranks")),
        (lambda t, found, expected, alike: found in (expected + 1, expected + halves), say("step_too_many")),
        (lambda t, found, expected, alike: found > expected, say("more_messages")),
    ]
    return sent_messages.messages_by_rank(t, [steps] * t.size, why, *_bytes_by_rank(t, steps))


# ── the first half ───────────────────────────────────────────────────────────────────────────────────────────────────


_ALONE = (sums.own_alone(say("nothing_added")), sums.replaced)
_LACKING = sums.lacking(say("leaves_too_early"))


@task("comm", "tensor", errors=errors, row=row)
def check_reduce_scatter(draw: Draw, **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: round a ring; chunk r of rank r ends as the sum, the other chunks are free."""
    yield from tensor_cases("reduce_scatter", seed=draw.getrandbits(60), **cases)


@check_reduce_scatter.judge
def _(seen: Seen) -> Remarks:
    held = LeftInTensors(seen, in_chunks=True)
    causes: list[sums.Cause] = [
        *sums.WRITTEN_ELSEWHERE,
        sums.average,
        sums.lost_digits,
        rings.other_chunks,
        sums.rank_added,
        sums.counted_twice(say("one_more_step")),
        rings.full_sum_elsewhere,
        sums.zeros,
        rings.stopped_early(1),
        rings.mistaken_numbers,
        *_ALONE,
        _LACKING,
        sums.other_reduction,
    ]
    yield sums.wrong_values(held, say("own_chunk"), causes, aim="chunk r of rank r")
    yield sums.strayed(held)
    yield from ring(SentMessages(seen), 1)


# ── the second half ──────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", errors=errors, row=row)
def check_all_gather(draw: Draw, **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: round a ring; chunk r of rank r ends on every rank, and is right only there before."""
    yield from tensor_cases("all_gather", seed=draw.getrandbits(60), **cases)


@check_all_gather.judge
def _(seen: Seen) -> Remarks:
    held = LeftInTensors(seen, in_chunks=True)
    causes: list[sums.Cause] = [
        *sums.WRITTEN_ELSEWHERE,
        _divided,
        sums.lost_digits,
        rings.other_chunks,
        sums.rank_added,
        rings.stopped_early(1),
        rings.mistaken_numbers,
        _gathered_wrong,
        sums.zeros,
    ]
    yield sums.wrong_values(held, say("chunks_of_all"), causes, aim="")
    yield sums.strayed(held)
    yield from ring(SentMessages(seen), 1)


def _divided(held: LeftInTensors) -> str | None:
    return say("divided") if sums.average(held) else None


def _gathered_wrong(held: LeftInTensors) -> str | None:
    rank, piece = held.first
    part = held.pieces[piece]
    found, right = held.values[rank][part], held.inputs[piece][part]
    for source, values in enumerate(held.inputs):
        if torch.equal(found, values[part]) and source == rank:
            return say("never_arrived", piece=piece)
        if torch.equal(found, values[part]):
            return say("not_right_there", source=source, piece=piece)
        if source != piece and torch.equal(found, values[part] + right):
            return say("added", piece=piece)
    for other, start in enumerate(held.pieces):
        if other != piece and torch.equal(found, held.inputs[other][start]):
            return say("wrong_place", other=other)
    return None


# ── both ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", errors=errors, row=row, helpers=[ring_reduce_scatter, ring_all_gather])
def check_ring_all_reduce(draw: Draw, **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: both halves of a ring. Every rank's tensor ends as the sum, in place."""
    yield from tensor_cases("all_reduce", seed=draw.getrandbits(60), **cases)


@check_ring_all_reduce.judge
def _(seen: Seen) -> Remarks:
    held = LeftInTensors(seen, in_chunks=True)
    causes: list[sums.Cause] = [
        *sums.WRITTEN_ELSEWHERE,
        sums.average,
        sums.lost_digits,
        sums.remainder,
        sums.rank_added,
        _gathered_first,
        sums.counted_twice(say("copy_full_chunks")),
        _not_gathered,
        _gathered_a_chunk,
        sums.zeros,
        rings.stopped_early(2),
        rings.mistaken_numbers,
        *_ALONE,
        _LACKING,
        sums.other_reduction,
    ]
    yield sums.wrong_values(held, say("the_sum"), causes)
    yield sums.strayed(held)
    yield from ring(SentMessages(seen), 2)


def _gathered_first(held: LeftInTensors) -> str | None:
    own = [
        torch.equal(held.values[rank][part], held.size * held.inputs[rank][part])
        for rank, part in enumerate(held.case.chunk_slices)
    ]
    if held.size < 2 or held.case.length < held.size or not all(own):
        return None
    return say("gathered_first", size=held.size)


def _not_gathered(held: LeftInTensors) -> str | None:
    return say("not_gathered") if sums.one_full_chunk_each(held, range(held.size)) else None


def _gathered_a_chunk(held: LeftInTensors) -> str | None:
    """The messages of the second half are parts of a chunk."""
    _, second = rings.halves(SentMessages(held.seen), 2)
    longest = max((m.nbytes for m in second), default=0)
    shortest = min(held.case.chunk_lengths) * held.case.dtype.itemsize
    return say("gathered_a_chunk") if 0 < longest < shortest else None
