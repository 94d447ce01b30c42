"""Where ranks that end up in different collective calls have come apart: an earlier call has paired the wrong lines.

    step 1   rank 0 broadcast, line 11  ──►  rank 1 broadcast, line 11
             rank 0 broadcast, line 13  ──►  rank 1 broadcast, line 11      ◄── a line that has met another one before
    step 2   rank 0 broadcast, line 11       rank 1 all_reduce, line 11     ◄── the error

A rank that makes one call too many shows itself like this. Lines that always meet each other, as those of an
`if rank == 0` and its `else`, are no sign of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from distlib.trace import Message
from distlib.worlds.diagnosis import DeadlockError, MessageMismatch, RankError

_OF_CALLS = "same collective call"  # words of an error about ranks that are in different ones


def tell_odd_pair(error: RankError, messages: Iterable[Message]) -> None:
    """Add to an error about different calls where the ranks have come apart, if an earlier message shows it.

    Args:
        messages: of the run, in the order in which they were sent.
    """
    if not isinstance(error, DeadlockError | MessageMismatch) or _OF_CALLS not in str(error):
        return
    odd = _first_odd_pair(messages)
    if odd is not None:
        places = sorted([(odd.src, odd.site.place), (odd.dst, odd.receive_site.place)])
        told = " and ".join(f"at {where} on rank {rank}" for rank, where in places)
        error.args = (f"{error}\nNote: before that, {odd.site.call} was called {told}. Was one of these too many?",)


def _first_odd_pair(messages: Iterable[Message]) -> Message | None:
    """The first message of a call between two lines of which one has met another line of the other rank before."""
    met: dict[tuple[object, ...], str] = {}
    for message in messages:
        call, there, here = message.site.call, message.site.place, message.receive_site.place
        if call is None or message.receive_site.call != call:
            continue
        ranks = (message.src, message.dst, call)
        from_there = met.setdefault((*ranks, "from", there), here)
        to_here = met.setdefault((*ranks, "to", here), there)
        if there != here and (from_there != here or to_here != there):
            return message
    return None
