"""The exercise that a student works on: their notebook, and the instructor's where it lies next to it.

    work/exercises/02_all_reduce/02_all_reduce.ipynb    the student's: answers, visible tests
    solutions/02_all_reduce/02_all_reduce.ipynb         the instructor's: hidden tests, too; students may not have it

With both, the notebook that runs is the instructor's with the student's answers, as when a class is graded. With the
student's alone, it is that, without the demonstrations between the graded cells.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

import distlib
from distlib.classroom.grader.definitions import Definitions, is_written, several
from distlib.classroom.grader.submission import CannotGrade, HandedCell, Submission, read_submission
from distlib.classroom.grader.transplant import FROM_STUDENT, transplant
from distlib.classroom.self_check.results import ExerciseError
from distlib.classroom.uploads.answers import ANSWERED, read_answers
from distlib.classroom.uploads.graded_with import graded_with
from distlib.classroom.uploads.upload_names import full_name, lesson_alone
from distlib.classroom.words import points
from distlib.course_root import course_folder
from distlib.python_text import WRITTEN_WITH, Version

if TYPE_CHECKING:
    from distlib.classroom.grader.source import Source

_RELEASED = re.compile(r"cell-\d+")  # ids of cells that the author has not named


@dataclass(frozen=True)
class Exercise:
    """An exercise. Make one with `find_exercise`.

    Attributes:
        name: such as "02_all_reduce".
        path: the student's notebook.
        notebook: what runs when it is graded.
        tests: for each function its test cells: the visible one and, where it is known, the hidden one.
        handed: the cells of the student's notebook.
        several: the functions that are defined in several cells.
        graded_with: the Python that the class is graded with; None if that is not known.
    """

    name: str
    path: Path
    notebook: NotebookNode
    tests: dict[str, dict[str, NotebookNode]]
    handed: list[HandedCell]
    several: list[Definitions]
    graded_with: Version | None = None

    @property
    def remarks(self) -> list[str]:
        """For each function that is defined in several cells: which one counts when it is graded, as receipts say."""
        return [each.advice for each in self.several]

    @property
    def by_hand(self) -> list[str]:
        """For each answer in words a sentence: that it is marked by hand, and whether it is still to be written."""
        marks = [cell.mark for cell in self.handed] + [_mark(cell) for cell in self.notebook.cells]
        full = {mark["grade_id"]: mark.get("points", 0) for mark in marks if mark.get("grade")}
        names = dict.fromkeys(mark["grade_id"] for mark in marks if mark.get("grade") and mark.get("solution"))
        return [
            f"{answer.function}: marked by hand, {points(full[answer.function])} of {points(sum(full.values()))} points"
            + ("." if answer.state == ANSWERED else f"; {answer.state}.")
            for answer in read_answers(self.handed, list(names))
        ]


def find_exercise(name: str, path: Path | None = None, start: Path | None = None) -> Exercise:
    """Look for an exercise.

    Args:
        name: such as "02_all_reduce", or how it begins: "02".
        path: the student's notebook. Without it: NAME.ipynb, NAME/NAME.ipynb, work/exercises/NAME/NAME.ipynb or
            exercises/NAME/NAME.ipynb in `start` or a folder above.
        start: a folder, by default the current one.

    Raises:
        ExerciseError: there is no such notebook, it can't be read, or it holds no exercise.
    """
    start = (start or Path.cwd()).resolve()
    name = full_name(name, _known(start))
    path = (path or _find(name, start)).resolve()
    submission = _read(path)
    handed = submission.cells
    source = _find_source(name, [*path.parents, start, *start.parents])
    notebook = transplant(source, handed).notebook if source else _without_demonstrations(handed)
    notebook.metadata["distlib"] = {WRITTEN_WITH: submission.python}
    tests = _tests(notebook, ("visible", "hidden") if source else ("visible",))
    if not tests:
        raise ExerciseError(
            f"{path} has no functions with tests. Is it a notebook of this course? Cells that were copied into a new "
            "notebook lose their names: get a fresh copy and put your functions there."
        )
    graded = graded_with(course_folder(path.parent) or Path(distlib.__file__).parents[1])
    return Exercise(name, path, notebook, tests, handed, several(handed, list(tests)), graded)


def _known(start: Path) -> list[str]:
    """The names of the exercises that are here or in a folder above."""
    paths = [path for folder in (start, *start.parents) for path in folder.glob("exercises/*/*.ipynb")]
    return sorted({path.stem for path in paths if path.stem == path.parent.name})


def _find(name: str, start: Path) -> Path:
    for folder in [start, *start.parents]:
        for candidate in (folder, folder / name, folder / "work" / "exercises" / name, folder / "exercises" / name):
            if (candidate / f"{name}.ipynb").is_file():
                return candidate / f"{name}.ipynb"
    known = _known(start)
    there = (
        f"The exercises are {', '.join(known)}." if known else "Go to the course's folder, or name it: --notebook PATH"
    )
    alone = known and lesson_alone(name, (start, *start.parents))
    missing = alone or f"there is no notebook {name}.ipynb here or in work/exercises/{name}/"
    raise ExerciseError(f"{missing}. {there}")


def _read(path: Path) -> Submission:
    try:
        return read_submission(path)
    except CannotGrade as error:
        raise ExerciseError(f"in {path.parent}: {error}") from None


def saved_notebook(name: str, start: Path) -> Path:
    """The student's notebook of an exercise, in `start` or a folder above; `find_exercise` says where.

    Raises:
        ExerciseError: there is none.
    """
    return _find(name, start)


def _find_source(name: str, folders: list[Path]) -> Source | None:
    """The instructor's notebook; None if there is none."""
    paths = (folder / "solutions" / name / f"{name}.ipynb" for folder in folders)
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    from traitlets.config import Config

    from distlib.classroom.grader.source import read_source  # takes nbgrader along, in more than a second

    try:
        return read_source(path, Config())
    except Exception as error:
        raise ExerciseError(f"{path} can't be used: {error}") from None


