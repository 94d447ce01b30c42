"""Whose messages count, and how a message is described: what the exercises that have not moved share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from distlib.checks.remark import Remark
from distlib.grading.case import count
from distlib.grading.specification import EXECUTED_TEXT
from distlib.trace import Message, Trace

_LIBRARY_ITSELF = "distlib.grading.rank_side"  # then no line of the student's stands between us and the library


# ── who sent ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def explain_foreign(function: str, foreign: Sequence[Message], total: int) -> Remark:
    """The remark about messages that no line of the student's own sent; `total` is how many there were in all."""
    first = foreign[0]
    if first.site.file == EXECUTED_TEXT:
        return Remark(
            f"{len(foreign)} of {count(total, 'message')} were sent by code that was made from a text (exec).",
            cause=f"write {function} as lines of this notebook.",
        )
    if _LIBRARY_ITSELF in (first.site.via or ""):
        who = f"{function} is a function of the library itself"
    else:
        who = f"{len(foreign)} of {count(total, 'message')} were sent by {sender(first)}, not by lines of yours"
    return Remark(
        f"the values are right, but {who}.",
        cause=f"a library function does the work. The exercise is to write {function} with comm.send, comm.recv "
        "and comm.exchange.",
    )


def sender(message: Message) -> str:
    """Who sent a message that is not a student's own, and from where."""
    via = message.site.via or ""
    library = via if via.startswith("distlib.") else "a library function"
    return f"{library}, called at {message.site.place}"


def explain_silence(trace: Trace, expected: int) -> Remark | None:
    """The remark about a run without any message, where `expected` messages should have been sent."""
    if len(trace) or not expected:
        return None
    return Remark(
        f"the values are right, but no message was seen; {count(expected, 'message')} "
        f"{'was' if expected == 1 else 'were'} expected.",
        cause="the values came some other way, such as torch.distributed. Use comm.send, comm.recv and comm.exchange: "
        "only those are counted.",
    )


# ── wording ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def describe(message: Message) -> str:
    """ "such as: rank 0 to rank 1, 6 float32 = 24 bytes, round 1, sent by cell 7, line 12"."""
    return (
        f"such as: rank {message.src} to rank {message.dst}, {_elements(message)} = {message.nbytes:,} bytes, round "
        f"{message.round}, sent by {message.site.place}"
    )


def _elements(message: Message) -> str:
    return f"{math.prod(message.shape)} {message.dtype}"
