"""What a failed test cell says, in parts; and which function a test cell is about.

ring on 2 ranks, 8 float32: on rank 0, chunk 0 is wrong.   seen
  expected  [1.0, 2.0]                                     details
  found     [0.5, 1.0]
Usual cause: this is the average.                          cause
Passed before this: 1 case, with 1 rank.                   passed
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from distlib.checks.remark import WIDTH

UNWRITTEN = "it is not written yet"  # what is seen of an answer that is still the stub
_CAUSE, _PASSED = "Usual cause: ", "Passed before this: "
_SENTENCE = re.compile(r"(?<=[a-z)\]\d][.!?]) (?=[A-Z(])")


@dataclass(frozen=True)
class Told:
    """What a failed test cell says: what it saw, and what usually causes it ("" if it can't say)."""

    seen: str
    cause: str = ""

    @property
    def is_unwritten(self) -> bool:
        """Whether nothing went wrong: there is no answer."""
        return UNWRITTEN in self.seen


@dataclass(frozen=True)
class CheckMessage:
    """The parts of a check's message; each is "" if it is not there.

    Attributes:
        seen: what was seen, on one line.
        details: indented lines, such as the expected and the found values.
        cause: the usual cause, on one line.
        passed: which cases had passed before.
        rest: what stands below an empty line.
    """

    seen: str
    details: str = ""
    cause: str = ""
    passed: str = ""
    rest: str = ""

    @property
    def below(self) -> str:
        """The details and the rest: what is shown below the sentence."""
        return "\n\n".join(filter(None, [self.details, self.rest]))

    @property
    def first_sentence(self) -> str:
        """The first sentence of what was seen."""
        return _SENTENCE.split(self.seen, maxsplit=1)[0]


def parts_of(message: str) -> CheckMessage:
    """Take a check's message apart; the message of another error is all `seen`."""
    parts: dict[str, list[str]] = {"seen": [], "details": [], "cause": [], "passed": [], "rest": []}
    part = "seen"
    for line in message.splitlines():
        if part == "rest" or not line:
            part = "rest"
        elif line.startswith(_CAUSE):
            part = "cause"
        elif line.startswith(_PASSED):
            part = "passed"
        elif line.startswith(" ") and part == "seen":
            part = "details"
        parts[part].append(line.removeprefix(_CAUSE).removeprefix(_PASSED))
    details = "\n".join(_unwrapped(parts["details"]))
    one_line = {part: " ".join(" ".join(parts[part]).split()) for part in ("seen", "cause", "passed")}
    return CheckMessage(**one_line, details=textwrap.dedent(details).rstrip(), rest="\n".join(parts["rest"]).strip())


def _unwrapped(lines: Sequence[str]) -> list[str]:
    """Lines that were broken because the next word had no room, whole again: a page breaks where it needs to."""
    whole: list[str] = []
    room = 0
    for line in lines:
        indent, first = line[: len(line) - len(line.lstrip())], (line.split() or [""])[0]
        if whole and first and indent and whole[-1].startswith(indent) and len(first) >= room:
            whole[-1] += f" {line.strip()}"
        else:
            whole.append(line)
        room = WIDTH - len(line)
    return whole


def split_message(message: str) -> Told:
    """The first paragraph of a check's message, and the usual cause that it names."""
    parts = parts_of(message)
    return Told(parts.seen, parts.cause)


def function_of(cell: str) -> str:
    """The function that a test cell tests: "shift" for "shift_hidden"."""
    return cell.removesuffix("_visible").removesuffix("_hidden")
