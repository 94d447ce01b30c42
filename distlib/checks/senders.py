"""Whose messages are these? Only what a line of the student's sent counts, or a helper that the check supplied.

What a library function sends (distlib.collectives, torch) does not count, nor does what code made from a text sends.
Where the exercise is to write a program of torch's, which the file of the play says (`RUNS_TORCH`), it is the other way
round: there only torch sends.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.remark import Remark
from distlib.checks.sentences import Sentences
from distlib.checks.supplied import Helper
from distlib.trace import Message, Trace

say = Sentences(__file__)
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


def runs_torch(case: Case) -> bool:
    """Whether the play of a case makes a process group of torch for the student's function."""
    return bool(getattr(sys.modules[case.play.__module__], "RUNS_TORCH", False))


def is_torchs(message: Message) -> bool:
    """Whether a collective or a message of torch.distributed sent it, which a line of the student's has called."""
    return (message.site.via or "").startswith("torch.") and message.site.file != EXECUTED_TEXT


def explain_foreign(case: Case, trace: Trace, helpers: Sequence[Helper[..., Any]]) -> Remark | None:
    """The remark about messages that no line of the student's, no helper and no play sent; None if there are none."""
    theirs = [message for message in trace if message.src not in case.ours and not is_of_the_play(message, case)]
    foreign, name = [message for message in theirs if not is_own(message, helpers)], case.function
    if runs_torch(case):
        foreign = [message for message in theirs if not is_torchs(message)]
    if not foreign:
        return None
    messages = f"{len(foreign)} of {count(len(trace), 'message')} {'was' if len(foreign) == 1 else 'were'}"
    write = say("write", name=name, helpers="".join(f", or call {helper.name}" for helper in helpers))
    if runs_torch(case):
        return say.remark("not_torchs", messages=messages, place=foreign[0].site.place)
    return _explain_sender(foreign[0], {"messages": messages, "write": write})


def explain_library(name: str, library: str) -> Remark:
    """The remark about a call of the library in a function that does not communicate."""
    return say.remark("calls_library", library=library, name=name)


def _explain_sender(message: Message, words: Mapping[str, str]) -> Remark:
    via = message.site.via or ""
    if message.site.file == EXECUTED_TEXT:
        return say.remark("made_from_text", **words)
    if via.startswith(("distlib.checks.", "distlib.exercises.")):  # the function is the library's, or calls a play
        return say.remark("library", **words)
    library = via if via.startswith("distlib.") else "a library function"
    return say.remark("called_at", library=library, place=message.site.place, **words)
