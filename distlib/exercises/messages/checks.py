"""Exercise 01: shift, scatter, gather, broadcast and reduce. What every rank must end with, and every message."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs, alone, same_partner
from distlib.checks.plays.tensor import lay_out
from distlib.checks.remark import Remark
from distlib.checks.rules import messages as rule
from distlib.checks.rules import sums
from distlib.checks.rules.messages import Traffic, Why
from distlib.checks.rules.returns import nobody_returned
from distlib.checks.rules.steps import broadcast_steps, reduce_steps
from distlib.checks.rules.sums import Held
from distlib.checks.rules.values import holds, untouched
from distlib.checks.seen import Seen
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.tensor_cases import TensorCase, row, tensor_cases
from distlib.checks.words import count, dtype_name

Limit = Callable[[int], int]
PerRank = Callable[[int], Sequence[int]]


# fmt: off
@dataclass(frozen=True)
class Pattern(TensorCase):
    """A case, and what the test cell asks of its messages: see `_cases`."""

    limit: int = 0
    messages: tuple[int, ...] | None = None

    @property
    def center(self) -> int:
        """The root; 0 for a shift, which has none."""
        return self.root or 0


def _cases(
    collective: str, draw: Draw, limit: Limit, messages: PerRank | None = None, **options: Any
) -> Iterator[Case]:
    """Cases with what the test cell asks of the messages.

    Args:
        limit: from the number of ranks to the largest number of rounds; in a broadcast or a reduce, of steps.
        messages: from the number of ranks to how many messages each rank sends, a list. It is for root 0; with another
            root everybody's place moves along. None: only their total is fixed.
        options: of `tensor_cases`.
    """
    for case in tensor_cases(collective, seed=draw.getrandbits(60), **options):
        asked = tuple(messages(case.world_size)) if messages else None
        yield replace(case, facts=Pattern(**vars(case.facts), limit=limit(case.world_size), messages=asked))


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────

NEXT = ("after the last rank comes rank 0 again: the next rank is (comm.rank + 1) % comm.world_size, the previous one "
        "(comm.rank - 1) % comm.world_size.")
OTHERS = ("the ranks are 0 to comm.world_size - 1, and the root has its own part already: leave the root out where a "
          "loop goes over the others, and let the call name the other rank, not `root`.")
OTHERS_ALONE = ("The root has its own part, and it alone sends, or receives, what is for the others: leave it out where a "
                "loop goes over the ranks.")
COUNTED = "How many ranks there are says comm.world_size. Is another number written into your code?"
ODD = ("where the number of ranks is not a power of two, a rank may have no partner in a step: compare the partner's "
       "place with comm.world_size first.")
PARTNER = f"a place is not yet a rank: the rank at place p is (p + root) % comm.world_size. And {ODD}"
FLOAT32 = ("torch.empty(n) and torch.zeros(n) make float32. A buffer for what comes in needs the dtype of what comes: "
           "torch.empty_like(tensor).")
ANY_SHAPE = ("a tensor may have no dimension at all, like torch.tensor(5.0). tensor[:] and len(tensor) fail there. "
             "tensor.copy_(x), torch.empty_like(tensor) and tensor.reshape(-1) work with any shape.")
SHARED = ("the tensor that comes in would overwrite the one that still goes out. Receive into a separate buffer, "
          "torch.empty_like(tensor), and copy it afterwards.")
A_NUMBER = ("the tensor comes first, then the rank. Or does the number come from comm.recv? It returns the rank that "
            "has sent; what has come is in the tensor that recv was given.")
AGAIN = ("rank {rank} has sent before. In a reduce a rank hands in its sum once, and takes no part in the steps after "
         "that: return, or leave the loop.")
HAS_IT = ("rank {rank} has the tensor already, and waits to receive it. In each step only ranks that do not have it "
          "receive, and only ranks that have it send.")
LEFT_OUT = ("rank {rank} has returned without the tensor. Which lines does it run in the step in which the other one sends "
            "to it?")
PREVIOUS = ("a rank sends to one neighbor and receives from the same one. In a shift it receives from the other one: "
            "comm.exchange(outgoing, next_rank, incoming, previous_rank).")
UNLIKE = "Both need the same number of elements"
FEWER = "is there a chunk for each rank? torch.chunk may cut fewer than you ask for; torch.tensor_split never does."


def _errors(peers: str) -> Callable[[Seen], Signs]:
    """`peers`: the cause where a message goes to a rank that does not exist, or to the sender itself."""
    def signs(seen: Seen) -> Signs:
        case, text, wrong_peer = seen.facts, str(seen.error), peers
        is_odd = peers is PARTNER and seen.size & (seen.size - 1)
        itself = re.search(r"rank (\d+) wants to \w+ \w+ itself", text)
        if seen.size == 1:
            wrong_peer = alone(text, OTHERS_ALONE if peers is OTHERS else "")
        elif peers is OTHERS and itself and int(itself[1]) != case.center:
            wrong_peer = (f"the root is rank {case.root} here, so rank {itself[1]} is one of the others. These talk to the "
                          "rank that `root` names, whichever it is.")
        beyond = f"{wrong_peer} {COUNTED}" if peers is OTHERS and seen.size > 1 else wrong_peer
        return [("but the ranks are", beyond), (" itself.", wrong_peer), ("no other rank here", alone(text)),
                *_ranks_out_of_step(seen),
                (same_partner(text) if peers is NEXT and seen.size > 2 else "", PREVIOUS),
                (UNLIKE, _lengths(case)),
                *([("float32", FLOAT32)] if dtype_name(seen.facts.dtype) != "float32" else []),
                ("0-d", ANY_SHAPE), ("at least a 1-dimensional", ANY_SHAPE), ("share memory", SHARED),
                ("expected a torch.Tensor to send, got int", A_NUMBER), ("index out of range", FEWER),
                *([("deadlock", f"does it go well with 2 ranks, and with 4? Then {ODD}")] if is_odd else [])]
    return signs


def _ranks_out_of_step(seen: Seen) -> Signs:
    """Ranks of a tree that wait, or have returned, where they have no part, or still have one."""
    case, sent, has_it = seen.facts, {m.src for m in seen.trace}, {seen.facts.center, *(m.dst for m in seen.trace)}
    if case.collective == "reduce":
        return [(f"rank {rank} waits to", AGAIN.format(rank=rank)) for rank in sorted(sent)]
    if case.collective != "broadcast":
        return []
    return [*((f"rank {rank} waits to receive", HAS_IT.format(rank=rank)) for rank in sorted(has_it)),
            *((f"rank {rank} has already returned", LEFT_OUT.format(rank=rank)) for rank in {*seen.ranks} - has_it)]


def _lengths(case: Pattern) -> str:
    """What to know about lengths where a buffer does not fit."""
    if case.collective != "scatter":
        return (f"a message is the whole tensor here, {count(case.length, 'element')}. torch.empty_like(tensor) is a buffer "
                "for it, whatever its shape and dtype.")
    lengths = ", ".join(map(str, case.chunk_lengths))
    return (f"torch.tensor_split cuts chunks of {lengths} elements here, and rank r gets chunk r. Does the root send that "
            "one, and is the buffer as long?")


# ── what is in the tensors ───────────────────────────────────────────────────────────────────────────────────────────

ELSEWHERE = sums.IN_ANOTHER_PLACE


def _as_it_was(advice: str) -> sums.Cause:
    """A tensor is as it was. `advice`: what to look at if no message has come."""
    def cause(held: Held) -> str | None:
        rank = held.first[0]
        if rank not in held.unchanged:
            return None
        if any(message.dst == rank for message in Traffic(held.seen).full):
            return f"a message has come to this rank, but its tensor is as it was. {sums.REBOUND}"
        return f"the tensor is as it was at the start, and no message has come to this rank. {advice}{sums.steps_of(held)}"
    return cause


def _plays_another_root(held: Held) -> str | None:
    root, total = held.case.root, torch.stack(held.inputs).sum(0)
    for rank in range(held.size) if root else ():
        right, ranks = (total, [rank]) if held.case.collective == "reduce" else (held.inputs[rank], range(held.size))
        if rank != root and all(torch.equal(held.values[other], right) for other in ranks):
            return (f"rank {rank} plays the root, but the root is rank {root}. Count places from the root: place = "
                    "(comm.rank - root) % comm.world_size.")
    return None


def _root_has_changed(held: Held) -> str | None:
    root = held.case.root or 0
    return (f"the tensor of the root, rank {root}, has changed. The root has the values that count: it only sends, and "
            "nothing is written into its tensor.") if root in held.wrong_ranks else None


def _goes_round(held: Held) -> str | None:
    if len(held.seen.trace) < held.size or not all(torch.equal(values, held.inputs[0]) for values in held.values):
        return None
    return ("every rank has what rank 0 had: each passes on what it has just received. Each must send what it had at "
            "the start, and receive into a separate buffer.")


def _added(held: Held) -> str | None:
    words = "values were added. Here they are only copied: what comes in replaces what was there."
    return words if sum(held.inside_first or ()) > 1 else None


def _of_another_rank(held: Held) -> str | None:
    rank = held.first[0]
    source = next((k for k, values in enumerate(held.inputs) if torch.equal(held.values[rank], values)), None)
    if source is None:
        return None
    these = f"these are the values that rank {source} had at the start"
    if held.case.collective == "broadcast":
        return f"{these}, not those of the root, rank {held.case.root}. Has rank {source} sent before it had received?"
    is_sent_on = any((m.src, m.dst) == (rank, (rank + 1) % held.size) for m in held.seen.trace)
    way = ": the shift goes the wrong way" if source == (rank + 1) % held.size and not is_sent_on else ""
    return (f"{these}{way}. Rank r sends what it had at the start to rank (r + 1) % world_size, and receives from rank "
            "(r - 1) % world_size.")


def _part_only(held: Held) -> str | None:
    rank, length = held.first[0], held.case.length
    right = int((held.values[rank] == held.targets[rank]).sum())
    if held.case.dtype == torch.bool or right < length / 2:
        return None
    return f"{count(right, 'element')} of {length} are right. Is the tensor sent and received as a whole?"


# ── the messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

MANY: Why = [
    (lambda t, found, expected: found > expected and _sends_twice(t),
     "a rank sends more than once to the same rank. Once is enough, in one message."),
    (lambda t, found, expected: t.size > 2 and found == t.size * (t.size - 1), "every rank sends to every other one."),
    (lambda t, found, expected: found > expected, "some rank is sent what it does not need."),
    (None, "some values came without a message of yours."),
]
PLACES: Why = [(None, "the messages do not flow the way the exercise describes. Who has to send, and how often?")]
WAITS: Why = [(None, "a message waits for another one. None has to: what it carries is there from the start.")]
PASSED_ON = (lambda t: t.trace.rounds > 1 and not _is_direct(t), "the tensors are passed on from rank to rank. Here "
             "each one travels once, straight between root and rank.")
CHAIN = (lambda t, messages: t.trace.rounds == t.size - 1, "the tensor goes from rank to rank in a chain. In each "
         "step, every rank that can help should.")


def _sends_twice(t: Traffic) -> bool:
    return max(Counter((m.src, m.dst) for m in t.full).values()) > 1


def _is_direct(t: Traffic, messages: Any = None) -> bool:
    return all(t.seen.facts.center in (m.src, m.dst) for m in t.full)


def _numbers(t: Traffic, total: int) -> Remarks:
    """How many messages there are, of all ranks and of each."""
    case: Pattern = t.seen.facts
    yield rule.number_of_messages(t, total, MANY)
    if case.messages is not None:
        placed = [case.messages[(rank - case.center) % t.size] for rank in range(t.size)]
        yield rule.messages_by_rank(t, placed, PLACES, messages=t.full)


# ── shift ────────────────────────────────────────────────────────────────────────────────────────────────────────────

@task("comm", "tensor", errors=_errors(NEXT), row=row)
def check_shift(draw: Draw, *, messages: PerRank, rounds: Limit, **options: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: afterwards the tensor of rank r holds what rank r - 1 had. Options: see `_cases`."""
    return _cases("shift", draw, rounds, messages, **options)


