"""Rules about the all-reduces of flat buffers: how many there are, and of how many bytes each.

An all-reduce of n bytes on N ranks, as a ring: 2(N-1) messages from each rank, 2(N-1)·n bytes in all. So the messages
themselves say how large each buffer was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from distlib.checks.formatting import count, dtype_name, enumerated, listed
from distlib.checks.remark import Remark
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.trace import Message

say = Sentences(__file__)
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
    sent: Sequence[Sequence[Message]],
    expected: Sequence[int],
    dtype: torch.dtype,
    *,
    what: str,
    before: str,
    mistakes: Mistakes,
    otherwise: str,
    details: Sequence[str] = (),
) -> Remark | None:
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
    found, texts = reduced_bytes(sent), {"before": before, "what": what}
    other = next((m for messages in sent for m in messages if m.dtype != dtype_name(dtype)), None)
    if other:
        return say.remark("other_dtype", rank=other.src, found=other.dtype, dtype=dtype_name(dtype), **texts)
    if found == list(expected):
        return None
    if found is None:
        return _no_rings(sent, len(expected), texts)
    causes = [words for words, sizes in mistakes.items() if found in map(list, sizes)] or [otherwise]
    texts |= {"expected": _one_each(expected), "cause": " Or: ".join(causes[:2])}  # sizes can't always tell them apart
    if len(found) == 1:
        return say.remark("one_sent", *details, **texts, sizes=_bytes(found))
    return say.remark("several_sent", *details, **texts, number=len(found), sizes=_bytes(found))


def _no_rings(sent: Sequence[Sequence[Message]], number: int, texts: Mapping[str, str]) -> Remark:
    """The remark about messages that are not those of rings. `number`: of all-reduces that were expected."""
    due = 2 * (len(sent) - 1) * number
    rank = next((rank for rank, messages in enumerate(sent) if len(messages) != due), 0)
    counts = say("sent_by_each", counts=listed(map(len, sent)))
    facts = {"rank": rank, "messages": count(len(sent[rank]), "message"), "due": due, "cause": say("another_way")}
    if number > 1:
        return say.remark("no_rings", counts, **texts, **facts, number=number)
    return say.remark("no_ring", counts, **texts, **facts)


def _one_each(expected: Sequence[int]) -> str:
    number = len(expected)
    return f"one of {_bytes(expected)}" if number == 1 else f"{number}, of {_bytes(expected)}, in this order"


def _bytes(sizes: Sequence[int]) -> str:
    if len(set(sizes)) == 1 and len(sizes) > 1:
        return f"{count(sizes[0], 'byte')} each"
    return f"{enumerated(sizes)} bytes" if len(sizes) > 1 else count(sizes[0], "byte")
