"""What the specifications of messages share."""

from __future__ import annotations

from collections.abc import Sequence

from distlib.checks.supplied import helper_origins
from distlib.trace import Message

CARRIES = ("chunk", "buffer")
EXECUTED_TEXT = "<string>"  # the file name of code that exec has made


def is_own(message: Message, helpers: Sequence[str] = ()) -> bool:
    """Whether a line of the student's sent the message, or one of these helpers that the check has supplied."""
    origins = {None, *(origin for name in helpers for origin in helper_origins(name))}
    return message.site.via in origins and message.site.file != EXECUTED_TEXT


def expect_one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    """Raises ValueError if a test cell asks for something that does not exist."""
    if value not in allowed:
        raise ValueError(f"{name}: expected one of {', '.join(allowed)}, got {value!r}")
