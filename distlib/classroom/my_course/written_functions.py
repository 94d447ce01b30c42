"""The functions of an exercise, as the student has written them, by the text of their cells. Nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distlib.classroom.grader.submission import HandedCell
from distlib.classroom.student_copies.notebook_json import Notebook, is_answer, mark_of, name_of, text_of
from distlib.classroom.uploads.answers import read_answers
from distlib.classroom.uploads.recognize import cell_of, normal


@dataclass(frozen=True)
class WrittenFunction:
    """A function that an exercise asks for.

    Attributes:
        name: its name.
        source: the text of the student's cell; "" while it is not written.
    """

    name: str
    source: str = ""


def written_functions(original: Notebook, mine: Notebook | None) -> list[WrittenFunction]:
    """The functions that an exercise asks for, in its order.

    Args:
        original: the exercise as students get it.
        mine: the student's notebook; None if there is none.
    """
    asked = [cell for cell in original["cells"] if is_answer(cell) and cell.get("cell_type") == "code"]
    names = list(dict.fromkeys(map(name_of, asked)))
    starts = {normal(text_of(cell)) for cell in asked}
    cells = _handed(mine) if mine else []
    answers = read_answers(cells, names, starts)
    return [WrittenFunction(a.function, "" if a.is_empty else _source(cells, a.function)) for a in answers]


def _handed(notebook: Notebook) -> list[HandedCell]:
    """The cells, without nbgrader's checksums: the starting texts tell as much, and nbgrader takes a second to load."""
    cells = []
    for cell in notebook["cells"]:
        mark = {key: value for key, value in mark_of(cell).items() if key != "checksum"}
        cells.append(HandedCell(str(cell.get("cell_type")), text_of(cell), metadata={"nbgrader": mark}))
    return cells


def _source(cells: Sequence[HandedCell], function: str) -> str:
    cell = cell_of(cells, function)
    return cell.source if cell else ""
