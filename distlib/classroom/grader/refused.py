"""Uploads that `distlib collect` did not collect, kept for the report: classroom/graded/ASSIGNMENT/not_collected.json.

An upload is on the list until the same sources are collected again without it, or something else of its student is
collected.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from distlib.classroom.grader.course import Course
from distlib.whole_file import write_file


@dataclass(frozen=True)
class Refused:
    """An upload that was not collected.

    Attributes:
        file: its name in the uploads.
        student: the name of the student's folder; "" if it is not known.
        why: what is wrong with it.
    """

    file: str
    student: str
    why: str


def note_refused(
    course: Course, assignment: str, sources: Sequence[Path], refused: Sequence[Refused], collected: Collection[str]
) -> None:
    """Keep what was not collected.

    Args:
        course, assignment: which.
        sources: where the uploads were. What was not collected from them before is forgotten.
        refused: what was not collected now.
        collected: students of whom something new was collected.

    Raises:
        OSError: it can't be written.
    """
    here = "\n".join(sorted(str(source.resolve()) for source in sources))
    earlier = {origin: each for origin, each in _read(course, assignment).items() if origin != here}
    kept = {origin: [each for each in found if each.student not in collected] for origin, found in earlier.items()}
    lists = {
        origin: [astuple(each) for each in found] for origin, found in {**kept, here: list(refused)}.items() if found
    }
    write_file(_path(course, assignment), json.dumps(lists, indent=1).encode())


def read_refused(course: Course, assignment: str) -> list[Refused]:
    """What was not collected, by student and file."""
    found = {each for uploads in _read(course, assignment).values() for each in uploads}
    return sorted(found, key=lambda each: (each.student, each.file))


def _read(course: Course, assignment: str) -> dict[str, list[Refused]]:
    try:
        lists = json.loads(_path(course, assignment).read_text(encoding="utf-8"))
        return {origin: [Refused(*each) for each in found] for origin, found in lists.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _path(course: Course, assignment: str) -> Path:
    return course.records(assignment) / "not_collected.json"
