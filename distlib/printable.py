"""Text of a stranger, made such that every terminal, file and page takes it, and shows it instead of obeying it."""

from __future__ import annotations

import re

_COLOR = re.compile(r"\x1b\[[0-9;]*m")  # colors of printed text
_NEW_LINE = re.compile(r"\r\n?")
# What controls a terminal, what turns the direction of the text after it, and halves of pairs of code units.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """A text on one line, without what can't be printed or would control a terminal: "a\\x1b[2J"."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def printable_lines(text: str) -> str:
    """Lines of text, without what would control a terminal. Colors go; a line printed over another one follows it."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], _NEW_LINE.sub("\n", _COLOR.sub("", text)))