@check_shift.judge
def _(seen: Seen) -> Remarks:
    held, t = Held(seen), Traffic(seen)
    yield sums.wrong_values(
        held, "Rank r must hold what rank r - 1 had at the start, and rank 0 what the last rank had.",
        [*ELSEWHERE, _goes_round, sums.rank_added, sums.zeros, _as_it_was("Does the rank before it send? Rank 0 gets "
         "what the last rank has."), _of_another_rank, sums.lost_digits, _added, _part_only])
    yield sums.strayed(held)
    total = seen.size if t.case.length and seen.size > 1 else 0
    yield rule.silence(t, total)
    yield rule.goes(
        t, lambda src, dst: dst == (src + 1) % t.size, lambda m: f"it should send to rank {(m.src + 1) % t.size} only",
        [(None, "the tensors take a detour. In a shift nobody collects: each tensor goes straight to the next rank.")])
    yield rule.whole_tensors(t)
    yield from _numbers(t, total)
    yield rule.rounds(t, seen.facts.limit, [(None, "some rank receives before it sends, so the next one has to wait "
                      "for it. Let every rank send and receive at the same time: comm.exchange(outgoing, next_rank, "
                      "incoming, previous_rank).")], at_most=True) if t.full else None


# ── scatter and gather ───────────────────────────────────────────────────────────────────────────────────────────────

