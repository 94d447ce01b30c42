"""Exercise 02: the all-reduce through a master, and the ring with its two halves.

A star carries the whole tensor in every message; a ring one chunk in every message, and each half of a ring may go
round either way. What is inside a wrong chunk says whose values are missing or counted twice (`rules.sums`), and
whether the numbers of the chunks are those of a usual mistake (`rules.rings`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs, alone, same_partner
from distlib.checks.helpers import ring_all_gather, ring_reduce_scatter
from distlib.checks.remark import Remark
from distlib.checks.rules import messages, sums
from distlib.checks.rules.messages import Traffic
from distlib.checks.rules.sums import Held
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.tensor_cases import TensorCase, row, tensor_cases
from distlib.checks.words import count, dtype_name, listed
from distlib.exercises.all_reduce import rings
from distlib.trace import Message
from distlib.worlds.diagnosis import name_ranks

# fmt: off
THE_SUM = "It must be the sum over all ranks."


# ── what stops with an error ─────────────────────────────────────────────────────────────────────────────────────────


def errors(seen: Seen) -> Signs:
    """Words of an error and their usual cause, where every rank has one tensor and chunks of it travel."""
    case: TensorCase = seen.facts
    whole, size, dtype = case.length, case.world_size, dtype_name(case.dtype)
    steps = "A loop over world_size - 1 steps, or over the other ranks alone, does the right thing by itself."
    uneven = (f"{whole} does not divide by {size}: the chunks have {listed(case.chunk_lengths)} elements. The buffer for "
              "what comes in must be as long as the chunk that comes, not as the one that leaves; and so must the chunk "
              "that it is put to. Do both ranks mean the same chunk in this step?")
    return (
        ("item assignment", "`chunks[i] += x` adds in place, and then also assigns to chunks[i], which a tuple does not "
         "allow. Give the chunk a name first: `chunk = chunks[i]`, then `chunk += x`. Or write chunks[i].add_(x)."),
        ("'NoneType'", "what works in place returns None: comm.send, comm.exchange, and functions like yours. What has "
         "come in is in the buffer that was handed over."),
        ("wants to" if size == 1 else "", alone(str(seen.error), steps)),
        ("itself", "no rank sends to itself. Leave the rank's own number out of the loop over ranks."),
        ("wants to", "there are only the ranks 0 to comm.world_size - 1, however many there are. Compute the other rank "
         "from comm.rank and comm.world_size."),
        ("Make the dtypes the same", "torch.empty(n) and torch.zeros(n) make float32. A buffer for what comes in needs "
         f"the tensor's dtype, {dtype}: torch.empty_like(chunk)." if dtype != "float32" and "float32" in str(seen.error)
         else f"the tensor is {dtype}. Send it as it is, and receive it as such."),
        ("the same number of elements" if whole % size else "", uneven),
        *((sign if whole % size else "", uneven) for sign in ("must match the size of tensor", "The expanded size")),
        ("required positional argument: 'tensor'", "the functions of this exercise are called with comm first, and then "
         "the tensor: ring_all_gather(comm, tensor)."),
        ("0-d tensor", "the tensor may have any shape. A tensor without dimensions is a single number: it has no len(), and "
         "can't be indexed. torch.empty_like(tensor) and tensor.reshape(-1) work for every shape."),
        ("two bool tensors", "the tensor may have any dtype. target.copy_(incoming) computes nothing, and works for all."),
        ("is invalid for input of size", "view(world_size, -1) needs a length that divides by the number of ranks. "
         "torch.tensor_split cuts any length."),
        ("index out of range", "there is one chunk for each rank, and the number of ranks is not fixed. Take the number "
         "of a chunk or of a rank % comm.world_size."),
        ("share memory", "in one step a chunk leaves and another one comes in. Receive into a separate buffer "
         "(torch.empty_like(chunk)), then add it or copy it."),
        (same_partner(str(seen.error)) if size > 2 else "", "a rank sends to one neighbor and receives from the same one. In "
         "a ring it receives from the other one: comm.exchange(outgoing, next_rank, incoming, previous_rank)."),
    )


# ── through a master ─────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", errors=errors, row=row)
def check_naive_all_reduce(draw: Draw, **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: all send their tensor to rank 0, which adds up and sends the sum to all, in place.

    Options: `world_sizes`, `lengths`, `dtypes`, `layouts` of `tensor_cases`, as for the other checks of this file.
    """
    yield from tensor_cases("all_reduce", seed=draw.getrandbits(60), **cases)


