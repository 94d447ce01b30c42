"""What was graded in all exercises of a course, from gradebook and records of `distlib grade`. Nothing is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from distlib.classroom.grader.class_run import ClassRun, graded_cells
from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.grader.gradebook import GradebookError, MarksBook
from distlib.classroom.grader.marks import sums
from distlib.classroom.grader.mistakes import is_graded
from distlib.classroom.grader.point_sum import PointSum
from distlib.classroom.grader.student_record import Record, read_records
from distlib.classroom.register.class_register import read_register
from distlib.classroom.register.due_dates import due_dates
from distlib.classroom.register.known_students import known_students
from distlib.classroom.register.roster import read_roster


@dataclass(frozen=True)
class GradedCourse:
    """A class in a whole course.

    Attributes:
        exercises: those in which somebody was graded, in their order.
        names: the full names of all students, "" where none is known, by student.
        teams: the name of each student's team, for those that have one.
        problems: why an exercise is not in it, by its name.
        strangers: who has a folder or marks, and is not in students.csv.
    """

    exercises: list[ClassRun]
    names: dict[str, str]
    teams: dict[str, str]
    problems: dict[str, str]
    strangers: list[str] = field(default_factory=list)

    @property
    def full(self) -> float:
        """What can be had in all exercises."""
        return sum(full_of(run) for run in self.exercises)

    def score(self, run: ClassRun, student: str) -> PointSum | None:
        """A student's points in an exercise, the penalty for being late taken off; None without a graded notebook."""
        if not is_graded(run, student):
            return None
        found = sums(run.marks[student].values())
        return found.less(min(found.got, run.penalties.get(student, 0.0)))

    def total(self, student: str) -> PointSum:
        """A student's points in all exercises; full is what can be had in all of them, but for what waits."""
        found = sum((self.score(run, student) or PointSum() for run in self.exercises), PointSum())
        return replace(found, full=self.full - found.waiting)

    def not_handed_in(self, student: str) -> list[str]:
        """The exercises of which a student has handed in nothing."""
        return [run.assignment for run in self.exercises if student not in run.records]


def full_of(run: ClassRun) -> float:
    """What can be had in an exercise."""
    found = (sums(run.marks[student].values()) for student in run.records if is_graded(run, student))
    return next((each.full + each.waiting for each in found), 0.0)


def read_course(course: Course, assignments: Sequence[str] = ()) -> GradedCourse:
    """Everything that was graded.

    Args:
        course: the course.
        assignments: only these; all without it.

    Raises:
        CourseError: nothing was, or class.json can't be read.
    """
    runs: list[ClassRun] = []
    problems: dict[str, str] = {}
    names: dict[str, str] = {}
    for assignment in assignments or course.assignments():
        records = read_records(course, assignment)
        if not records:
            continue
        try:
            run, known = _read_class(course, assignment, records)
        except (CourseError, GradebookError) as error:
            problems[assignment] = str(error)
            continue
        runs.append(run)
        names |= {student: name or names.get(student, "") for student, name in known.items()}
    if not runs:
        raise CourseError("; ".join(problems.values()) or "nothing is graded yet; start with distlib grade")
    teams = {student: team for team, students in read_register(course).teams.items() for student in students}
    return GradedCourse(runs, dict(sorted(names.items())), teams, problems, read_roster(course).strangers(names))


def _read_class(course: Course, assignment: str, records: Mapping[str, Record]) -> tuple[ClassRun, dict[str, str]]:
    """A class as it was graded last, and its full names."""
    source = course.source(assignment)
    book = MarksBook(course, assignment, source)
    names, there = known_students(course, assignment, book), course.students(assignment)
    present = {s: record for s, record in sorted(records.items()) if s in there}
    run = ClassRun(
        assignment,
        graded_cells(source),
        present,
        book.marks(),
        book.penalties(),
        list(present),
        [student for student in names if student not in there],
        due=due_dates(course, assignment, book),
    )
    return run, names
