"""Whose messages are these? Only what a line of the student's sent counts, or a helper that the check supplied.

What a library function sends (distlib.collectives, torch) does not count, nor does what code made from a text sends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.plays import are_plays
from distlib.checks.remark import Remark
from distlib.checks.supplied import Helper
from distlib.trace import Message, Trace

EXECUTED_TEXT = "<string>"  # the file name of code that exec has made


def is_own(message: Message, helpers: Sequence[Helper[..., Any]] = ()) -> bool:
    """Whether a line of the student's sent the message, or one of these helpers that the check has supplied."""
    origins = {None, *(origin for helper in helpers for origin in helper.origins)}
    return message.site.via in origins and message.site.file != EXECUTED_TEXT


def is_of_the_play(message: Message, case: Case) -> bool:
    """Whether a model of the play's sent it: what the file of the play lists in SPEAKS, by name.

    What stands in another file of plays is listed by its full name.
    """
    file = sys.modules[case.play.__module__]
    speaks = getattr(file, "SPEAKS", ())
    return message.site.via in {*speaks, *(f"{file.__name__}.{name}" for name in speaks)}


def explain_foreign(case: Case, trace: Trace, helpers: Sequence[Helper[..., Any]]) -> Remark | None:
    """The remark about messages that no line of the student's, no helper and no play sent; None if there are none."""
    theirs = [message for message in trace if message.src not in case.ours and not is_of_the_play(message, case)]
    foreign, name = [message for message in theirs if not is_own(message, helpers)], case.function
    if not foreign:
        return None
    helpers_too = "".join(f", or call {helper.name}" for helper in helpers)
    return Remark(
        f"{len(foreign)} of {count(len(trace), 'message')} {'was' if len(foreign) == 1 else 'were'} sent by "
        f"{_sender(name, foreign[0])}.",
        cause=f"{_why(foreign[0])}write {name} as lines of this notebook: send and receive with comm{helpers_too}.",
    )


def explain_library(name: str, library: str) -> Remark:
    """The remark about a call of the library in a function that does not communicate."""
    return Remark(
        f"it calls {library}, a function of the library.",
        cause=f"a library function does the work. The exercise is to write {name} yourself.",
    )


def _why(message: Message) -> str:
    return "" if message.site.file == EXECUTED_TEXT else "a library function does the work. Instead, "


def _sender(name: str, message: Message) -> str:
    via = message.site.via or ""
    if message.site.file == EXECUTED_TEXT:
        return "code that was made from a text (exec)"
    is_play = are_plays(via.rpartition(".")[0])
    if via.startswith(("distlib.checks.", "distlib.exercises.")) and not is_play:
        return "the library, not by lines of yours"
    if is_play:  # no line of the student's stands between us and the library
        return f"the library itself: {name} is its function"
    library = via if via.startswith("distlib.") else "a library function"
    return f"{library}, called at {message.site.place}, not by lines of yours"
