"""The pages and tables about a whole course.

classroom/report/index.html       the class: wrong ideas, marks by exercise, who has not handed in, students by points
classroom/report/marks.csv        a row per student
classroom/report/wrong_ideas.csv  a row per idea
classroom/report/students/1.html  a page per student, in the order of the table
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from distlib.classroom.course_report.graded_course import GradedCourse, full_of
from distlib.classroom.course_report.wrong_ideas import WrongIdea, wrong_ideas
from distlib.classroom.grader.check_message import Told, function_of
from distlib.classroom.grader.class_run import ClassRun
from distlib.classroom.grader.marks import fraction, functions, of
from distlib.classroom.grader.mistakes import graded
from distlib.classroom.grader.point_sum import WAITS, PointSum
from distlib.classroom.grader.spreadsheet import spreadsheet
from distlib.classroom.grader.tenths import tenths
from distlib.classroom.pages import render
from distlib.classroom.register.due_dates import in_words
from distlib.classroom.words import count, joined, not_in_the_table, points, with_name
from distlib.whole_file import write_file

_STUDENTS = "students"


@dataclass(frozen=True)
class _ExerciseRow:
    """An exercise in a row: how many have handed in, been graded, their middle score, and who is missing."""

    name: str
    handed_in: int
    graded: int
    middle: str
    full: str
    missing: list[str]
    due: str


@dataclass(frozen=True)
class _StudentRow:
    """A student in a row; the number is that of their page. A score is None where nothing was graded."""

    number: int
    student: str
    name: str
    team: str
    scores: list[PointSum | None]
    total: PointSum
    missing: list[str]


@dataclass(frozen=True)
class _PartOfStudent:
    """An exercise on a student's page: its functions with their marks and what was told, and a sentence."""

    name: str
    functions: list[tuple[str, str, Told | None]]
    words: str


def write_course_report(course: GradedCourse, folder: Path) -> Path:
    """Write all pages and tables into a folder, and return the path of the first page.

    Raises:
        OSError: they can't be written.
    """
    for old in (folder / _STUDENTS).glob("*.html"):  # of a class that was larger
        old.unlink()
    ideas, rows = wrong_ideas(course.exercises), _student_rows(course)
    write_file(folder / "index.html", class_html(course, ideas, rows).encode())
    write_file(folder / "marks.csv", marks_csv(course, rows).encode())
    write_file(folder / "wrong_ideas.csv", ideas_csv(ideas).encode())
    for row in rows:
        write_file(folder / _STUDENTS / f"{row.number}.html", student_html(course, row).encode())
    return (folder / "index.html").resolve()


def class_html(course: GradedCourse, ideas: Sequence[WrongIdea], rows: Sequence[_StudentRow]) -> str:
    """The page about the class."""
    totals = [row.total.got for row in rows]
    size = f"{count(len(rows), 'student')}, {count(len(course.exercises), 'exercise')}, {points(course.full)} points."
    middle = f" Half of them have {points(median(totals))} points or more." if totals else ""
    return render(
        "course.html",
        title="The course: the class",
        summary=size + middle,
        strangers=not_in_the_table(course.strangers),
        problems=list(course.problems.items()),
        ideas=ideas,
        exercises=[_exercise_row(course, run) for run in course.exercises],
        columns_of_points=tenths(totals, course.full),
        full=course.full,
        shown=_shown,
        waits=WAITS if any(row.total.waiting for row in rows) else "",
        points_heads=[(head, "number") for head in (*(run.assignment for run in course.exercises), "all")],
        students=rows,
    )


def student_html(course: GradedCourse, row: _StudentRow) -> str:
    """The page about a student."""
    team = f", team {row.team}" if row.team else ""
    return render(
        "course_student.html",
        title=row.name or row.student,
        summary=f"{row.student}{team}: {_in_words(row.total)}",
        missing=row.missing,
        parts=[_part(course, run, row.student) for run in course.exercises if row.student in run.records],
    )


