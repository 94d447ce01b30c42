"""The messages of one all-reduce of one flat tensor, which holds many tensors; and what is said if there are more.

flat tensor of n bytes on N ranks, as a ring     2(N-1) messages from each rank, 2(N-1)·n bytes in all
"""

from __future__ import annotations

from distlib.checks.remark import Remark
from distlib.grading.case import count
from distlib.trace import Trace

SENT_TWICE = "some things are sent more than once, or as a wider dtype."


def messages_of(world_size: int) -> int:
    """How many messages a rank sends in an all-reduce, at most."""
    return 2 * (world_size - 1)


def bytes_of(world_size: int, nbytes: int) -> int:
    """How many bytes all ranks together send in an all-reduce of this many bytes."""
    return messages_of(world_size) * nbytes


def judge_flat_all_reduce(
    trace: Trace, nbytes: int, *, right: str, what: str, too_many_bytes: str = SENT_TWICE, rounds: int | None = None
) -> Remark | None:
    """The remark about more bytes or more messages than it takes; None if there are none.

    Args:
        nbytes: of the flat tensor.
        right: what is right already: "the averages".
        what: what is in the flat tensor: "all gradients".
        too_many_bytes: the usual cause of too many bytes.
        rounds: how many rounds there were, with one such all-reduce in each; None if the exercise knows no rounds.
    """
    due, each = rounds or 1, "" if rounds is None else " in each round"
    messages, nbytes_due = messages_of(trace.world_size), bytes_of(trace.world_size, nbytes) * due
    if sum(trace.bytes_sent) > nbytes_due:
        return Remark(
            f"{right} are right, but {sum(trace.bytes_sent):,} bytes were sent. One all-reduce of {what}{each}, "
            f"{nbytes:,} bytes, sends {nbytes_due:,} in all.",
            cause=too_many_bytes,
        )
    for rank, sent in enumerate(trace.messages_sent):
        if sent > messages * due:
            return Remark(
                f"{right} are right, but rank {rank} sent {count(sent, 'message')}. One all-reduce of {what} together "
                f"takes {messages}{each}.",
                cause="each parameter has an all-reduce of its own, and each pays for the latency of its messages. Put "
                f"{what} into one flat tensor first.",
            )
    return None
