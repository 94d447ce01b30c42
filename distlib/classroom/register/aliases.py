"""classroom/aliases.csv: how students are called in uploads, where that is not their name in students.csv.

    written,student
    section-3-anna-sousa,s1001      a name, in every exercise
    wei-zhang_20168,s1025           a name with the platform's number behind it: that upload's owner, and no other one

`distlib class alias` writes it; an instructor may. A name is kept as its folder would be called, so that "Anna Sousa"
and "anna-sousa" are one. The sign between name and number is in no such name: nobody can choose a name that looks like
another one's with a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.grader.spreadsheet import spreadsheet
from distlib.classroom.register.class_register import classroom_of
from distlib.classroom.register.table_file import TableError, table_rows
from distlib.classroom.uploads.upload_names import student_name
from distlib.whole_file import write_file

_COLUMNS = ["written", "student"]
_WITH_NUMBER = re.compile(r"(?P<name>.+)_(?P<number>\d+)", re.DOTALL)


def alias_key(name: str, number: str = "") -> str:
    """What stands in the table for a name, or for a name and the platform's number."""
    return f"{student_name(name)}_{number}" if number else student_name(name)


def typed_alias(text: str) -> str:
    """The same for what an instructor types: "Wei Zhang_20168" has a number."""
    found = _WITH_NUMBER.fullmatch(text)
    return alias_key(found["name"], found["number"]) if found else alias_key(text)


def read_aliases(course: Course) -> dict[str, str]:
    """Students by what is written in uploads, see `alias_key`; empty without a table.

    Raises:
        CourseError: the table can't be used.
    """
    path = _path(course)
    try:
        rows = table_rows(path, _COLUMNS)
    except FileNotFoundError:
        return {}
    except (OSError, TableError) as error:
        raise CourseError(f"{course.name(path)} can't be used: {getattr(error, 'strerror', None) or error}") from None
    found: dict[str, str] = {}
    for row in rows:
        key = typed_alias(row["written"]) if row["written"] else ""
        if not key or not row["student"] or found.get(key, row["student"]) != row["student"]:
            why = f"{row['written']!r} stands for two students" if key and row["student"] else "a cell is empty"
            raise CourseError(f"{course.name(path)}: {why}; mend it, nothing was changed")
        found[key] = row["student"]
    return found


def write_aliases(course: Course, aliases: Mapping[str, str]) -> None:
    """Write the table, in one move.

    Raises:
        OSError: it can't be written.
    """
    write_file(_path(course), spreadsheet([_COLUMNS, *([*pair] for pair in sorted(aliases.items()))]).encode())


def _path(course: Course) -> Path:
    return classroom_of(course) / "aliases.csv"