@check_naive_all_reduce.judge
def _(seen: Seen) -> Remarks:
    held, t, last = Held(seen), Traffic(seen), seen.size - 1
    yield sums.wrong_values(held, THE_SUM, [
        *sums.IN_ANOTHER_PLACE, sums.rank_0_left_out, _master_left_out, sums.average, sums.lost_digits, _rest_left_out, sums.rank_added,
        sums.counted_twice("Which rank adds its values to a sum that already has them?"), sums.zeros, sums.replaced,
        sums.own_alone("Nothing was added to them."), sums.lacking(sums.way_of), sums.other_reduction])
    yield sums.strayed(held)
    yield messages.silence(t, 2 * last)
    yield messages.goes(
        t, lambda src, dst: 0 in (src, dst), lambda m: "every message should go to rank 0 or come from it", [
            (lambda t: t.hub is not None and t.trace.rounds == 2,
             "everything passes through rank {hub}. The master of this exercise is rank 0."),
            (lambda t: t.trace.rounds > 2,
             "the sum goes from rank to rank. Here the others talk to the master, rank 0, and to nobody else."),
            (None, "only rank 0, the master, collects and adds up. The other ranks send to it and receive from it."),
        ])
    yield messages.carries(
        t, lambda m, k: {t.case.length},
        lambda m, k, wanted: f"a message carries {messages.carried(m)}; each should carry the whole buffer of "
        f"{t.case.size}.", [
            (messages.is_other_dtype, messages.DTYPE),
            (None, "the naive all-reduce does not cut the tensor: a rank sends all of it to rank 0, and gets the whole "
             "sum back."),
        ])
    yield messages.messages_by_rank(t, [last] + [1] * last, [
        (None, "a rank sends its tensor to the master once; the master sends the sum to each of the others once.")])
    yield messages.rounds(t, 2 if last else 0, [
        (lambda t, found, expected: found < expected,
         "rank 0 sends before it has received: the others get its own values, not the sum, and add up by themselves. The "
         "master must receive from everybody, add, and then send the sum."),
        (None, "some rank receives from the master before it sends to it, so the next one has to wait for it."),
    ])


def _master_left_out(held: Held) -> str | None:
    wrong = held.wrong_ranks
    if held.size < 2 or not set(wrong) <= set(held.unchanged):
        return None
    if wrong == list(range(1, held.size)):
        return ("rank 0 has the sum, the others still have their own values: the way back is missing. The master must "
                "send the sum to every other rank, and each of them must receive it.")
    return f"{name_ranks(wrong)} never got the sum. Does the master's loop go over all other ranks?"


def _rest_left_out(held: Held) -> str | None:
    return sums.remainder(held) and ("only the first elements are right. A rank sends its whole tensor to the master, and "
                                     "gets the whole sum: nothing is cut, whatever the length.")


# ── the messages of a ring ───────────────────────────────────────────────────────────────────────────────────────────

BUFFERS = ("every rank gets the whole buffer of every other rank and adds up by itself: N - 1 buffers per rank, more with "
           "every rank. Cut the tensor with torch.tensor_split, send one chunk in each step, and let the sum grow on its "
           "way.")
PADDED = ("all chunks are padded to the same length, so more bytes travel than need to. torch.tensor_split cuts chunks of "
          "different lengths: receive into a buffer as long as the chunk that comes.")
STRAIGHT = ("each chunk goes straight to the rank that needs it. In a ring a rank sends to one neighbor only, and the "
            "chunk is passed on from rank to rank.")
NEIGHBORS = ("the neighbors of a rank in the ring are (comm.rank + 1) % comm.world_size and (comm.rank - 1) % "
             "comm.world_size.")


def _is_whole(t: Traffic, m: Message, number: int) -> bool:
    return m.nbytes == t.case.nbytes


