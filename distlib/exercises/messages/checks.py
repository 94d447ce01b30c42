"""Exercises 01 and 01b: shift, scatter, gather, broadcast, reduce. What every rank must end with, and every message."""

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
from distlib.checks.formatting import count, dtype_name
from distlib.checks.plays.tensor import lay_out
from distlib.checks.remark import Remark
from distlib.checks.rules import sent_messages as rule, sums
from distlib.checks.rules.returns import nobody_returned
from distlib.checks.rules.sent_messages import SentMessages, Why
from distlib.checks.rules.steps import broadcast_steps, reduce_steps
from distlib.checks.rules.sums import LeftInTensors
from distlib.checks.rules.values import compared, holds
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.checks.tensor_cases import TensorCase, row, tensor_cases
from distlib.trace import Message

say = Sentences(__file__)
Limit = Callable[[int], int]
PerRank = Callable[[int], Sequence[int]]


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


def _errors(peers: str) -> Callable[[Seen], Signs]:
    """`peers`: the entry for a message to a rank that does not exist, or to the sender itself."""

    def signs(seen: Seen) -> Signs:
        text, peer = str(seen.error), _wrong_peer(seen, peers)
        is_shift, is_tree = peers == "peers_of_shift", peers == "peers_of_tree"
        is_odd = seen.size & (seen.size - 1)
        return [
            ("but the ranks are", f"{peer} {say('counted')}" if peers == "peers_of_root" and seen.size > 1 else peer),
            (" itself.", peer),
            ("no other rank here", alone(text)),
            *_ranks_out_of_step(seen),
            (same_partner(text) if is_shift and seen.size > 2 else "", say("same_neighbor")),
            ("Both need the same number of elements", _lengths(seen.facts)),
            ("float32" if dtype_name(seen.facts.dtype) != "float32" else "", say("float32")),
            ("0-d", say("any_shape")),
            ("at least a 1-dimensional", say("any_shape")),
            ("share memory", say("shared")),
            ("expected a torch.Tensor to send, got int", say("number_sent")),
            ("index out of range", say("fewer_chunks")),
            ("deadlock" if is_tree and is_odd else "", say("odd_deadlock")),
        ]

    return signs


def _wrong_peer(seen: Seen, peers: str) -> str:
    """The cause where a rank sends to itself, or to one that does not exist."""
    case, text, has_root = seen.facts, str(seen.error), peers == "peers_of_root"
    if seen.size == 1:
        return alone(text)
    itself = re.search(r"rank (\d+) wants to \w+ \w+ itself", text)
    if has_root and itself and int(itself[1]) != case.center:
        return say("one_of_the_others", root=case.root, rank=itself[1])
    return say(peers)


def _ranks_out_of_step(seen: Seen) -> Signs:
    """Ranks of a tree that wait, or have returned, where they have no part, or still have one."""
    sent, has_it = {m.src for m in seen.trace}, {seen.facts.center, *(m.dst for m in seen.trace)}
    if seen.facts.collective == "reduce":
        return [(f"rank {rank} waits to", say("sent_before", rank=rank)) for rank in sorted(sent)]
    if seen.facts.collective != "broadcast":
        return []
    without = [rank for rank in seen.ranks if rank not in has_it]
    return [
        *((f"rank {rank} waits to receive", say("has_it", rank=rank)) for rank in sorted(has_it)),
        *((f"rank {rank} has already returned", say("left_out", rank=rank)) for rank in without),
    ]


def _lengths(case: Pattern) -> str:
    """What to know about lengths where a buffer does not fit."""
    if case.collective != "scatter":
        return say("whole_length", elements=count(case.length, "element"))
    return say("chunk_lengths", lengths=_written(case.chunk_lengths))


def _written(lengths: Sequence[int]) -> str:
    return ", ".join(map(str, lengths))


# ── what is in the tensors ───────────────────────────────────────────────────────────────────────────────────────────


def _as_it_was(unchanged: str) -> sums.Cause:
    """A tensor is as it was. `unchanged`: the entry for that, if no message has come."""

    def cause(held: LeftInTensors) -> str | None:
        rank = held.first[0]
        if rank not in held.unchanged:
            return None
        if any(message.dst == rank for message in SentMessages(held.seen).full):
            return f"{say('message_unused')} {sums.REBOUND}"
        return f"{say(unchanged)}{sums.steps_of(held)}"

    return cause


