"""What a student reads: one remark of a tutor, raised as one exception.

ring_all_reduce on 3 ranks, 10 float32: rank 0 holds a wrong sum in chunk 1 (elements 4 to 6).   what was seen
  expected  [1.0, 2.0, 3.0]
  found     [0.5, 1.0, 1.5]
  In the cell with [7] at its left:                                                              where a line is named
  ---->   8     chunk += incoming
Usual cause: these are averages. The exercise asks for the sum.                                  what to try
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from distlib.worlds.diagnosis import lines_of_cell, numbered_lines, places_in

WIDTH = 100  # of a message's lines


@dataclass(frozen=True)
class Remark:
    """What was seen, and what usually causes it.

    Attributes:
        seen: a sentence that goes on after "ring_all_reduce on 3 ranks, 10 float32: ".
        details: lines to show as they are, such as the expected and the found values.
        cause: what usually causes it and what to try; empty if nothing can be said.
    """

    seen: str
    details: tuple[str, ...] = ()
    cause: str = ""


class CheckFailed(AssertionError):
    """A check did not pass. `str(error)` is all that a student needs; a notebook shows only that, without a stack.

    Attributes:
        remark: the `Remark`, for tests and tools.
    """

    def __init__(self, title: str, remark: Remark, passed: str = "") -> None:
        self.remark = remark
        super().__init__(_compose(title, remark, passed))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of the stack, which would be lines of this package."""
        return str(self).splitlines()


def _compose(title: str, remark: Remark, passed: str) -> str:
    parts = [_wrap(f"{title}: {remark.seen}"), *map(_wrap_detail, remark.details)]
    parts += _excerpt("\n".join([remark.seen, *remark.details]))
    if remark.cause:
        parts.append(_wrap(f"Usual cause: {remark.cause}"))
    if passed:
        parts.append(_wrap(f"Passed before this: {passed}."))
    return "\n".join(parts)


def _excerpt(text: str) -> list[str]:
    """The first line of the notebook that a text names, with its neighbors; nothing outside of notebooks."""
    for cell, line in places_in(text):
        if numbered := numbered_lines(lines_of_cell(cell), line):
            return [f"  In the cell with [{cell}] at its left:", *(f"  {shown}"[:WIDTH] for shown in numbered)]
    return []


def _wrap(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _wrap_detail(line: str) -> str:
    """Details are indented and keep their columns; only a line that is too long is broken."""
    if len(line) <= WIDTH - 2:
        return f"  {line}"
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(line.strip(), WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
