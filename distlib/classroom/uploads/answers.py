"""Which functions of an exercise are answered, by the text of their cells. Nothing runs.

nbgrader keeps a checksum of each cell as it was released. Where that is lost, a cell is a stub if it says what students
start with, or if all that it adds to its docstrings is `raise NotImplementedError()`. An answer with a fault that its
text shows is not answered: `cell_faults` names it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from distlib.classroom.grader.definitions import is_stub
from distlib.classroom.grader.submission import HandedCell
from distlib.classroom.uploads.cell_faults import CellToRead, fault_in
from distlib.classroom.uploads.recognize import cell_of, definitions, normal
from distlib.python_text import Version

ANSWERED = "answered"
STUB = "not answered: still the stub"
MISSING = "not answered: its cell is missing"


@dataclass(frozen=True)
class Answer:
    """One function. state: ANSWERED, STUB, MISSING, or what is wrong with it."""

    function: str
    state: str

    @property
    def is_empty(self) -> bool:
        """Whether the student has written nothing."""
        return self.state in (STUB, MISSING)


def read_answers(
    cells: Sequence[HandedCell],
    functions: Sequence[str],
    starts: Collection[str] = (),
    graded_with: Version | None = None,
) -> list[Answer]:
    """What the text of each function's cell shows.

    Args:
        cells: of the student's notebook.
        functions: the names of the exercise's solution cells.
        starts: their texts as students get them: see `Known`.
        graded_with: the Python that the class is graded with; None if that is not known.
    """
    return [Answer(name, _state(cells, name, starts, graded_with)) for name in functions]


def _state(cells: Sequence[HandedCell], function: str, starts: Collection[str], graded_with: Version | None) -> str:
    cell = cell_of(cells, function)
    if cell is None:
        return MISSING
    if cell.is_as_released or not cell.source.strip() or normal(cell.source) in starts or is_stub(cell.source):
        return STUB
    if not is_code(cell, starts):
        return ANSWERED
    stub = next((text for text in starts if function in definitions(text)), "")
    return fault_in(CellToRead(function, cell.source, number_of(cells, cell), stub, graded_with)) or ANSWERED


def is_code(cell: HandedCell, starts: Collection[str] = ()) -> bool:
    """Whether an answer is a program, also in a cell that was made text. starts: see `read_answers`."""
    return cell.kind == "code" or any(cell.grade_id in definitions(text) for text in starts)


def number_of(cells: Sequence[HandedCell], cell: HandedCell) -> int:
    """The number of a cell, counting the code cells down to it from 1."""
    index = next(number for number, each in enumerate(cells) if each is cell)
    return sum(each.kind == "code" for each in cells[: index + 1])
