"""What shares of a class have found, for the run that brings it into the gradebook; see `class_share`.

    classroom/graded/ASSIGNMENT/shares/seed                   of the inputs of the tests, the same in all shares
    classroom/graded/ASSIGNMENT/shares/students/ada/found.json   what came of ada's submission, and what it came from

Why several machines may write here at the same time, over a network file system: no file is changed, locked or added
to. A file is written under a name that nobody else draws, and then gets its own name in one move. So a reader sees a
whole file or none, and of two that have the same name the later one stays, which says the same. The seed is linked to
its name instead, which fails if somebody was there before: then theirs counts.

A result is taken over only if it came from the same as a judgement would now. Whatever is missing, torn, not seen yet,
of another version of the course or of a notebook that has changed costs time: it is judged again.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.grader.examine import Examined
from distlib.classroom.grader.examinees import JudgedFrom
from distlib.whole_file import write_file


@dataclass(frozen=True)
class ShareResult:
    """What a share has found about a student.

    Attributes:
        examined: what came of the submission.
        judged_from: and what it came from.
        machine: the name of the machine that has judged.
    """

    examined: Examined
    judged_from: JudgedFrom
    machine: str


@dataclass(frozen=True)
class TakenOver:
    """What needs not be judged again, and what must, though a share has judged it.

    Attributes:
        examined: by student.
        left: why not, by student.
    """

    examined: dict[str, Examined] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)


class ShareResults:
    """The results of the shares of an assignment.

    Args:
        course, assignment: which.
    """

    def __init__(self, course: Course, assignment: str) -> None:
        self._course, self._folder = course, course.records(assignment) / "shares"

    def seed(self) -> str:
        """Of the inputs of the tests in all shares; "" if no share has begun."""
        try:
            return (self._folder / "seed").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            return ""

    def drawn_seed(self) -> str:
        """The seed of all shares, drawn now by the first one who asks.

        Raises:
            CourseError: it can't be kept.
        """
        try:
            new = self._folder / f"{secrets.token_hex(16)}.new"  # the name says nothing about the seed
            write_file(new, secrets.token_hex(16).encode())
            with contextlib.suppress(FileExistsError):
                os.link(new, self._folder / "seed")
            new.unlink()
            return (self._folder / "seed").read_text(encoding="utf-8").strip()
        except OSError as error:
            name = self._course.name(self._folder)
            raise CourseError(f"shares of a class need files in {name}: {error.strerror or error}") from None

    def note(self, student: str, examined: Examined, judged_from: JudgedFrom) -> None:
        """Write down what came of a submission, in one move.

        Raises:
            OSError: it can't be written.
        """
        result = ShareResult(examined, judged_from, platform.node())
        write_file(self._path(student), json.dumps(asdict(result)).encode())

    def result(self, student: str) -> ShareResult | None:
        """What a share has found about a student; None if that can't be read."""
        try:
            values = json.loads(self._path(student).read_text(encoding="utf-8"))
            judged_from = JudgedFrom(**values["judged_from"])
            return ShareResult(Examined(**values["examined"]), judged_from, str(values["machine"]))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def taken_over(self, mates: Mapping[str, Sequence[str]], wanted: Mapping[str, JudgedFrom]) -> TakenOver:
        """What needs not be judged again.

        Args:
            mates: by student, all who get the same verdict; a share may have judged any of them.
            wanted: by student, what a judgement would come from now.
        """
        found = TakenOver()
        for first, students in mates.items():
            results = [result for result in map(self.result, students) if result]
            same = [result.examined for result in results if wanted[first].work and result.judged_from == wanted[first]]
            if same:
                found.examined[first] = same[0]
            elif results:
                found.left[first] = _difference(results[0], wanted[first])
        return found

    def clear(self) -> None:
        """Remove all of it. A share that is still running may leave results, which are never wrong, see above."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _path(self, student: str) -> Path:
        return self._folder / "students" / student / "found.json"


def _difference(result: ShareResult, wanted: JudgedFrom) -> str:
    """Why a result does not fit."""
    if result.judged_from.course != wanted.course:
        return f"{result.machine} has a different version of the course"
    if result.judged_from.work != wanted.work:
        return "handed in again since"
    return "graded since, or with different options"
