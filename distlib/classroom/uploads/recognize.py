"""Which notebook of the course a file is: this exercise, a different one, a lesson, or none of them.

A notebook is recognized by what only it has: the names that nbgrader gives its cells, the text of its cells, and the
functions that it defines. Students edit few of these, and a lesson and its exercise have none in common.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from distlib.classroom.grader.definitions import definitions_in
from distlib.classroom.grader.submission import CannotGrade, HandedCell, read_submission

_DEFINITION = re.compile(r"^(?:async +)?(?:def|class) +(\w+)", re.MULTILINE)
_SHORTEST_TEXT = 40  # characters; shorter cells, such as "four.close()", are alike everywhere


@dataclass(frozen=True)
class Known:
    """A notebook of the course.

    Attributes:
        name: such as "02_all_reduce".
        is_exercise: else it is a lesson.
        functions: of an exercise, the names of its solution cells, in their order.
        marks: what it can be recognized by.
        starts: of an exercise, the texts of its solution cells as students get them. A cell that was changed since, in
            the folder where somebody works, is none; nor are the solutions.
        given: of an exercise, the names and texts of the cells that are not the student's to change, tests included.
    """

    name: str
    is_exercise: bool
    functions: tuple[str, ...]
    marks: frozenset[str]
    starts: frozenset[str] = frozenset()
    given: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        if self.is_exercise and not self.functions:
            return f"a hand-in of {self.name}"
        return f"exercise {self.name}" if self.is_exercise else f"the lesson {self.name}"


def known_notebooks(root: Path) -> list[Known]:
    """The lessons and exercises of a course. A file that can't be read is left out.

    Args:
        root: the folder with course/ and solutions/ or exercises/.
    """
    paths = [path for folder in ("solutions", "exercises") for path in root.glob(f"{folder}/*/*.ipynb")]
    exercises = {path.stem: path for path in paths if path.stem == path.parent.name}
    lessons = sorted(root.glob("course/*.ipynb"))
    found = [_known(path, False) for path in lessons] + [_known(exercises[name], True) for name in sorted(exercises)]
    return [known for known in found if known is not None]


def recognize(cells: Sequence[HandedCell], known: Sequence[Known]) -> Known | None:
    """The notebook of the course that has most in common with these cells; None if none has anything."""
    shared = Counter(mark for notebook in known for mark in notebook.marks)
    marks = {mark for cell in cells for mark in _marks(cell) if shared[mark] == 1}
    scores = [len(marks & notebook.marks) for notebook in known]
    if max(scores, default=0) > 0:
        return known[scores.index(max(scores))]
    return next((notebook for notebook in known if notebook.is_exercise and _defines_one(cells, notebook)), None)


def cell_of(cells: Sequence[HandedCell], function: str) -> HandedCell | None:
    """The cell that answers a function: the definition that counts, else the last cell of its name."""
    if found := definitions_in(cells, [function]):
        return cells[found[function].counts]
    return next((cell for cell in reversed(cells) if cell.grade_id == function), None)


def functions_of(cells: Sequence[HandedCell]) -> tuple[str, ...]:
    """The names of a notebook's solution cells, each once: a student may have copied one."""
    return tuple(dict.fromkeys(cell.grade_id for cell in cells if cell.mark.get("solution")))


def definitions(source: str) -> list[str]:
    """The functions and classes that a cell defines at its left margin."""
    return _DEFINITION.findall(source)


def normal(text: str) -> str:
    """A cell's text without what editors change: white space at the ends of lines and of the cell."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _known(path: Path, is_exercise: bool) -> Known | None:
    try:
        cells = read_submission(path).cells
    except CannotGrade:
        return None
    functions = functions_of(cells)
    is_released = path.parent.parent.name == "exercises"
    starts = frozenset(normal(cell.source) for cell in cells if is_released and _is_start(cell))
    given = tuple((cell.grade_id, normal(cell.source)) for cell in cells if is_released and is_given(cell))
    marks = frozenset(mark for cell in cells for mark in _marks(cell))
    return Known(path.stem, is_exercise, functions, marks, starts, given)


def is_given(cell: HandedCell) -> bool:
    """Whether a cell is not the student's to change: a test, or a locked one."""
    mark = cell.mark
    return bool(cell.grade_id) and bool(mark.get("grade") or mark.get("locked")) and not mark.get("solution")


def _is_start(cell: HandedCell) -> bool:
    return bool(cell.mark.get("solution")) and cell.is_as_released


def _marks(cell: HandedCell) -> Iterator[str]:
    if cell.grade_id:
        yield f"name {cell.grade_id}"
    if len(text := normal(cell.source)) >= _SHORTEST_TEXT:
        yield f"text {text}"
    if cell.kind == "code":
        yield from (f"definition of {name}" for name in definitions(cell.source))


def _defines_one(cells: Sequence[HandedCell], notebook: Known) -> bool:
    defined = {name for cell in cells if cell.kind == "code" for name in definitions(cell.source)}
    return bool(defined & set(notebook.functions))