def marks_csv(course: GradedCourse, rows: Sequence[_StudentRow]) -> str:
    """A row per student: scores by exercise, empty where nothing is graded. What waits for a mark is not in "of"."""
    heads = [
        "student",
        "name",
        "team",
        *(run.assignment for run in course.exercises),
        "all",
        "of",
        "open",
        "not handed in",
    ]
    return spreadsheet(
        [heads]
        + [[r.student, r.name, r.team, *map(_got, r.scores), *_columns_of(r.total), " ".join(r.missing)] for r in rows]
    )


def _got(score: PointSum | None) -> str:
    return points(score.got) if score and not score.is_open else ""


def _columns_of(total: PointSum) -> list[str]:
    return [points(total.got), points(total.full), points(total.waiting)]


def ideas_csv(ideas: Sequence[WrongIdea]) -> str:
    """A row per wrong idea."""
    heads = ["students", "of", "exercise", "function", "cause", "seen", "who"]
    return spreadsheet(
        [heads]
        + [
            [
                str(len(i.students)),
                str(i.of),
                i.exercise,
                i.function,
                *([i.words, ""] if i.is_cause else ["", i.words]),
                " ".join(i.students),
            ]
            for i in ideas
        ]
    )


def _student_rows(course: GradedCourse) -> list[_StudentRow]:
    return [
        _StudentRow(
            number,
            student,
            name,
            course.teams.get(student, ""),
            [course.score(run, student) for run in course.exercises],
            course.total(student),
            course.not_handed_in(student),
        )
        for number, (student, name) in enumerate(course.names.items(), 1)
    ]


def _exercise_row(course: GradedCourse, run: ClassRun) -> _ExerciseRow:
    scores = [score for student in graded(run) if (score := course.score(run, student)) is not None]
    final = [score.got for score in scores if not score.waiting]
    middle = points(median(final)) if final else "–"
    due = f"{run.due.date:%Y-%m-%d %H:%M} UTC" if run.due.date else "–"
    missing = [with_name(student, course.names) for student in course.names if student not in run.records]
    return _ExerciseRow(run.assignment, len(run.records), len(scores), middle, points(full_of(run)), missing, due)


def _part(course: GradedCourse, run: ClassRun, student: str) -> _PartOfStudent:
    record, marks = run.records[student], run.marks.get(student, {})
    if record.problem:
        return _PartOfStudent(run.assignment, [], f"Could not be graded: {record.problem}")
    penalty, more = run.penalties.get(student, 0.0), run.due.extensions.get(student)
    words = [
        _in_words(course.score(run, student) or PointSum(full=full_of(run))),
        f"{points(penalty)} were taken off for being late." * bool(penalty),
        f"Extension: {in_words(more)}." if more else "",
    ]
    first = {function_of(cell): told for cell, told in reversed(record.told.items())}
    shown = [(function, fraction(of(marks, function)), first.get(function)) for function in functions(run)]
    return _PartOfStudent(run.assignment, shown, " ".join(filter(None, words)))


def _shown(score: PointSum | None) -> str:
    """ "26", "–" where nothing is graded, "26, 10 open" where a mark is still to be given."""
    if score is None:
        return "–"
    return points(score.got) + (f", {points(score.waiting)} open" if score.waiting else "")


def _in_words(score: PointSum) -> str:
    """ "26 of 40 points.", "26 of 30 points; 10 more wait for a mark by hand."."""
    waiting = f"; {points(score.waiting)} more wait for a mark by hand" if score.waiting else ""
    return f"{points(score.got)} of {points(score.full)} points{waiting}."


def said_about(course: GradedCourse, page: Path) -> str:
    """What the terminal says: who has handed in least, the most frequent idea, and where the page is."""
    ideas = wrong_ideas(course.exercises)
    empty = [student for student in course.names if len(course.not_handed_in(student)) == len(course.exercises)]
    lines = [f"{name}: {why}" for name, why in course.problems.items()]
    empty = [with_name(student, course.names) for student in empty]
    lines += [f"has not handed in anything: {joined(empty)}"] if empty else []
    lines += [not_in_the_table(course.strangers)] if course.strangers else []
    if ideas:
        first = ideas[0]
        lines.append(f"most frequent: {len(first.students)} of {first.of} in {first.function}: {first.words}")
    return "\n".join([*lines, f"report, to open in a browser:  {page.as_uri()}"])
