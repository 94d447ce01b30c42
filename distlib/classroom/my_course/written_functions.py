"""What a student has written in an exercise, functions and answers in words, by the text of its cells. Nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distlib.classroom.grader.submission import HandedCell
from distlib.classroom.my_course.evidence import WrittenText
from distlib.classroom.student_copies.notebook_json import Notebook, is_answer, mark_of, name_of, text_of
from distlib.classroom.uploads.answers import Answer, read_answers
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
    answers, cells = _answers(original, mine, "code")
    return [WrittenFunction(each.function, "" if each.is_empty else _source(cells, each.function)) for each in answers]


def written_texts(original: Notebook, mine: Notebook | None) -> list[WrittenText]:
    """The answers in words that an exercise asks for, in its order. original, mine: see `written_functions`."""
    answers, cells = _answers(original, mine, "markdown")
    return [WrittenText(each.function, "" if each.is_empty else _source(cells, each.function)) for each in answers]


def _answers(original: Notebook, mine: Notebook | None, kind: str) -> tuple[list[Answer], list[HandedCell]]:
    """What is answered of the answers in cells of a kind, and the student's cells."""
    asked = [cell for cell in original["cells"] if is_answer(cell) and cell.get("cell_type") == kind]
    names = list(dict.fromkeys(map(name_of, asked)))
    starts = {normal(text_of(cell)) for cell in asked}
    cells = _handed(mine) if mine else []
    return read_answers(cells, names, starts), cells


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
