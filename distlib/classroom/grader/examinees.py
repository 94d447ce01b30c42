"""Who is examined in a run, and what from: the same for a run of the class and for a share of it, see `class_share`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from distlib.classroom.grader.autograded import Autograded
from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.grader.examine import Examinee
from distlib.classroom.grader.gradebook import Mark
from distlib.classroom.grader.source import Source
from distlib.classroom.grader.student_record import Record, read_records
from distlib.classroom.grader.submission import CannotGrade, find_notebook, fingerprint, read_timestamp
from distlib.classroom.grader.verdicts import hash_of, judging_code
from distlib.classroom.register.class_register import read_register


@dataclass(frozen=True)
class Basis:
    """What the marks of a student come from.

    Attributes:
        version: of submission, instructor's notebook and grader; "" with nothing to grade.
        work: a hash of the notebook that was handed in; "" with nothing to grade.
        seed: of the inputs of the tests.
    """

    version: str
    work: str
    seed: str


@dataclass(frozen=True)
class JudgedFrom:
    """All that a judgement comes from. If it is the same, so is what comes of it, but for the seconds.

    Attributes:
        course: a hash of the instructor's notebook and of what judges.
        work: a hash of the notebook that was handed in.
        seed: of the inputs of the tests.
        times: how many times as much time as others it may take.
        before: a hash of the notebook in autograded/, whose verdicts may stay; "" to judge everything.
        again: whether it was asked for though nothing has changed.
    """

    course: str
    work: str
    seed: str
    times: float
    before: str
    again: bool


class Examinees:
    """The submissions of an assignment, as a grader looks at them. It only reads.

    Args:
        course, assignment: which.
        times: by student, how many times as much time as others they may take; those of earlier runs are kept.

    Attributes:
        source: the instructor's notebook.
        known: the records of earlier runs, by student.
        times: by student, as given now or in an earlier run.
        register: the teams.

    Raises:
        CourseError: there is no such assignment.
    """

    def __init__(self, course: Course, assignment: str, times: Mapping[str, float]) -> None:
        self._course, self._assignment = course, assignment
        self.source = course.source(assignment)
        self.known = read_records(course, assignment)
        self.times = {**{student: record.times for student, record in self.known.items()}, **times}
        self.register = read_register(course)
        self._version = _version(self.source)

    def check(self, who: Sequence[str], there: Sequence[str], times: Mapping[str, float]) -> None:
        """Raise CourseError unless there is somebody, all have handed in, and all who get more time are among them."""
        if not who:
            raise CourseError(f"nobody has handed in {self._assignment}; it should be in {self._expected('STUDENT')}")
        for student in [student for student in who if student not in there]:
            where = self._expected(student)
            raise CourseError(f"{student} has not handed in {self._assignment}; it should be in {where}")
        for student in set(times) - set(who):
            raise CourseError(f"{student} is to have more time, and is not among those to be graded")

    def basis(self, student: str, seed: str) -> Basis:
        """What the marks of a student will come from. seed: for a notebook that was not graded before."""
        folder = self._course.folder("submitted", student, self._assignment)
        try:
            path, _ = find_notebook(folder, self._assignment)
            work = hash_of([path.name, fingerprint(path)])
            version = hash_of([self._version, work, str(read_timestamp(folder)[0])])
        except CannotGrade:
            work = version = ""
        before = self.known.get(student)
        known = before.seed if before and work and before.work == work else ""
        return Basis(version, work, known or seed)

    def is_done(self, student: str, basis: Basis, marks: Mapping[str, Mark] | None) -> bool:
        """Whether the record is of this submission, and the gradebook and autograded/ have what it says.

        marks: the student's in the gradebook; None to leave that out.
        """
        record = self.known.get(student)
        if record is None or record.problem or not basis.version or record.version != basis.version:
            return False
        if record.times != self.times.get(student, 1.0):
            return False
        return self._graded_notebook(record, marks) is not None

    def before(self, student: str, basis: Basis, marks: Mapping[str, Mark] | None) -> Path | None:
        """The notebook in autograded/, if it is of the same submission, and its marks are those in the gradebook.

        marks: the student's in the gradebook; None to leave that out.
        """
        record = self.known.get(student)
        if record is None or record.problem or not basis.work or record.work != basis.work:
            return None
        return self._graded_notebook(record, marks)

    def task(self, student: str, basis: Basis, before: Path | None) -> Examinee:
        """What is examined of a student. before: the notebook whose verdicts may stay; None to judge everything."""
        folder = self._course.folder("submitted", student, self._assignment)
        times = self.times.get(student, 1.0)
        return Examinee(folder, self._assignment, self.source, basis.seed, times, judging_code(), before)

    def judged_from(self, task: Examinee, basis: Basis, again: bool) -> JudgedFrom:
        """What the judgement of a task comes from."""
        return JudgedFrom(self._version, basis.work, basis.seed, task.times, _hash_of_file(task.before), again)

    def judged_with(self, students: Sequence[str], bases: Mapping[str, Basis]) -> dict[str, list[str]]:
        """Who gets the verdict of one judgement, by the first of them: a team's notebook is judged once."""
        firsts: dict[tuple[str, str, str, float], str] = {}
        mates: dict[str, list[str]] = {}
        for student in students:
            team, basis = self.register.team_of(student), bases[student]
            same = (team, basis.work, basis.seed, self.times.get(student, 1.0))
            first = firsts.setdefault(same, student) if team and basis.work else student
            mates.setdefault(first, []).append(student)
        return mates

    def _expected(self, student: str) -> str:
        """Where a student's notebook should be."""
        folder = self._course.folder("submitted", student, self._assignment)
        return self._course.name(folder / f"{self._assignment}.ipynb")

    def _graded_notebook(self, record: Record, marks: Mapping[str, Mark] | None) -> Path | None:
        """The notebook in autograded/, if the gradebook has the marks that the record says."""
        autograded = Autograded(self._course, self._assignment, record.student)
        is_in_book = marks is None or {cell: mark.auto for cell, mark in marks.items()} == record.marks
        return autograded.notebook if is_in_book and autograded.exists() else None


def problem_of_name(student: str) -> str:
    """Why a folder's name can't be a student's, in gradebook, files and feedback; "" if it can."""
    if student == student.encode("utf-8", "replace").decode():
        return ""
    return "its folder has a name that is no text; rename it"


def _hash_of_file(path: Path | None) -> str:
    """A hash of a notebook's text; "" without one."""
    try:
        return hash_of([path.read_text(encoding="utf-8", errors="replace")]) if path else ""
    except OSError as error:  # who examines it will say so
        return f"unreadable: {error.errno}"


def _version(source: Source) -> str:
    """Of the instructor's notebook and of what judges."""
    return hash_of([nbformat.writes(source.notebook), *source.released, *judging_code().values()])