RECV = ("comm.recv returns the number of the rank that has sent. What has come is in the tensor that recv was given: "
        "use that.")
NOT_FILLED = "nothing has come in: was the buffer filled by recv, or by wait() after an irecv, before it was used?"


def _not_a(wanted: str, rank: int, found: Any, none: str) -> Remark:
    """The remark about a result of another type. `none`: the cause if there is none."""
    kind = found["type"] if isinstance(found, dict) and "type" in found else type(found).__name__
    cause = none if found is None else RECV if type(found) is int else f"the type is wrong. Expected is {wanted}."
    if kind == "tuple" and "list" in wanted:
        cause = "a tuple is not a list: list(…) makes one of it."
    elif kind in ("tuple", "list"):
        cause = "are these all chunks? Return the one of this rank: chunks[comm.rank]."
    returned = "None" if found is None else f"a value of type {kind}"
    return Remark(f"rank {rank} returned {returned}; expected {wanted}.", cause=cause)


def _left_alone(seen: Seen) -> Remarks:
    """No tensor may be changed."""
    held = Held(seen)
    for rank in held.wrong_ranks:
        new = held.values[rank] != held.inputs[rank]
        others = [held.inputs[k][new] for k in seen.ranks if k != rank]
        is_received = any(torch.equal(held.values[rank][new], other) for other in others)
        yield untouched(
            f"the result is right, but rank {rank}'s own tensor", seen[rank]["values"], seen.given("values")[rank],
            "what is received has been written into the tensor that the function was given. Receive into a new one: "
            "torch.empty_like(…)." if is_received else "nobody's tensor may change. Work on a copy: tensor.clone().")
    yield sums.strayed(held)


