"""Who is in a class, and how a name that an instructor types is understood.

A student is known by the name of the folder in submitted/, by the gradebook, or by classroom/students.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.grader.gradebook import MarksBook
from distlib.classroom.register.class_register import classroom_of
from distlib.classroom.words import joined

_NEAR = 0.6  # as difflib counts it: from 0 to 1


def known_students(course: Course, assignment: str, book: MarksBook) -> dict[str, str]:
    """The full names of a class, "" where none is known, by the name of the student's folder.

    Raises:
        GradebookError: the gradebook can't be read.
        CourseError: students.csv can't be read.
    """
    in_table = {student: _full_name(row) for student, row in students_in_table(course).items()}
    names = dict.fromkeys(course.students(assignment), "") | in_table
    return dict(
        sorted({**names, **{s: name for s, name in book.full_names().items() if name or s not in names}}.items())
    )


def students_in_table(course: Course) -> dict[str, dict[str, str]]:
    """The rows of classroom/students.csv by id, with the cells by the names of their columns; none without the file.

    Raises:
        CourseError: it can't be read.
    """
    path = classroom_of(course) / "students.csv"
    try:
        rows = rows_of_table(path)
    except (OSError, ValueError, csv.Error, AttributeError) as error:
        raise CourseError(f"{course.name(path)} can't be read: {error}") from None
    return {row["id"]: row for row in rows if row.get("id")}


def rows_of_table(path: Path) -> list[dict[str, str]]:
    """The rows of a students.csv, with the cells by the names of their columns; none without the file.

    Raises:
        OSError, ValueError, csv.Error: it can't be read.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [{key: (value or "").strip() for key, value in row.items() if key} for row in csv.DictReader(file)]
    except FileNotFoundError:
        return []


def ways_of_writing(row: Mapping[str, str]) -> list[str]:
    """A student's name in a row of that table, with the first and with the last name in front; none without both."""
    first, last = row.get("first_name", ""), row.get("last_name", "")
    return [f"{first} {last}", f"{last} {first}"] if first and last else []


def _full_name(row: Mapping[str, str]) -> str:
    return f"{row.get('first_name', '')} {row.get('last_name', '')}".strip()


def the_student(name: str, known: Mapping[str, str]) -> str:
    """The student that an instructor means, by folder or full name.

    Raises:
        CourseError: there is none, or there are several; the message names those with a similar name.
    """
    if name in known:
        return name
    same = [student for student, full in known.items() if name.casefold() in (student.casefold(), full.casefold())]
    if len(same) == 1:
        return same[0]
    if same:
        raise CourseError(f"{name!r} may be {joined(same)}; use one of these")
    near = near_names(name, known)
    advice = f"; do you mean {' or '.join(near)}?" if near else f"; there are {joined(list(known))}"
    raise CourseError(f"there is no student {name!r}{advice if known else '; nobody is known yet'}")


def near_names(name: str, known: Mapping[str, str]) -> Sequence[str]:
    """The three students whose folders or names are most like this one."""
    ways = {way.casefold(): student for student, full in known.items() for way in (student, full, *full.split()) if way}
    found = get_close_matches(name.casefold(), ways, n=6, cutoff=_NEAR)
    return list(dict.fromkeys(ways[way] for way in found))[:3]