def ring(t: Traffic, halves: int) -> Remarks:
    """The messages of one half of a ring, or of both: each half goes round its own way."""
    size, chunks, steps = t.size, t.case.chunk_lengths, halves * (t.size - 1)
    sent, about = listed(t.trace.bytes_sent), listed([round(steps * t.case.nbytes / size)] * size)
    uneven = "about " * bool(t.case.length % size)
    nbytes = [] if sent == about else [f"bytes sent by each rank: {sent}; expected: {uneven}{about}"]
    yield messages.silence(t, size * steps)
    yield _through_a_hub(t)
    for half in rings.halves(t, halves):
        yield messages.one_neighbor(t, half, [
            (lambda t: t.carries_whole, BUFFERS),
            (lambda t: any(messages.is_other_dtype(t, m) for m in t.full), messages.DTYPE),
            (None, STRAIGHT)])
        yield messages.one_circle(t, [(None, NEIGHBORS)], half) if t.is_exact else None
    yield messages.carries(
        t, lambda m, k: set(chunks),
        lambda m, k, wanted: f"a message carries {messages.carried(m)}. Each should carry one chunk; the chunks of "
        f"{t.case.size} on {count(size, 'rank')} have {listed(chunks)} elements.", [
            (messages.is_other_dtype, messages.DTYPE),
            (lambda t, m, number: _is_whole(t, m, number) and len(t.trace) == 2 * (size - 1) and t.trace.rounds == 2,
             "one rank collects everything and sends the result out: that is the master of naive_all_reduce. In a ring "
             "no rank is special, and what travels is one chunk at a time."),
            (lambda t, m, number: _is_whole(t, m, number) and max(t.trace.messages_sent) == size - 1
             and t.case.collective != "all_gather", BUFFERS),
            (_is_whole, "the whole buffer goes round the ring in every step. Cut it with torch.tensor_split(flat, "
             "comm.world_size), and send one chunk in each step."),
            (lambda t, m, number: t.is_padded, PADDED),
            (lambda t, m, number: {m.nbytes for m in t.full} <= rings.bytes_of_torch_chunk(t.case),
             "torch.chunk cuts other lengths than torch.tensor_split, whose lengths differ by one at most."),
            (None, "cut the flattened tensor with torch.tensor_split(flat, comm.world_size), and send one chunk in each "
             "step."),
        ], details=lambda m: nbytes)
    if len(t.trace) == size * steps:
        yield messages.total_bytes(t, steps * t.case.nbytes, [
            (lambda t: len({m.nbytes for m in t.full}) == 1, PADDED),
            (None, "some chunk is sent more often than needed, and another one less often.")])
    yield messages.messages_by_rank(t, [steps] * size, [
        (lambda t, found, expected, alike: size == 2 and found == 2 * expected,
         "a loop runs one step too often, or something goes round twice. With 2 ranks one step is enough for each half "
         "of the ring."),
        (lambda t, found, expected, alike: found in (expected + 1, expected + halves),
         "a loop runs one step too often. After world_size - 1 steps every chunk has been everywhere once, and need not "
         "go round again."),
        (lambda t, found, expected, alike: found > expected,
         "a half of a ring takes world_size - 1 steps, and in each of them a rank sends one chunk, in one message. Are "
         "there more steps here, or more messages in a step?"),
        (lambda t, found, expected, alike: alike,
         "is the loop one step short? In a ring every rank sends one chunk in each step."),
        (None, "a rank that sends less leaves work to others. In a ring every rank sends one chunk in each step."),
    ], *nbytes)
    yield messages.rounds(t, steps, [
        (lambda t, found, expected: found > expected,
         "your sends wait for one another: a rank receives first and sends afterwards, so its neighbor can only start a "
         "round later. Let every rank send and receive at the same time: comm.exchange(outgoing, next_rank, incoming, "
         "previous_rank)."),
        (None, "a chunk has to visit every rank, one step after the other. Here some steps do not build on the one "
         "before."),
    ])


def _through_a_hub(t: Traffic) -> Remark | None:
    if t.hub is None or not t.is_exact:
        return None
    sent, received = t.trace.bytes_sent[t.hub], t.trace.bytes_received[t.hub]
    return messages.right_but(
        t, f"everything passes through rank {t.hub}: it receives {received:,} bytes and sends {sent:,}, "
        f"{(sent + received) / t.case.nbytes:g} times the buffer of {t.case.nbytes:,} bytes.",
        [(None, "rank {hub} is a master here, as in naive_all_reduce. In a ring of {size} ranks no rank is special: each "
          "sends one chunk to its neighbor on one side and receives one from the other side, in every step.")],
        messages.such_as(t.full[0]))


