"""Rules about rings of chunks: the two halves, and the values that usual mistakes in the numbers of chunks leave.

    step s of a half    rank r sends chunk r + first - turn·s to rank r + way
                        and puts what comes in to chunk r + first - turn·(s + 1) + shift

In a right half `turn` is `way`, and `shift` is 0. A mistake is another such half, played on the values of the case; so
is one that sends the chunk of step 0 in every step.
What it leaves is compared with what the ranks hold, all of them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from distlib.checks.formatting import count, listed
from distlib.checks.rules.sent_messages import SentMessages
from distlib.checks.rules.sums import DECODED_RANKS, Cause, LeftInTensors, cut
from distlib.checks.sentences import Sentences
from distlib.checks.tensor_cases import TensorCase
from distlib.trace import Message

say = Sentences(__file__)
Chunks = list[list[torch.Tensor]]  # by rank, by number


# ── the messages of the halves ───────────────────────────────────────────────────────────────────────────────────────


def halves(t: SentMessages, number: int) -> Iterator[list[Message]]:
    """The messages that are not empty, half by half: a rank sends world_size - 1 of them in each.

    Where chunks are empty, the first half of a rank ends where it first sends to another rank.
    """
    sent: Counter[int] = Counter()
    found: list[list[Message]] = [[] for _ in range(number)]
    for m in t.full:
        turned = {other.dst for half in found for other in half if other.src == m.src} - {m.dst}
        half = sent[m.src] // max(1, t.size - 1) if t.is_exact else int(bool(turned))
        found[min(half, number - 1)].append(m)
        sent[m.src] += 1
    yield from found


def bytes_of_torch_chunk(case: TensorCase) -> set[int]:
    """The sizes of the chunks that torch.chunk cuts."""
    return {length * case.dtype.itemsize for length in _lengths_of_torch_chunk(case)}


def _lengths_of_torch_chunk(case: TensorCase) -> list[int]:
    return [len(chunk) for chunk in torch.empty(case.length).chunk(case.world_size)] if case.length else []


# ── usual causes: chunks of other lengths, and too few steps ─────────────────────────────────────────────────────────


def other_chunks(held: LeftInTensors) -> str | None:
    """Right, if the tensor is cut in another way."""
    size, whole = held.size, held.case.length
    if not whole % size or whole < size:
        return None
    if _right_if_cut(held, [whole // size] * size):
        return f"{cut(held, whole // size)} {say('equal_chunks', length=whole // size)}"
    lengths = _lengths_of_torch_chunk(held.case)
    if lengths == held.case.chunk_lengths or not _right_if_cut(held, lengths):
        return None
    return say("torch_chunk", lengths=listed(lengths), right=listed(held.case.chunk_lengths))


def _right_if_cut(held: LeftInTensors, lengths: Sequence[int]) -> bool:
    ends = list(itertools.accumulate(lengths))
    parts = [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    if len(parts) < held.size:
        return False
    for rank, values in enumerate(held.values):
        for k, part in enumerate(parts):
            right = held.inputs[k] if held.case.collective == "all_gather" else held.targets[rank]
            if k in held.judged(rank) and not torch.equal(values[part], right[part]):
                return False
    return True


def stopped_early(number: int) -> Cause:
    """Every rank has sent fewer messages than it has steps. `number`: of halves."""

    def cause(held: LeftInTensors) -> str | None:
        sent, steps = set(held.seen.trace.messages_sent), number * (held.size - 1)
        if len(sent) > 1 or not 0 < max(sent) < steps or held.case.length < held.size:
            return None
        return say("stopped_early", messages=count(max(sent), "message"), steps=count(steps, "step"))

    return cause


def full_sum_elsewhere(held: LeftInTensors) -> str | None:
    """Each rank has one full sum, all of them in a chunk that is off by the same number."""
    size = held.size
    for shift in range(1, size):
        if all(held.is_right(rank, (rank + shift) % size) for rank in range(size)):
            is_lower = shift <= size // 2
            distance = count(shift if is_lower else size - shift, "place")
            where = {"on_0": shift, "on_1": (1 + shift) % size, "distance": distance}
            return say("begin_lower" if is_lower else "begin_higher", **where)
    return None


# ── usual causes: wrong numbers of chunks ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Half:
    """A half of a ring, right or not.

    Attributes: as above.
        adds: whether what comes in is added, or replaces.
        stuck: whether each rank sends the same chunk in every step.
    """

    way: int
    first: int
    adds: bool
    turn: int
    shift: int = 0
    stuck: bool = False

    def play(self, chunks: Chunks) -> Chunks:
        """What the ranks hold after it; nothing if a chunk is put to one of another length."""
        size = len(chunks)
        now = [list(own) for own in chunks]
        for step in range(size - 1):
            gone = 0 if self.stuck else step
            sent = [now[rank][(rank + self.first - self.turn * gone) % size] for rank in range(size)]
            for rank in range(size):
                k = (rank + self.first - self.turn * (step + 1) + self.shift) % size
                came = sent[(rank - self.way) % size]
                if len(came) != len(now[rank][k]):
                    return []
                now[rank][k] = now[rank][k] + came if self.adds else came
        return now

    def ends_with(self, size: int) -> int:
        """The number of the chunk that rank 0 receives last."""
        return (self.first - self.way * (size - 1)) % size


def mistaken_numbers(held: LeftInTensors) -> str | None:
    """The values are those of a ring with one mistake in the numbers of its chunks."""
    size, collective, ways = held.size, held.case.collective, _ways(held)
    is_small = 2 <= size <= DECODED_RANKS and held.case.length >= size
    if not is_small or len(ways) < (2 if collective == "all_reduce" else 1):
        return None
    start: Chunks = [[values[part] for part in held.pieces] for values in held.inputs]
    if collective == "all_gather":
        return next(
            (_begins_elsewhere(half) for half in _halves_of(size, False, ways[0]) if _holds(held, half.play(start))),
            None,
        )
    for first in sorted(_halves_of(size, True, ways[0]), key=lambda half: bool(_mistake(half))):
        summed = first.play(start)
        if collective == "reduce_scatter":
            if _holds(held, summed):
                return _mistake(first)
            continue
        for second in _halves_of(size, False, ways[1]) if summed else ():
            if not (_mistake(first) and _mistake(second)) and _holds(held, second.play(summed)):
                return _mistake(first) or _begins_elsewhere(second, first.ends_with(size))
    return None


def _ways(held: LeftInTensors) -> list[int]:
    """In which direction rank 0 sends in each half: 1 for to the next rank, -1 for to the previous one."""
    number = 2 if held.case.collective == "all_reduce" else 1
    first = [next((m.dst for m in half if not m.src), 0) for half in halves(SentMessages(held.seen), number)]
    known = {1: 1, held.size - 1: 1 if held.size == 2 else -1}
    return [known[dst] for dst in first if dst in known]


def _halves_of(size: int, adds: bool, way: int) -> Iterator[Half]:
    """All halves that go this way, with one mistake at most."""
    for first in range(size):
        yield from (Half(way, first, adds, way, shift) for shift in range(size))
        yield Half(way, first, adds, -way)
        yield Half(way, first, adds, way, stuck=True)
        yield Half(way, first, adds, 0, -way, stuck=True)


def _mistake(half: Half) -> str | None:
    """The words for what is wrong in a half by itself."""
    if half.stuck:
        return say("stuck_adding" if half.adds else "stuck")
    if half.turn == half.way and not half.shift:
        return None
    if half.turn != half.way:
        return say("other_way_round")
    return say("added_elsewhere" if half.adds else "written_elsewhere")


def _begins_elsewhere(half: Half, complete: int | None = None) -> str | None:
    """The words for what is wrong in a second half. `complete`: the chunk that is full on rank 0; None: its own."""
    if _mistake(half) or half.first == (complete or 0):
        return _mistake(half)
    if complete is None:
        return say("not_its_own", first=half.first)
    return say("not_completed", first=half.first, complete=complete)


def _holds(held: LeftInTensors, chunks: Chunks) -> bool:
    return bool(chunks) and all(map(torch.equal, map(torch.cat, chunks), held.values))