def _plays_another_root(held: LeftInTensors) -> str | None:
    root, total = held.case.root, torch.stack(held.inputs).sum(0)
    for rank in range(held.size) if root else ():
        right, ranks = (total, [rank]) if held.case.collective == "reduce" else (held.inputs[rank], range(held.size))
        if rank != root and all(torch.equal(held.values[other], right) for other in ranks):
            return say("another_root", rank=rank, root=root)
    return None


def _root_has_changed(held: LeftInTensors) -> str | None:
    root = held.case.root or 0
    return say("root_has_changed", root=root) if root in held.wrong_ranks else None


def _goes_round(held: LeftInTensors) -> str | None:
    if held.seen.trace.rounds < held.size or not all(torch.equal(values, held.inputs[0]) for values in held.values):
        return None
    return say("goes_round")


def _added(held: LeftInTensors) -> str | None:
    return say("added") if sum(held.inside_first or ()) > 1 else None


def _of_another_rank(held: LeftInTensors) -> str | None:
    rank = held.first[0]
    source = next((k for k, values in enumerate(held.inputs) if torch.equal(held.values[rank], values)), None)
    if source is None:
        return None
    if held.case.collective == "broadcast":
        return say("not_of_the_root", source=source, root=held.case.root)
    is_sent_on = any((m.src, m.dst) == (rank, (rank + 1) % held.size) for m in held.seen.trace)
    is_wrong_way = source == (rank + 1) % held.size and not is_sent_on
    return say("wrong_way" if is_wrong_way else "not_of_the_previous", source=source)


def _part_only(held: LeftInTensors) -> str | None:
    rank, length = held.first[0], held.case.length
    right = int((held.values[rank] == held.targets[rank]).sum())
    if held.case.dtype == torch.bool or right < length / 2:
        return None
    return say("part_only", right=count(right, "element"), length=length)


# ── the messages ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _sends_twice(t: SentMessages, **more: Any) -> bool:
    return max(Counter((m.src, m.dst) for m in t.full).values()) > 1


def _is_direct(t: SentMessages, **more: Any) -> bool:
    return all(t.seen.facts.center in (m.src, m.dst) for m in t.full)


def _is_passed_on(t: SentMessages) -> bool:
    return t.trace.rounds > 1 and not _is_direct(t)


MANY: Why = [
    (lambda t, found, expected: found > expected and _sends_twice(t), say("sends_twice")),
    (lambda t, found, expected: found > expected, say("not_needed")),
]


def _numbers(t: SentMessages, total: int) -> Remarks:
    """How many messages there are, of all ranks and of each."""
    case: Pattern = t.seen.facts
    yield rule.number_of_messages(t, total, MANY)
    if case.messages is not None:
        expected = [case.messages[(rank - case.center) % t.size] for rank in range(t.size)]
        yield rule.messages_by_rank(t, expected, [], messages=t.full)


def _rounds(t: SentMessages, why: Why) -> Remarks:
    """At most as many rounds as the test cell asks for."""
    if t.full:
        yield rule.rounds(t, t.seen.facts.limit, why, at_most=True)


# ── shift ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@task("comm", "tensor", errors=_errors("peers_of_shift"), row=row)
def check_shift(draw: Draw, *, messages: PerRank, rounds: Limit, **options: Any) -> Iterator[Case]:
    """`function(comm, tensor)`: afterwards the tensor of rank r holds what rank r - 1 had. Options: see `_cases`."""
    return _cases("shift", draw, rounds, messages, **options)


@check_shift.judge
def _(seen: Seen) -> Remarks:
    held, t = LeftInTensors(seen), SentMessages(seen)
    causes: list[sums.Cause] = [
        *sums.WRITTEN_ELSEWHERE,
        _goes_round,
        sums.rank_added,
        sums.zeros,
        _as_it_was("shift_unchanged"),
        _of_another_rank,
        sums.lost_digits,
        _added,
        _part_only,
    ]
    yield sums.wrong_values(held, say("shift_result"), causes)
    yield sums.strayed(held)
    total = seen.size if t.case.length and seen.size > 1 else 0
    yield rule.silence(t, total)
    yield rule.goes(t, partial(_is_next, t.size), partial(_to_the_next, t.size), [(None, say("detour"))])
    yield rule.whole_tensors(t)
    yield from _numbers(t, total)
    yield from _rounds(t, [(None, say("receives_first"))])