@task("comm", "tensor", "root=0", errors=_errors(OTHERS), row=row)
def check_scatter(draw: Draw, *, messages: PerRank, rounds: Limit, **options: Any) -> Iterator[Case]:
    """`function(comm, tensor, root=0)`: rank r returns chunk r of the root's tensor. Options: see `_cases`."""
    return _cases("scatter", draw, rounds, messages, **options)


@check_scatter.judge
def _(seen: Seen) -> Remarks:
    t, case, lengths, root = Traffic(seen), seen.facts, seen.facts.chunk_lengths, seen.facts.center
    yield nobody_returned([told["returned"] for told in seen.results], "a tensor from each", "Each rank returns its chunk, "
                          "the root, too.")
    for rank in seen.ranks:
        found = seen[rank]["returned"]
        if not isinstance(found, torch.Tensor):
            yield _not_a("a tensor", rank, found, "the root, too, has a chunk: return it." if rank == root else
                         "the others return what they received: return it.")
        right = seen.given("values")[root][case.chunk_slices[rank]]
        yield holds(f"on rank {rank} the returned tensor", found, right, partial(_mistakes_of_scatter, seen, rank),
                    is_wrong=" is wrong. Rank r must return chunk r of the root's tensor.",
                    otherwise="send each chunk of torch.tensor_split(tensor.reshape(-1), comm.world_size) once.")
    yield from _left_alone(seen)
    total = sum(1 for rank, length in enumerate(lengths) if length and rank != root)
    yield rule.silence(t, total)
    yield rule.goes(
        t, lambda src, dst: src == root, lambda m: f"every message should come from the root, rank {root}",
        [PASSED_ON, (None, "only the root has something to send.")])
    size = case.dtype.itemsize
    yield rule.carries(t, lambda m, number: (0, lengths[m.dst]), lambda m, number, wanted:
                       f"rank {m.dst} was sent {m.nbytes:,} bytes; its chunk has {wanted[1] * size:,}.", [
        (rule.is_other_dtype, rule.DTYPE),
        (lambda t, m, number: m.nbytes == case.nbytes, "the whole tensor is sent. That is a broadcast. Cut it first, "
         "and send each rank only its chunk."),
        (lambda t, m, number: _sends_twice(t), "the root sends more than once to the same rank. Rank r gets chunk r, and "
         "nothing else."),
        (None, "are chunks padded to the same length? Receive into a buffer as long as the chunk that comes.")])
    yield from _numbers(t, total)
    yield rule.rounds(t, case.limit, WAITS, at_most=True) if t.full else None


