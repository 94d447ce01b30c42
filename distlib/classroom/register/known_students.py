"""Who is in a class, and how a name that an instructor types is understood.

A student is known by the name of the folder in submitted/, by the gradebook, or by classroom/students.csv.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.grader.gradebook import MarksBook
from distlib.classroom.register.class_register import classroom_of
from distlib.classroom.register.table_file import TableError, table_rows
from distlib.classroom.words import joined

_NEAR = 0.6  # as difflib counts it: from 0 to 1


def known_students(course: Course, assignment: str, book: MarksBook) -> dict[str, str]:
    """The full names of a class, "" where none is known, by the name of the student's folder.

    Raises:
        GradebookError: the gradebook can't be read.
        CourseError: students.csv can't be read.
    """
    in_table = {student: full_name_in(row) for student, row in (students_in_table(course) or {}).items()}
    names = dict.fromkeys(course.students(assignment), "") | in_table
    return dict(
        sorted({**names, **{s: name for s, name in book.full_names().items() if name or s not in names}}.items())
    )


def students_in_table(course: Course) -> dict[str, dict[str, str]] | None:
    """The rows of classroom/students.csv by id, with the cells by the names of their columns; None without the file.

    Raises:
        CourseError: it can't be read, has no column `id`, names nobody, or has one id twice.
    """
    path = classroom_of(course) / "students.csv"
    try:
        rows = [row for row in table_rows(path, ["id"]) if row["id"].strip(".")]
        if not rows:
            raise TableError("it names no student; add some, or take it away")
        if twice := [known for known, number in Counter(row["id"] for row in rows).items() if number > 1]:
            raise TableError(f"it has the id {twice[0]} twice")
    except FileNotFoundError:
        return None
    except (OSError, TableError) as error:
        raise CourseError(f"{course.name(path)} can't be read: {getattr(error, 'strerror', None) or error}") from None
    return {row["id"]: row for row in rows}


def ways_of_writing(row: Mapping[str, str]) -> list[str]:
    """A student's name in a row of that table, with the first and with the last name in front; none without a name."""
    names = [name for name in (row.get("first_name", ""), row.get("last_name", "")) if name]
    return list(dict.fromkeys([" ".join(names), " ".join(names[::-1])])) if names else []


def full_name_in(row: Mapping[str, str]) -> str:
    """A student's first and last name in a row of that table; "" without any."""
    return next(iter(ways_of_writing(row)), "")


def the_student(name: str, known: Mapping[str, str]) -> str:
    """The student that an instructor means, by folder or full name.

    Raises:
        CourseError: there is none, or there are several; the message names those with a similar name.
    """
    if not name.strip():  # students whose full name is not known are not meant by it
        raise CourseError("which student? The name is empty")
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