def _is_next(size: int, src: int, dst: int) -> bool:
    return dst == (src + 1) % size


def _to_the_next(size: int, m: Message) -> str:
    return say("to_the_next", next_rank=(m.src + 1) % size)


# ── scatter and gather ───────────────────────────────────────────────────────────────────────────────────────────────


def _not_a(wanted: str, rank: int, found: Any, none: str) -> Remark:
    """The remark about a result of another type. `none`: the cause if there is none."""
    if found is None:
        return say.remark("returned_none", rank=rank, wanted=wanted, cause=none)
    kind = found["type"] if isinstance(found, dict) and "type" in found else type(found).__name__
    if kind == "tuple" and "list" in wanted:
        cause = say("tuple_for_list")
    elif kind in ("tuple", "list"):
        cause = say("all_chunks")
    else:
        cause = say("what_recv_returns") if type(found) is int else say("other_type", wanted=wanted)
    return say.remark("returned_type", rank=rank, kind=kind, wanted=wanted, cause=cause)


def _left_alone(seen: Seen) -> Remarks:
    """No tensor may be changed."""
    held = LeftInTensors(seen)
    for rank in held.wrong_ranks:
        new = held.values[rank] != held.inputs[rank]
        others = [held.inputs[k][new] for k in seen.ranks if k != rank]
        is_received = any(torch.equal(held.values[rank][new], other) for other in others)
        both = compared(seen.given("values")[rank], seen[rank]["values"])
        yield say.remark("own_received_into" if is_received else "own_changed", *both, rank=rank)
    yield sums.strayed(held)


@task("comm", "tensor", "root=0", errors=_errors("peers_of_root"), row=row)
def check_scatter(draw: Draw, *, messages: PerRank, rounds: Limit, **options: Any) -> Iterator[Case]:
    """`function(comm, tensor, root=0)`: rank r returns chunk r of the root's tensor. Options: see `_cases`."""
    return _cases("scatter", draw, rounds, messages, **options)


@check_scatter.judge
def _(seen: Seen) -> Remarks:
    t, case, root = SentMessages(seen), seen.facts, seen.facts.center
    yield nobody_returned([told["returned"] for told in seen.results], say("tensor_from_each"), say("return_chunk"))
    for rank in seen.ranks:
        yield from _own_chunk(seen, rank, seen[rank]["returned"])
    yield from _left_alone(seen)
    total = sum(1 for rank, length in enumerate(case.chunk_lengths) if length and rank != root)
    yield rule.silence(t, total)
    why: Why = [(_is_passed_on, say("passed_on")), (None, say("root_alone_sends"))]
    yield rule.goes(t, lambda src, dst: src == root, lambda m: say("from_the_root", root=root), why)
    yield _one_chunk_each(t, case)
    yield from _numbers(t, total)
    yield from _rounds(t, [])


def _own_chunk(seen: Seen, rank: int, found: Any) -> Remarks:
    case, root = seen.facts, seen.facts.center
    if not isinstance(found, torch.Tensor):
        yield _not_a("a tensor", rank, found, say("root_returns_chunk" if rank == root else "others_return_chunk"))
    right = seen.given("values")[root][case.chunk_slices[rank]]
    mistakes = partial(_mistakes_of_scatter, seen, rank)
    what, otherwise = say("wrong_chunk", rank=rank), say("each_chunk_once")
    yield holds(what, found, right, mistakes, is_wrong="", otherwise=otherwise)


