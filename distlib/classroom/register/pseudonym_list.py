"""Names that say nothing about a student, and a folder for a second marker who shall not know whose work it is.

    classroom/pseudonyms.csv    who is who: for the instructor alone
    FOLDER/marks.csv            pseudonym, marks by function, an empty column for the second mark
    FOLDER/reed-417.ipynb       what was graded, with outputs; names of the student replaced

A pseudonym is drawn once and stays. What else a student writes about themselves in a notebook is not found.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from distlib.classroom.grader.check_message import function_of
from distlib.classroom.grader.course import Course
from distlib.classroom.grader.gradebook import Mark
from distlib.classroom.grader.marks import of, sums
from distlib.classroom.grader.spreadsheet import spreadsheet
from distlib.classroom.register.class_register import ClassRegister, change_register, classroom_of

_PLANTS = (
    "alder birch cedar elm fern hazel holly ivy larch linden maple moss oak olive pine poplar reed sage willow".split()
)
_SHORTEST = 3  # letters of a name that is replaced in a text


def give_pseudonyms(course: Course, students: Collection[str]) -> dict[str, str]:
    """The pseudonyms of some students, drawn where they have none yet.

    Raises:
        CourseError: class.json can't be read or written.
    """

    def change(register: ClassRegister) -> ClassRegister:
        given = dict(register.pseudonyms)
        for student in sorted(students):
            if student not in given:
                given[student] = _drawn(given.values())
        return replace(register, pseudonyms=given)

    given = change_register(course, change).pseudonyms
    return {student: given[student] for student in sorted(students)}


def _drawn(taken: Collection[str]) -> str:
    while True:
        name = f"{secrets.choice(_PLANTS)}-{100 + secrets.randbelow(900)}"
        if name not in taken:
            return name


def write_who_is_who(course: Course, pseudonyms: Mapping[str, str], names: Mapping[str, str]) -> Path:
    """Write classroom/pseudonyms.csv. names: the full names. Returns its path.

    Raises:
        OSError: it can't be written.
    """
    path = classroom_of(course) / "pseudonyms.csv"
    rows = [[pseudonym, student, names.get(student, "")] for student, pseudonym in pseudonyms.items()]
    path.write_text(spreadsheet([["pseudonym", "student", "name"], *sorted(rows)]), encoding="utf-8", newline="")
    return path


def write_for_second_marker(
    course: Course,
    assignment: str,
    folder: Path,
    marks: Mapping[str, Mapping[str, Mark]],
    pseudonyms: Mapping[str, str],
    names: Mapping[str, str],
) -> list[str]:
    """Write a folder for a second marker, in the order of the pseudonyms. Returns the students whose work is in it.

    Args:
        course, assignment: which.
        folder: new or empty.
        marks: by student and test cell.
        pseudonyms, names: by student.

    Raises:
        OSError: it can't be written, or is not empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise OSError(0, "it is not empty", str(folder))
    rows, done = [], []
    for student, pseudonym in sorted(pseudonyms.items(), key=lambda pair: pair[1]):
        notebook = course.folder("autograded", student, assignment) / f"{assignment}.ipynb"
        if student in marks and notebook.is_file():
            text = without_names(notebook.read_text(encoding="utf-8"), pseudonym, [student, *names[student].split()])
            (folder / f"{pseudonym}.ipynb").write_text(text, encoding="utf-8")
            rows.append([pseudonym, *_by_function(marks[student]), ""])
            done.append(student)
    heads = ["pseudonym", *(_functions(marks[done[0]]) if done else []), "all", "second mark"]
    (folder / "marks.csv").write_text(spreadsheet([heads, *rows]), encoding="utf-8", newline="")
    return done


def _by_function(marks: Mapping[str, Mark]) -> list[str]:
    each = [sums(of(marks, function)) for function in _functions(marks)]
    return [found.words(" of ") for found in [*each, sums(marks.values())]]


def _functions(marks: Mapping[str, Mark]) -> list[str]:
    return list(dict.fromkeys(map(function_of, marks)))


def without_names(notebook: str, pseudonym: str, names: Sequence[str]) -> str:
    """The text of a notebook with the names of a student replaced, wherever they stand as words, in any case."""
    words = sorted({name for name in names if len(name) >= _SHORTEST}, key=len, reverse=True)
    if not words:
        return notebook
    found = re.compile("|".join(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])" for word in words), re.IGNORECASE)
    return json.dumps(_replaced(json.loads(notebook), found, pseudonym), ensure_ascii=False, indent=1)


def _replaced(value: object, found: re.Pattern[str], pseudonym: str) -> object:
    """The same JSON with all texts changed; keys stay."""
    if isinstance(value, str):
        return found.sub(pseudonym, value)
    if isinstance(value, list):
        return [_replaced(each, found, pseudonym) for each in value]
    if isinstance(value, dict):
        return {key: _replaced(each, found, pseudonym) for key, each in value.items()}
    return value
