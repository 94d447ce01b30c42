"""A table of marks as Canvas imports it.

    Student,ID,SIS User ID,SIS Login ID,Section,02_all_reduce (77)
        Points Possible,,,,,26
    "Lovelace, Ada",1204,,ada,,25.5

Canvas finds a student by ID, else by SIS User ID or SIS Login ID, else by name; the columns up to Section must be there
in this order. An exercise is found by the number behind its title, else by its title; a title that is new makes a new
assignment. A cell without a number leaves the mark in Canvas as it is. The columns are those of `gradebook_importer.rb`
in github.com/instructure/canvas-lms, and of
https://teaching.resources.osu.edu/toolsets/carmencanvas/guides/calculating-final-grades/import-csv-file-carmen-grades

With the gradebook that Canvas has exported, students and titles are those of that file, and nothing has to be guessed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from distlib.classroom.exports.score_table import ExportedFile, ScoredStudent, ScoreTable, one_line, score_cells
from distlib.classroom.grader.course import CourseError
from distlib.classroom.grader.spreadsheet import is_safe, spreadsheet
from distlib.classroom.rounding import rounded
from distlib.classroom.uploads.upload_names import key_of

STUDENT_COLUMNS = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
_WITH_NUMBER = re.compile(r"(?P<title>.*\S)\s+\((?P<number>\d+)\)\s*")


@dataclass(frozen=True)
class CanvasGradebook:
    """What Canvas has exported: the cells of each student up to Section, and the titles of the other columns."""

    students: list[list[str]]
    titles: list[str]


def canvas_file(table: ScoreTable, like: CanvasGradebook | None = None, out_of: float | None = None) -> ExportedFile:
    """The file.

    Args:
        table: the class.
        like: the gradebook that Canvas has exported; who is not in it is left out.
        out_of: the points that can be had in Canvas, where they differ.
    """
    titles = {name: _title(name, like) for name in table.full}
    heads = [*STUDENT_COLUMNS, *titles.values()]
    possible = [str(rounded(full if out_of is None else out_of)) for full in table.full.values()]
    rows, left_out = [], {}
    for student in table.students:
        cells, why = _cells_of(student, like)
        if why:
            left_out[student.id] = why
        else:
            rows.append([*cells, *score_cells(student, table, out_of)])
    return ExportedFile(
        spreadsheet([heads, ["    Points Possible", "", "", "", "", *possible], *rows]), left_out, titles
    )


def _title(name: str, like: CanvasGradebook | None) -> str:
    """The title of an exercise in Canvas; its own name where Canvas has none that is the same."""
    for title in like.titles if like else ():
        found = _WITH_NUMBER.fullmatch(title)
        if key_of(found["title"] if found else title) == key_of(name):
            return title
    return name


def _cells_of(student: ScoredStudent, like: CanvasGradebook | None) -> tuple[list[str], str]:
    """The cells of a student up to Section, and why there are none."""
    if like is None:
        name = ", ".join(filter(None, [one_line(student.last), one_line(student.first)]))
        cells = [name or student.id, student.platform_id, "", student.id, ""]
    else:
        found = _rows_of(student, like)
        if len(found) != 1:
            return [], "Canvas's file has several such students" if found else "is not in Canvas's file"
        cells = [one_line(found[0][0]), *found[0][1:]]
    unsafe = [cell for cell in cells[1:] if not is_safe(cell)]
    return cells, f"a spreadsheet would take {unsafe[0]!r} for a formula" if unsafe else ""


def _rows_of(student: ScoredStudent, like: CanvasGradebook) -> list[list[str]]:
    """The rows of Canvas's file that are this student's: by number, else by login, else by name."""
    ids = [value for value in (student.platform_id,) if value]
    logins = {value.casefold() for value in (student.id, student.email) if value}
    first, last = student.first, student.last
    names = {key_of(name) for name in (f"{first} {last}", f"{last} {first}", student.id) if name.strip()}
    rules = (
        lambda row: row[1] in ids,
        lambda row: row[2].casefold() in logins or row[3].casefold() in logins,
        lambda row: key_of(row[0]) in names or key_of(" ".join(row[0].split(",")[::-1])) in names,
    )
    return next((rows for rule in rules if (rows := [row for row in like.students if rule(row)])), [])


def read_canvas_file(path: Path) -> CanvasGradebook:
    """What Canvas has exported.

    Raises:
        CourseError: it can't be read, or is something else.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            heads, *rows = [row for row in csv.reader(file) if row]
    except (OSError, ValueError, csv.Error) as error:
        raise CourseError(f"{path} can't be read as a table: {getattr(error, 'strerror', None) or error}") from None
    end = heads.index("Section") if "Section" in heads else -1
    columns = {head: heads.index(head) for head in STUDENT_COLUMNS if head in heads}
    if end < 0 or heads[0] != "Student" or "ID" not in columns:
        raise CourseError(
            f"{path} is not a gradebook that Canvas has exported: it has no columns Student, ID and Section"
        )
    students = [_student_cells(row, columns) for row in rows if _is_student(row, columns)]
    return CanvasGradebook(students, heads[end + 1 :])


def _student_cells(row: Sequence[str], columns: Mapping[str, int]) -> list[str]:
    return [row[columns[head]] if head in columns and columns[head] < len(row) else "" for head in STUDENT_COLUMNS]


def _is_student(row: Sequence[str], columns: Mapping[str, int]) -> bool:
    """Not the rows with points and with what is posted by hand."""
    return "Points Possible" not in row[0] and bool(_student_cells(row, columns)[1])