def _mistakes_of_scatter(seen: Seen, rank: int) -> dict[str, Any]:
    case, tensors, found = seen.facts, seen.given("values"), seen[rank]["returned"]
    root, parts, lengths = case.center, case.chunk_slices, _written(case.chunk_lengths)
    right, chunks, senders = tensors[root][parts[rank]], tensors[root].chunk(seen.size), {m.src for m in seen.trace}
    is_in_rows = found.dim() == lay_out(tensors[root], case.layout)[1].dim() > 1
    is_whole = found.numel() == case.length != right.numel()
    is_other_length = found.dim() == 1 and len(found) != len(right)
    cut = {"lengths": lengths, "length": count(case.length, "element"), "size": count(seen.size, "rank")}
    return {
        say("cut_in_rows"): found if is_in_rows else None,
        say("plays_the_root", rank=min(senders, default=0), root=root): (
            found if len(senders) == 1 and root not in senders else None
        ),
        say("nothing_received", rank=rank, root=root): tensors[rank][parts[rank]] if rank != root else None,
        say("torch_chunk", found=_written([len(chunk) for chunk in chunks]), lengths=lengths): (
            dict(enumerate(chunks)).get(rank)
        ),
        **_other_chunks(seen, rank),
        say("whole_tensor"): found if is_whole else None,
        say("other_length", found=count(found.numel(), "element"), right=right.numel(), **cut): (
            found if is_other_length else None
        ),
        say("not_filled"): [torch.zeros_like(right), torch.zeros_like(right) / 0],
    }


def _other_chunks(seen: Seen, rank: int) -> dict[str, torch.Tensor]:
    """The chunks of all ranks' tensors."""
    chunks = [(source, k) for source in seen.ranks for k in seen.ranks]
    tensors, parts = seen.given("values"), seen.facts.chunk_slices
    return {
        say("other_chunk", k=k, source=source, rank=rank, root=seen.facts.center): tensors[source][parts[k]]
        for source, k in chunks
    }


def _one_chunk_each(t: SentMessages, case: Pattern) -> Remark | None:
    """Each message carries the chunk of the rank that it goes to."""
    lengths, size = case.chunk_lengths, case.dtype.itemsize

    def seen(m: Message, number: int, wanted: tuple[int, int]) -> str:
        return say("bytes_of_chunk", rank=m.dst, nbytes=m.nbytes, wanted=wanted[1] * size)

    why: Why = [
        (rule.is_other_dtype, rule.DTYPE),
        (lambda t, m, number: m.nbytes == case.nbytes, say("whole_tensor_sent")),
        (lambda t, m, number: t.is_padded, say("padded")),
        (None, say("more_than_its_chunk")),
    ]
    return rule.carries(t, lambda m, number: (0, lengths[m.dst]), seen, why)


@task("comm", "tensor", "root=0", errors=_errors("peers_of_root"), row=row)
def check_gather(draw: Draw, *, messages: PerRank, rounds: Limit, **options: Any) -> Iterator[Case]:
    """`function(comm, tensor, root=0)`: the root returns a list of all tensors, the others None. See `_cases`."""
    return _cases("gather", draw, rounds, messages, **options)


@check_gather.judge
def _(seen: Seen) -> Remarks:
    t, root = SentMessages(seen), seen.facts.center
    returned = [told["returned"] for told in seen.results]
    if not root:
        yield nobody_returned(returned, say("list_from_root", root=root), say("return_list"))
    for rank, found in enumerate(returned):
        if rank == root:
            yield from _list_of_all(seen, root, found)
        elif found is not None:
            yield say.remark("not_the_root", rank=rank, kind=type(found).__name__, root=root)
    yield from _left_alone(seen)
    total = seen.size - 1 if t.case.length else 0
    yield rule.silence(t, total)
    why: Why = [(_is_passed_on, say("passed_on")), (None, say("root_alone_needs"))]
    yield rule.goes(t, lambda src, dst: dst == root, lambda m: say("to_the_root", root=root), why)
    yield rule.whole_tensors(t)
    yield from _numbers(t, total)
    yield from _rounds(t, [])


