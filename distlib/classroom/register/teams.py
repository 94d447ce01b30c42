"""A team hands in once: its notebook is graded once, and counts for all of its students.

    classroom/submitted/ada/02_all_reduce/   what ada has handed in
    classroom/submitted/bob/02_all_reduce/   a copy of it, made by `distlib grade`, and noted in shared.json

So each student of a team has a submission, as any other student: marks, penalty, feedback, a line in the export.
A copy is replaced when the team hands in again. What a student has handed in without help is never touched: if several
of a team have, each keeps what they have, the latest counts for the others, and that is said.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from distlib.classroom.grader.course import Course
from distlib.classroom.grader.submission import CannotGrade, find_notebook, fingerprint, read_timestamp, write_timestamp
from distlib.classroom.words import joined
from distlib.whole_file import write_file


@dataclass(frozen=True)
class TeamWork:
    """What a team has handed in.

    Attributes:
        team: its name.
        by: the student whose notebook counts for the others.
        students: the others, who have a copy.
        apart: students who have handed in a different notebook, and keep it.
    """

    team: str
    by: str
    students: list[str]
    apart: list[str]

    @property
    def words(self) -> str:
        """A sentence about it."""
        said = f"Team {self.team}: what {self.by} has handed in counts for {joined(self.students)}, too."
        if not self.students:
            said = f"Team {self.team} has handed in several notebooks."
        each = f" {joined(self.apart)} handed in a different notebook, and keep{'s' * (len(self.apart) == 1)} it."
        return said + each * bool(self.apart)


@dataclass(frozen=True)
class _HandedInNotebook:
    student: str
    path: Path
    work: str
    time: datetime | None


def share_in_teams(course: Course, assignment: str, teams: Mapping[str, Sequence[str]]) -> list[TeamWork]:
    """Give the students of each team a copy of what one of them has handed in. Doing it again changes nothing.

    Raises:
        OSError: a copy can't be made.
    """
    noted = _read(course, assignment)
    done = []
    for team, students in teams.items():
        found = [each for each in (_handed_in(course, assignment, student) for student in students) if each]
        own = [each for each in found if noted.get(each.student) != each.work]
        if not own:
            continue
        best = max(own, key=lambda each: (each.time or datetime.min, each.student))
        copies = [each.student for each in found if each not in own]
        others = [s for s in students if s in copies or not os.path.lexists(course.folder("submitted", s, assignment))]
        for student in others:
            _copy(course, assignment, best, student)
        noted = {student: work for student, work in noted.items() if student not in students}
        noted |= dict.fromkeys(others, best.work)
        apart = [each.student for each in own if each.work != best.work]
        done += [TeamWork(team, best.student, others, apart)] if others or apart else []
    _write(course, assignment, noted)
    return done


def _handed_in(course: Course, assignment: str, student: str) -> _HandedInNotebook | None:
    folder = course.folder("submitted", student, assignment)
    try:
        path, _ = find_notebook(folder, assignment)
        return _HandedInNotebook(student, path, fingerprint(path), read_timestamp(folder)[0])
    except (CannotGrade, OSError):
        return None


def _copy(course: Course, assignment: str, given: _HandedInNotebook, student: str) -> None:
    """Put a notebook and its time into the folder of another student, unless both are there."""
    folder = course.folder("submitted", student, assignment)
    there = _handed_in(course, assignment, student)
    if there and (there.work, there.time) == (given.work, given.time):
        return
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    shutil.copyfile(given.path, new / f"{assignment}.ipynb")
    if given.time:
        write_timestamp(new, given.time)
    shutil.rmtree(folder, ignore_errors=True)  # a copy that was made before
    new.rename(folder)


def _read(course: Course, assignment: str) -> dict[str, str]:
    """The hash of each copy that was made, by student. Without it a copy is taken for the student's own, and stays."""
    try:
        noted = json.loads(_path(course, assignment).read_text(encoding="utf-8"))
        return {str(student): str(work) for student, work in noted.items()}
    except (OSError, ValueError, AttributeError):
        return {}


def _write(course: Course, assignment: str, noted: Mapping[str, str]) -> None:
    path = _path(course, assignment)
    if not noted and not path.exists():
        return
    write_file(path, json.dumps(noted, indent=1).encode())


def _path(course: Course, assignment: str) -> Path:
    return course.records(assignment) / "shared.json"