def _tests(notebook: NotebookNode, kinds: tuple[str, ...]) -> dict[str, dict[str, NotebookNode]]:
    marks = {_mark(cell).get("grade_id"): cell for cell in notebook.cells if cell.cell_type == "code"}
    functions = [name for name, cell in marks.items() if _mark(cell).get("solution")]
    found = {name: {kind: marks.get(f"{name}_{kind}") for kind in kinds} for name in functions}
    return {
        name: {kind: cell for kind, cell in cells.items() if cell is not None}
        for name, cells in found.items()
        if cells["visible"] is not None
    }


# ── a notebook without the instructor's ──────────────────────────────────────────────────────────────────────────────


def _without_demonstrations(handed: list[HandedCell]) -> NotebookNode:
    """The graded cells, and the student's own. Of a demonstration only what it defines: an answer may need that."""
    functions = [cell.grade_id for cell in handed if cell.mark.get("solution")]
    return new_notebook(cells=list(_kept(_arranged(handed, several(handed, functions)))))


def _arranged(handed: list[HandedCell], found: list[Definitions]) -> list[HandedCell]:
    """The cells, with the definition that counts in the place of the first one, below the others that come before it.

    found: of the functions that are defined in several cells.
    """
    stand = [[cell] for cell in handed]
    for each in found:
        name = each.function
        mark = next(cell.metadata for cell in handed if cell.grade_id == name)
        for index in each.cells:
            if handed[index].grade_id in ("", name):
                other = replace(handed[index], metadata={}, cell_id="")
                stand[index] = [other] if index != each.counts and is_written(handed[index]) else []
        stand[each.cells[0]].append(replace(handed[each.counts], metadata=mark))
    return [cell for cells in stand for cell in cells]


def _kept(handed: list[HandedCell]) -> Iterator[NotebookNode]:
    for cell in handed:
        if cell.kind != "code":
            continue
        if cell.grade_id:
            yield new_code_cell(cell.source, metadata={"nbgrader": cell.mark})
        elif _RELEASED.fullmatch(cell.cell_id):
            yield new_code_cell(_definitions(cell.source), metadata={"distlib": dict(FROM_STUDENT)})
        else:
            yield new_code_cell(cell.source, metadata={"distlib": dict(FROM_STUDENT)})


def _definitions(source: str) -> str:
    """The functions and classes of a cell, on the lines where they stand; nothing if it is no plain Python."""
    try:
        nodes = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    except SyntaxError:
        return ""
    lines = source.splitlines()
    kept = {line for node in nodes for line in range(_first_line(node) - 1, node.end_lineno or 0)}
    return "\n".join(text if number in kept else "" for number, text in enumerate(lines))


def _first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _mark(cell: NotebookNode) -> Any:
    return cell.metadata.get("nbgrader", {})
