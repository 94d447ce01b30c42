"""A table of marks as Moodle imports it.

    First name,Last name,ID number,Email address,02_all_reduce
    Ada,Lovelace,ada,ada@example.org,25.50

In Moodle choose "Email address" (or "ID number") under "Identify user by", twice, and the grade item for each exercise:
https://docs.moodle.org/405/en/Grade_import and `grade/import/csv/classes/load_data.php` in github.com/moodle/moodle.
Each row must name a student that Moodle knows, or nothing of the file is imported. A row in which that cell is empty
would be taken for the student of the row above: such a student is left out here. "-" means no mark. Moodle takes up to
100 points unless its administrator allows more. Capitals count in addresses.
"""

from __future__ import annotations

from collections import Counter

from distlib.classroom.exports.score_table import ExportedFile, ScoredStudent, ScoreTable, one_line, score_cells
from distlib.classroom.grader.course import CourseError
from distlib.classroom.grader.spreadsheet import is_safe, spreadsheet
from distlib.classroom.words import points

COLUMNS = ["First name", "Last name", "ID number", "Email address"]
MOST_POINTS = 100
NO_MARK = "-"


def moodle_file(table: ScoreTable, *, by: str = "email", out_of: float | None = None) -> ExportedFile:
    """The file.

    Args:
        table: the class.
        by: how Moodle shall find a student: "email" or "id".
        out_of: the points that can be had in Moodle, where they differ.

    Raises:
        CourseError: Moodle would not take so many points.
    """
    for name, full in table.full.items():
        if (full if out_of is None else out_of) > MOST_POINTS:
            raise CourseError(
                f"{name} has {points(full)} points, Moodle takes {MOST_POINTS}: add --out-of {MOST_POINTS}"
            )
    keys = Counter(getattr(student, by) for student in table.students)
    left_out = {s.id: why for s in table.students if (why := _why_not(getattr(s, by), by, keys))}
    rows = [_row(student, table, out_of) for student in table.students if student.id not in left_out]
    heads = [*COLUMNS, *table.full]
    return ExportedFile(spreadsheet([heads, *rows], keep=NO_MARK), left_out, {name: name for name in table.full})


def _why_not(key: str, by: str, keys: Counter[str]) -> str:
    word = "email address" if by == "email" else "id"
    if not key.strip():
        return f"has no {word} in the gradebook"
    if keys[key] > 1:
        return f"shares the {word} {key!r} with another student"
    return "" if is_safe(key) else f"a spreadsheet would take {key!r} for a formula"


def _row(student: ScoredStudent, table: ScoreTable, out_of: float | None) -> list[str]:
    names = [one_line(student.first), one_line(student.last), student.id, student.email]
    return names + score_cells(student, table, out_of, NO_MARK)
