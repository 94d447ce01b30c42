"""What an answer got, and whether that is what its file says; as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.answer_files import Answer

KINDS = ("visible", "hidden")


@dataclass(frozen=True)
class Verdict:
    """What an answer got.

    Attributes:
        answer: the answer.
        expected, given: marks by kind of test.
        told: what its student must be told: any of these; nothing for a right one.
        said: the error of its first test that failed, on one line.
    """

    answer: Answer
    expected: Mapping[str, float]
    given: Mapping[str, float]
    told: set[str]
    said: str

    @property
    def has_its_marks(self) -> bool:
        """Whether it has what it deserves."""
        return self.given == self.expected

    @property
    def is_told(self) -> bool:
        """Whether its student is told what the answer's file says."""
        return not any(self.told) or any(words in self.said for words in self.told)

    @property
    def is_as_it_should_be(self) -> bool:
        """Right marks and right words."""
        return self.has_its_marks and self.is_told


def table(found: Sequence[Verdict]) -> str:
    """A line an answer: marks expected and given, and whether its student is told what is wrong."""
    lines = [["answer", "expected", "given", "told", ""], *map(_line, found)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    for verdict in found:
        if not verdict.is_as_it_should_be:
            expected = " or ".join(sorted(filter(None, verdict.told))) or "nothing"
            shown += ["", f"{verdict.answer}", f"  expected: {expected}", f"  told:     {verdict.said or 'nothing'}"]
    right = sum(verdict.is_as_it_should_be for verdict in found)
    return "\n".join([*shown, "", f"{right} of {len(found)} answers are judged as they should be."])


def _line(verdict: Verdict) -> list[str]:
    marks = [" + ".join(f"{marks[kind]:g}" for kind in KINDS) for marks in (verdict.expected, verdict.given)]
    told = "–" if not any(verdict.told) else "yes" if verdict.is_told else "no"
    return [str(verdict.answer), *marks, told, "" if verdict.is_as_it_should_be else "✗"]