# ── the first half ───────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", errors=errors, row=row)
def check_reduce_scatter(draw: Draw, **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: round a ring; chunk r of rank r ends as the sum, the other chunks are free."""
    yield from tensor_cases("reduce_scatter", seed=draw.getrandbits(60), **cases)


@check_reduce_scatter.judge
def _(seen: Seen) -> Remarks:
    held = Held(seen, in_chunks=True)
    yield sums.wrong_values(held, "Chunk r of rank r must be the sum over all ranks.", [
        *sums.IN_ANOTHER_PLACE, sums.average, sums.lost_digits, rings.other_chunks, sums.rank_added,
        sums.counted_twice("Is that one step too many? The reduce-scatter takes world_size - 1 steps."),
        rings.full_sum_elsewhere, sums.zeros, rings.stopped_early(1), rings.mistaken_numbers, *_ALONE, _LACKING,
        sums.other_reduction], aim="chunk r of rank r")
    yield sums.strayed(held)
    yield from ring(Traffic(seen), 1)


_ALONE = (sums.own_alone("Nothing was added to them."), sums.replaced)
_LACKING = sums.lacking("Is the loop one step short, or does a chunk leave before this rank has added its own values?")


# ── the second half ──────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", errors=errors, row=row)
def check_all_gather(draw: Draw, **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: round a ring; chunk r of rank r ends on every rank, and is right only there before."""
    yield from tensor_cases("all_gather", seed=draw.getrandbits(60), **cases)


@check_all_gather.judge
def _(seen: Seen) -> Remarks:
    held = Held(seen, in_chunks=True)
    yield sums.wrong_values(held, "Chunk k must be what rank k had in its chunk k at the start.", [
        *sums.IN_ANOTHER_PLACE, _divided, sums.lost_digits, rings.other_chunks, sums.rank_added,
        rings.stopped_early(1), rings.mistaken_numbers, _gathered_wrong, sums.zeros], aim="")
    yield sums.strayed(held)
    yield from ring(Traffic(seen), 1)


def _divided(held: Held) -> str | None:
    return sums.average(held) and "the chunks are divided by comm.world_size. An all-gather only copies them."


def _gathered_wrong(held: Held) -> str | None:
    rank, piece = held.first
    part = held.pieces[piece]
    found, right = held.values[rank][part], held.inputs[piece][part]
    for source, values in enumerate(held.inputs):
        if torch.equal(found, values[part]) and source == rank:
            return (f"the chunk is as it was at the start: rank {piece}'s never arrived there. Is the loop one step "
                    "short, or is the wrong chunk passed on?")
        if torch.equal(found, values[part]):
            return (f"these are the values that rank {source} had there at the start, and only rank {piece}'s chunk "
                    f"{piece} was right then. In the first step a rank sends its own chunk, later the one it has just "
                    "received.")
        if source != piece and torch.equal(found, values[part] + right):
            return (f"the chunk of rank {piece} was added to what was there before. In an all-gather a chunk that comes "
                    "in is complete: it replaces the old one.")
    for other, start in enumerate(held.pieces):
        if other != piece and torch.equal(found, held.inputs[other][start]):
            return (f"this is the chunk of rank {other}: it has come to the wrong place. The chunk you receive in a step "
                    "is the one your neighbor sends in that step: compute its number from the neighbor's rank.")
    return None


# ── both ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", errors=errors, row=row, helpers=[ring_reduce_scatter, ring_all_gather])
def check_ring_all_reduce(draw: Draw, **cases: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: both halves of a ring. Every rank's tensor ends as the sum, in place."""
    yield from tensor_cases("all_reduce", seed=draw.getrandbits(60), **cases)


@check_ring_all_reduce.judge
def _(seen: Seen) -> Remarks:
    held = Held(seen, in_chunks=True)
    yield sums.wrong_values(held, THE_SUM, [
        *sums.IN_ANOTHER_PLACE, sums.average, sums.lost_digits, sums.remainder, sums.rank_added,
        _gathered_first,
        sums.counted_twice("A chunk that is full must be copied, not added to: that is the all-gather. It begins after "
                           "step N - 1."),
        _not_gathered, _gathered_a_chunk, sums.zeros, rings.stopped_early(2), rings.mistaken_numbers, *_ALONE, _LACKING,
        sums.other_reduction])
    yield sums.strayed(held)
    yield from ring(Traffic(seen), 2)


def _gathered_a_chunk(held: Held) -> str | None:
    """The messages of the second half are parts of a chunk."""
    _, second = rings.halves(Traffic(held.seen), 2)
    longest, shortest = max((m.nbytes for m in second), default=0), min(held.case.chunk_lengths) * held.case.dtype.itemsize
    if not 0 < longest < shortest:
        return None
    return ("in the second half no message is as long as a chunk. ring_all_gather cuts what it is given into chunks: give it "
            "the whole tensor.")


def _gathered_first(held: Held) -> str | None:
    own = [torch.equal(held.values[rank][part], held.size * held.inputs[rank][part])
           for rank, part in enumerate(held.case.chunk_slices)]
    if held.size < 2 or held.case.length < held.size or not all(own):
        return None
    return (f"chunk r of rank r is {held.size} times what it was at the start: every rank has added the same values to it. "
            "Does the all-gather come first? It copies the chunks that the reduce-scatter has made full.")


def _not_gathered(held: Held) -> str | None:
    if not sums.one_full_chunk_each(held, range(held.size)):
        return None
    return ("every rank has the full sum in exactly one chunk: the reduce-scatter is done, and the all-gather, which "
            "passes the full chunks on round the ring, is missing or moves the wrong chunk.")
# fmt: on
