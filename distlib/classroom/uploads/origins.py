"""From whom each submission came, as the platform says it: classroom/graded/ASSIGNMENT/collected.json.

    {"s1025": {"platform": "Moodle", "number": "20168", "is_late": false}}

Two students of one name, in two zip files of two sections, differ by that number alone. Without a note of it the second
one would replace the first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from distlib.classroom.grader.course import Course
from distlib.whole_file import write_file


@dataclass(frozen=True)
class Origin:
    """Where a submission came from: platform and its number, both "" where no platform said it; and whether it is late.

    A platform's word that something is late is no time: it says nothing about how late.
    """

    platform: str = ""
    number: str = ""
    is_late: bool = False

    @property
    def source(self) -> tuple[str, str]:
        """The same as of an `Owner`."""
        return self.platform, self.number


def read_origins(course: Course, assignment: str) -> dict[str, Origin]:
    """What was noted, by student. A file that can't be read says nothing."""
    try:
        noted = json.loads(origins_path(course, assignment).read_text(encoding="utf-8"))
        return {str(student): Origin(**values) for student, values in noted.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def write_origins(course: Course, assignment: str, origins: Mapping[str, Origin]) -> None:
    """Note all of them.

    Raises:
        OSError: it can't be written.
    """
    noted = {student: asdict(origin) for student, origin in sorted(origins.items())}
    write_file(origins_path(course, assignment), json.dumps(noted, indent=1).encode())


def origins_path(course: Course, assignment: str) -> Path:
    """Where it is noted."""
    return course.records(assignment) / "collected.json"