def _list_of_all(seen: Seen, root: int, found: Any) -> Remarks:
    tensors = [lay_out(values, seen.facts.layout)[1] for values in seen.given("values")]
    if not isinstance(found, list):
        none = say("not_rank_0", root=root) if root else say("return_list")
        yield _not_a("a list of tensors", root, found, none)
    if len(found) != seen.size:
        name = "own_not_in_list" if len(found) == seen.size - 1 else "other_number_in_list"
        yield say.remark(name, root=root, found=count(len(found), "tensor"), size=seen.size)
    alike = {str(entry) for k, entry in enumerate(found) if k != root}
    is_one = len(alike) == 1 and (seen.size > 2 or str(found[root]) in alike)
    for k, right in enumerate(tensors):
        if type(found[k]) is int:
            yield say.remark("number_in_list", k=k, root=root, number=found[k])
        mistakes = {
            say("one_buffer"): found[k] if is_one and str(found[k]) in alike else None,
            **{say("other_order", source=source): values for source, values in enumerate(tensors) if source != k},
            say("not_filled"): [torch.zeros_like(right), torch.zeros_like(right) / 0],
        }
        what, otherwise = say("wrong_entry", root=root, k=k), say("tensors_as_they_are")
        yield holds(what, found[k], right, mistakes, is_wrong="", otherwise=otherwise)


# ── broadcast and reduce ─────────────────────────────────────────────────────────────────────────────────────────────


def _tree(seen: Seen, found: int, direct: str, slow: str) -> Remarks:
    """The root at the top, and one message, the whole tensor, for each other rank.

    Args:
        found: the steps it takes.
        direct, slow: the cause of too many where the root does all by itself, and where it is a tree.
    """
    t = SentMessages(seen)
    total = t.size - 1 if t.case.length else 0
    yield rule.silence(t, total)
    yield rule.whole_tensors(t)
    yield from _numbers(t, total)
    if t.full:
        why: Why = [(_is_direct, direct), (_is_chain, say("chain")), (None, slow)]
        yield rule.steps(t, t.full, found, seen.facts.limit, why)


def _is_chain(t: SentMessages, messages: Sequence[Message]) -> bool:
    return t.trace.rounds == t.size - 1


@task("comm", "tensor", "root=0", errors=_errors("peers_of_tree"), row=row)
def check_broadcast(draw: Draw, *, steps: Limit, **options: Any) -> Iterator[Case]:
    """`function(comm, tensor, root=0)`: afterwards every tensor holds what the root had. Options: see `_cases`."""
    return _cases("broadcast", draw, steps, **options)


@check_broadcast.judge
def _(seen: Seen) -> Remarks:
    held = LeftInTensors(seen)
    causes: list[sums.Cause] = [
        *sums.WRITTEN_ELSEWHERE,
        _plays_another_root,
        _root_has_changed,
        sums.rank_added,
        sums.zeros,
        _as_it_was("broadcast_unchanged"),
        _of_another_rank,
        sums.lost_digits,
        _added,
        _part_only,
    ]
    yield sums.wrong_values(held, say("broadcast_result"), causes)
    yield sums.strayed(held)
    yield from _tree(seen, broadcast_steps(seen.trace), say("broadcast_direct"), say("broadcast_slow"))


@task("comm", "tensor", "root=0", errors=_errors("peers_of_tree"), row=row)
def check_reduce(draw: Draw, *, messages: PerRank, steps: Limit, **options: Any) -> Iterator[Case]:
    """`function(comm, tensor, root=0)`: afterwards the root's tensor holds the sum. Options: see `_cases`."""
    return _cases("reduce", draw, steps, messages, **options)


@check_reduce.judge
def _(seen: Seen) -> Remarks:
    held = LeftInTensors(seen)
    causes: list[sums.Cause] = [
        *sums.WRITTEN_ELSEWHERE,
        _plays_another_root,
        sums.average,
        sums.other_reduction,
        sums.rank_added,
        _as_it_was("reduce_unchanged"),
        _twice,
        sums.replaced,
        sums.zeros,
        sums.lacking(sums.way_of),
        sums.lost_digits,
        _part_only,
    ]
    yield sums.wrong_values(held, say("reduce_result"), causes)
    yield sums.strayed(held)
    yield from _tree(seen, reduce_steps(seen.trace), say("reduce_direct"), say("reduce_slow"))


def _twice(held: LeftInTensors) -> str | None:
    has_sent_twice = max(held.seen.trace.messages_sent) > 1
    return sums.counted_twice(say("sent_twice" if has_sent_twice else "added_twice"))(held)
