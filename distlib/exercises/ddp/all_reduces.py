"""Rules about the all-reduces of flat buffers: how many there are, and of how many bytes each.

An all-reduce of n bytes on N ranks, as a ring: 2(N-1) messages from each rank, 2(N-1)·n bytes in all. So the messages
themselves say how large each buffer was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from distlib.checks.remark import Remark
from distlib.checks.seen import Seen
from distlib.checks.words import count, dtype_name, enumerated, listed
from distlib.trace import Message

MASTER = "everything goes through rank {hub}. In a ring all ranks send the same. all_reduce(comm, tensor) is one."
ANOTHER_WAY = "one all_reduce(comm, tensor) for each buffer is all it takes, with its default algorithm, a ring."
Mistakes = Mapping[str, Sequence[Sequence[int]]]  # from the words for a mistake to bytes of the all-reduces it makes


def by_sender(seen: Seen) -> list[list[Message]]:
    """All messages, by the rank that sent them."""
    return [[message for message in seen.trace if message.src == rank] for rank in seen.ranks]


def reduced_bytes(sent: Sequence[Sequence[Message]]) -> list[int] | None:
    """The bytes of each all-reduce, in order. None if the messages are not those of rings.

    Args:
        sent: by rank, its messages in their order; at least 2 ranks.
    """
    ring, counts = 2 * (len(sent) - 1), {len(messages) for messages in sent}
    if len(counts) > 1 or max(counts) % ring:
        return None
    starts = range(0, max(counts), ring)
    return [sum(m.nbytes for messages in sent for m in messages[start : start + ring]) // ring for start in starts]


def all_reduces(
    sent: Sequence[Sequence[Message]], expected: Sequence[int], dtype: torch.dtype, *, what: str, before: str,
    mistakes: Mistakes, otherwise: str, details: Sequence[str] = (),
) -> Remark | None:  # fmt: skip
    """All ranks together must have made all-reduces of these sizes, in this order.

    Args:
        sent: as of `reduced_bytes`.
        expected: the bytes of each all-reduce.
        dtype: of the buffers.
        what: is reduced: "gradients".
        before: what a remark begins with: "the averages are right, but ".
        mistakes: the sizes that usual mistakes make.
        otherwise: the cause where none of them fits.
        details: of a remark about sizes.
    """
    size, found = len(sent), reduced_bytes(sent)
    other = next((m for messages in sent for m in messages if m.dtype != dtype_name(dtype)), None)
    if other:
        seen = f"{before}rank {other.src} sends {what} as {other.dtype}; they are {dtype_name(dtype)}."
        return Remark(seen, cause="the flat buffer has the dtype of what it holds, and travels in it.")
    if found == list(expected):
        return None
    if found is not None:
        causes = [words for words, sizes in mistakes.items() if found in map(list, sizes)] or [otherwise]
        cause = " Or: ".join(causes[:2])  # sizes can't always tell one mistake from another
        return Remark(f"{before}{_shown(found, what)}; expected {_one_each(expected)}.", tuple(details), cause)
    due = 2 * (size - 1) * len(expected)
    rank = next((rank for rank, messages in enumerate(sent) if len(messages) != due), 0)
    many = f"{len(expected)} all-reduces take" if len(expected) > 1 else "one all-reduce takes"
    return Remark(
        f"{before}rank {rank} sent {count(len(sent[rank]), 'message')} of {what}; {many} {due} from each rank.",
        (f"messages sent by each rank: {listed(map(len, sent))}",),
        (MASTER.format(hub=hub) if (hub := _hub(sent)) is not None else ANOTHER_WAY),
    )


def _hub(sent: Sequence[Sequence[Message]]) -> int | None:
    """The rank that every message goes to or comes from, if there are at least 3 ranks."""
    ends = [{m.src, m.dst} for messages in sent for m in messages]
    return min(set.intersection(*ends), default=None) if ends and len(sent) > 2 else None


def _shown(found: Sequence[int], what: str) -> str:
    if not found:
        return f"no {what} are sent"
    many = "is an all-reduce" if len(found) == 1 else f"are {len(found)} all-reduces"
    return f"there {many} of {what}, of {_bytes(found)}"


def _one_each(expected: Sequence[int]) -> str:
    number = len(expected)
    return f"one of {_bytes(expected)}" if number == 1 else f"{number}, of {_bytes(expected)}, in this order"


def _bytes(sizes: Sequence[int]) -> str:
    if len(set(sizes)) == 1 and len(sizes) > 1:
        return f"{count(sizes[0], 'byte')} each"
    return f"{enumerated(sizes)} bytes" if len(sizes) > 1 else count(sizes[0], "byte")