def _mistakes_of_scatter(seen: Seen, rank: int) -> dict[str, Any]:
    case, tensors, found = seen.facts, seen.given("values"), seen[rank]["returned"]
    root, parts, lengths = case.center, case.chunk_slices, ", ".join(map(str, case.chunk_lengths))
    right, chunks = tensors[root][parts[rank]], tensors[root].chunk(seen.size)
    is_other_length = found.dim() == 1 and len(found) != len(right)
    senders = {m.src for m in seen.trace}
    return {
        "the tensor is cut along its first dimension. Make it flat first: tensor.reshape(-1).":
            found if found.dim() == lay_out(tensors[root], case.layout)[1].dim() > 1 else None,
        f"rank {min(senders, default=0)} plays the root, but the root is rank {root}. Compare comm.rank with root.":
            found if len(senders) == 1 and root not in senders else None,
        f"this is chunk {rank} of the rank's own tensor: nothing from the root, rank {root}, was received into it.":
            tensors[rank][parts[rank]] if rank != root else None,
        f"torch.chunk cuts {', '.join(str(len(chunk)) for chunk in chunks)}, where torch.tensor_split cuts {lengths}.":
            dict(enumerate(chunks)).get(rank),
        **{f"this is chunk {k} of rank {source}'s tensor. Rank {rank} gets chunk {rank} of rank {root}'s: the chunk "
           "has the number of the rank that it goes to, whoever is the root.": values[part]
           for source, values in enumerate(tensors) for k, part in enumerate(parts)},
        "this is a whole tensor. Each rank returns its own chunk only.":
            found if found.numel() == case.length != right.numel() else None,
        f"the chunk has {count(found.numel(), 'element')} instead of {right.numel()}. {count(case.length, 'element')} "
        f"on {count(seen.size, 'rank')}: torch.tensor_split cuts {lengths}.": found if is_other_length else None,
        NOT_FILLED: [torch.zeros_like(right), torch.zeros_like(right) / 0],
    }


@task("comm", "tensor", "root=0", errors=_errors(OTHERS), row=row)
def check_gather(draw: Draw, *, messages: PerRank, rounds: Limit, **options: Any) -> Iterator[Case]:
    """`function(comm, tensor, root=0)`: the root returns a list of all tensors, the others None. See `_cases`."""
    return _cases("gather", draw, rounds, messages, **options)


@check_gather.judge
def _(seen: Seen) -> Remarks:
    t, root = Traffic(seen), seen.facts.center
    yield nobody_returned([told["returned"] for told in seen.results], f"a list of tensors from the root, rank {root}",
                          "Its last line on the root must return the list.")
    for rank in seen.ranks:
        found = seen[rank]["returned"]
        if rank == root:
            yield from _list_of_all(seen, root, found)
        elif found is not None:
            yield Remark(f"rank {rank} returned a value of type {type(found).__name__}; expected None, because the "
                         f"root is rank {root}.", cause="only the root collects. Compare comm.rank with root, and let "
                         "the others return nothing.")
    yield from _left_alone(seen)
    total = seen.size - 1 if t.case.length else 0
    yield rule.silence(t, total)
    yield rule.goes(
        t, lambda src, dst: dst == root, lambda m: f"every message should go to the root, rank {root}",
        [PASSED_ON, (None, "every rank sends to the root, and to nobody else: only the root needs the tensors.")])
    yield rule.whole_tensors(t)
    yield from _numbers(t, total)
    yield rule.rounds(t, seen.facts.limit, WAITS, at_most=True) if t.full else None


