"""classroom/class.json: teams, extensions, pseudonyms, and what being late costs.

nbgrader's gradebook has a place for none of these but for the extension of a student who has handed in. A file that is
torn, or of a newer version of this package, is never written over: the command stops and says so.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.register.late_rule import LateRule
from distlib.whole_file import write_file

_VERSION = 1


@dataclass(frozen=True)
class ClassRegister:
    """What is written down about a class.

    Attributes:
        teams: students by the name of their team. Nobody is in two.
        extensions: seconds by assignment and student.
        pseudonyms: by student.
        late: the numbers of a `LateRule`, by name; none where being late costs no points.
    """

    teams: Mapping[str, list[str]] = field(default_factory=dict)
    extensions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    pseudonyms: Mapping[str, str] = field(default_factory=dict)
    late: Mapping[str, float] = field(default_factory=dict)

    @property
    def late_rule(self) -> LateRule | None:
        """What being late costs; None where it costs no points."""
        return LateRule(**self.late) if self.late else None  # type: ignore[arg-type]

    def team_of(self, student: str) -> str:
        """The name of a student's team; "" without one."""
        return next((team for team, students in self.teams.items() if student in students), "")


def classroom_of(course: Course) -> Path:
    """The folder with everything about a class."""
    return course.records("any").parents[1]


def read_register(course: Course) -> ClassRegister:
    """What is written down; nothing if there is no file yet.

    Raises:
        CourseError: the file can't be read, is damaged, or is of a newer version.
    """
    path = _path(course)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ClassRegister()
    except (OSError, ValueError) as error:
        raise CourseError(f"{course.name(path)} can't be read: {error}") from None
    return _parsed(text, course.name(path))


def _parsed(text: str, name: str) -> ClassRegister:
    repair = "repair it, or take a copy of yours; nothing was changed"
    try:
        values = json.loads(text)
        version = values.pop("version")
    except (ValueError, AttributeError, KeyError, TypeError):
        raise CourseError(f"{name} is damaged; {repair}") from None
    if version != _VERSION:
        raise CourseError(f"{name} is of version {version!r}, this package reads {_VERSION}: run distlib update")
    try:
        register = ClassRegister(**values)
        _check(register)
    except (TypeError, ValueError, AttributeError):
        raise CourseError(f"{name} has entries that it should not have; {repair}") from None
    return register


def _check(register: ClassRegister) -> None:
    """Raises ValueError, TypeError or AttributeError where something is not what it should be."""
    members = [student for students in register.teams.values() for student in students]
    if len(members) != len(set(members)) or not all(isinstance(student, str) for student in members):
        raise ValueError("teams")
    for by_student in register.extensions.values():
        if not all(isinstance(seconds, int | float) for seconds in by_student.values()):
            raise ValueError("extensions")
    if not all(isinstance(name, str) for name in register.pseudonyms.values()):
        raise ValueError("pseudonyms")
    _ = register.late_rule


def change_register(course: Course, change: Callable[[ClassRegister], ClassRegister]) -> ClassRegister:
    """Read, change and write in one go; a second command waits meanwhile. Returns what is written down now.

    Raises:
        CourseError: it can't be read or written; nothing has changed.
    """
    path = _path(course)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            register = change(read_register(course))
            write_file(path, json.dumps({"version": _VERSION, **asdict(register)}, indent=1).encode())
    except OSError as error:
        raise CourseError(f"{course.name(path)} can't be written: {error.strerror}") from None
    return register


def _path(course: Course) -> Path:
    return classroom_of(course) / "class.json"
