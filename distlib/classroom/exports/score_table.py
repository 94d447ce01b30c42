"""Everybody's scores, from the gradebook, as files for other systems need them, and what such a file is.

A score is left out where nothing was graded, and where it is not final: a mark by hand is missing, or being late costs
points and nobody knows when this was handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nbgrader.api import Gradebook, MissingEntry

from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.grader.export import score_of
from distlib.classroom.grader.gradebook import is_late_unknown, late_costs_points
from distlib.classroom.register.known_students import students_in_table
from distlib.classroom.register.merge_plan import check_nothing_is_half_done
from distlib.classroom.register.roster import read_roster
from distlib.classroom.rounding import rescaled
from distlib.classroom.words import joined


@dataclass(frozen=True)
class ScoredStudent:
    """A student and their scores.

    Attributes:
        id: by which the gradebook knows them.
        first, last, email, platform_id: "" where the gradebook has none.
        scores: by exercise, not rounded; one that is missing is left out.
        open: exercises whose score is not final.
    """

    id: str
    first: str = ""
    last: str = ""
    email: str = ""
    platform_id: str = ""
    scores: dict[str, float] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ScoreTable:
    """A class in some exercises.

    Attributes:
        full: what can be had in each exercise, by its name.
        students: everybody whom the gradebook or classroom/students.csv knows.
        strangers: those whom only the gradebook knows, where there is a students.csv.
    """

    full: dict[str, float]
    students: list[ScoredStudent]
    strangers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ExportedFile:
    """A file for another system.

    Attributes:
        text: of the file.
        left_out: why somebody is not in it, by student.
        titles: how each exercise is called there.
    """

    text: str
    left_out: dict[str, str]
    titles: dict[str, str]


def read_scores(course: Course, assignments: Sequence[str] = (), *, provisional: bool = False) -> ScoreTable:
    """The scores of everybody.

    Args:
        course: the course.
        assignments: which; all that the gradebook knows without it.
        provisional: also scores that are not final.

    Raises:
        CourseError: the gradebook does not know an exercise, or knows none.
    """
    check_nothing_is_half_done(course)
    is_costly = late_costs_points(course)
    with Gradebook(course.settings.db_url, course.settings.course_id) as gradebook:
        full = {each.name: float(each.max_score) for each in gradebook.assignments}
        unknown = [name for name in assignments if name not in full]
        if unknown or not full:
            raise CourseError(f"the gradebook does not know {joined(unknown or ['any exercise'])}")
        chosen = list(assignments) or sorted(full)
        students = [_scored(gradebook, each, chosen, is_costly, provisional) for each in gradebook.students]
    strangers = read_roster(course).strangers(student.id for student in students)
    students = sorted(_with_table(students, students_in_table(course) or {}), key=lambda each: each.id)
    return ScoreTable({name: full[name] for name in chosen}, students, strangers)


def _with_table(students: Sequence[ScoredStudent], rows: Mapping[str, Mapping[str, str]]) -> list[ScoredStudent]:
    """The students, with what students.csv knows and the gradebook does not, and those who are only there."""
    known = {student.id: student for student in students}
    found = []
    for name in {**known, **rows}:
        student, row = known.get(name, ScoredStudent(name)), rows.get(name, {})
        found.append(
            replace(
                student,
                first=student.first or row.get("first_name", ""),
                last=student.last or row.get("last_name", ""),
                email=student.email or row.get("email", ""),
                platform_id=student.platform_id or row.get("lms_user_id", ""),
            )
        )
    return found


def _scored(
    gradebook: Gradebook, student: object, chosen: Sequence[str], is_costly: bool, all_of: bool
) -> ScoredStudent:
    known = {
        name: str(getattr(student, name) or "") for name in ("id", "first_name", "last_name", "email", "lms_user_id")
    }
    found = ScoredStudent(known["id"], known["first_name"], known["last_name"], known["email"], known["lms_user_id"])
    for name in chosen:
        try:
            submission = gradebook.find_submission(name, found.id)
        except MissingEntry:
            continue
        score = score_of(submission)
        if score is None:
            continue
        is_open = submission.needs_manual_grade or (is_costly and is_late_unknown(submission))
        if is_open:
            found.open.append(name)
        if all_of or not is_open:
            found.scores[name] = score
    return found


def score_cells(student: ScoredStudent, table: ScoreTable, out_of: float | None, missing: str = "") -> list[str]:
    """A student's cell for each exercise of the table, on a scale up to `out_of`; `missing` where there is no score."""
    return [
        str(rescaled(student.scores[name], full, out_of)) if name in student.scores else missing
        for name, full in table.full.items()
    ]


def one_line(text: str) -> str:
    """A name with single blanks in place of line breaks and tabs."""
    return " ".join(text.split())