def _list_of_all(seen: Seen, root: int, found: Any) -> Remarks:
    tensors = [lay_out(values, seen.facts.layout)[1] for values in seen.given("values")]
    if not isinstance(found, list):
        yield _not_a("a list of tensors", root, found, "the last line of the function must return the list." if not root
                     else f"the root is rank {root}. Compare comm.rank with root, not with 0.")
    if len(found) != seen.size:
        yield Remark(f"rank {root} returned a list of {count(len(found), 'tensor')}; expected {seen.size}, one from "
                     "each rank.", cause="the list must contain the root's own tensor too, at index root."
                     if len(found) == seen.size - 1 else "")
    alike = {str(entry) for k, entry in enumerate(found) if k != root}
    is_one = len(alike) == 1 and (seen.size > 2 or str(found[root]) in alike)
    for k, right in enumerate(tensors):
        if type(found[k]) is int:
            yield Remark(f"entry {k} of rank {root}'s list is the number {found[k]}; expected a tensor.", cause=RECV)
        yield holds(f"on rank {root}, entry {k} of the list", found[k], right, {
            "all received entries are the same: one buffer was used for all. Make a new one for each rank.":
                found[k] if is_one and str(found[k]) in alike else None,
            **{f"these are the values of rank {source}. The list is in order of rank, not in order of arrival, and not "
               "with the root first.": values for source, values in enumerate(tensors) if source != k},
            NOT_FILLED: [torch.zeros_like(right), torch.zeros_like(right) / 0],
        }, is_wrong=" is wrong. The root must return a list with the tensor of every rank, in order of rank.",
            otherwise="each entry is one rank's tensor as it is: nothing is added, and nothing is left out.")


# ── broadcast and reduce ─────────────────────────────────────────────────────────────────────────────────────────────

def _tree(seen: Seen, found: int, direct: str, otherwise: str) -> Remarks:
    """The root at the top, and one message, the whole tensor, for each other rank. `found`: the steps it takes."""
    t = Traffic(seen)
    total = t.size - 1 if t.case.length else 0
    yield rule.silence(t, total)
    yield rule.whole_tensors(t)
    yield from _numbers(t, total)
    why: Why = [(_is_direct, direct), CHAIN, (None, f"a tree, but some rank waits where it could send{otherwise}")]
    yield rule.steps(t, t.full, found, seen.facts.limit, why) if t.full else None


@task("comm", "tensor", "root=0", errors=_errors(PARTNER), row=row)
def check_broadcast(draw: Draw, *, steps: Limit, **options: Any) -> Iterator[Case]:
    """`function(comm, tensor, root=0)`: afterwards every tensor holds what the root had. Options: see `_cases`."""
    return _cases("broadcast", draw, steps, **options)


@check_broadcast.judge
def _(seen: Seen) -> Remarks:
    held = Held(seen)
    yield sums.wrong_values(held, "Every rank must hold what the root had at the start.", [
        *ELSEWHERE, _plays_another_root, _root_has_changed, sums.rank_added, sums.zeros,
        _as_it_was("Which rank has to send to it, and when?"), _of_another_rank, sums.lost_digits, _added, _part_only])
    yield sums.strayed(held)
    yield from _tree(
        seen, broadcast_steps(seen.trace), "the root sends to everybody itself, one after the other. Let every rank "
        "that has the tensor help.", ", or sends first to the rank that has least to pass on. In each step, every rank "
        "that has the tensor should send it to one that does not.")


@task("comm", "tensor", "root=0", errors=_errors(PARTNER), row=row)
def check_reduce(draw: Draw, *, messages: PerRank, steps: Limit, **options: Any) -> Iterator[Case]:
    """`function(comm, tensor, root=0)`: afterwards the root's tensor holds the sum. Options: see `_cases`."""
    return _cases("reduce", draw, steps, messages, **options)


def _twice(held: Held) -> str | None:
    if max(held.seen.trace.messages_sent) > 1:
        return sums.counted_twice("A rank that has sent its sum must be left out from then on.")(held)
    return sums.counted_twice("No rank has sent twice. Is the buffer also added in a step in which nothing came?")(held)


@check_reduce.judge
def _(seen: Seen) -> Remarks:
    held = Held(seen)
    yield sums.wrong_values(held, "The root must hold the sum over all ranks.", [
        *ELSEWHERE, _plays_another_root, sums.average, sums.other_reduction, sums.rank_added,
        _as_it_was("Which ranks have to send to it?"),
        _twice, sums.replaced, sums.zeros,
        sums.lacking(sums.way_of), sums.lost_digits, _part_only])
    yield sums.strayed(held)
    yield from _tree(
        seen, reduce_steps(seen.trace), "the root takes in every tensor itself, one after the other. Let others add up "
        "pairs first.", ". In each step, half of the ranks that still take part should hand in their sum.")
# fmt: on
