"""The submissions in tests/hostile: each file hands in one whole submission that a grader must survive.

    # Deserves: everything but naive_all_reduce
    # What it tries, in a sentence.
    def hand_in(work): …

The first line says which functions deserve their marks: "everything", or "everything but" some of them.
"cannot be graded" is for what holds no answers at all: the grader must say so, and give no 0. `work` starts as the
released notebook with right answers; `hand_in` changes it, and may add files.

None of them does harm that lasts to a machine without a sandbox, so that plain nbgrader can be tried with them too.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

FOLDER = Path(__file__).parents[1] / "hostile"
ROOT = Path(__file__).parents[2]
ASSIGNMENT = "02_all_reduce"
FUNCTIONS = ("naive_all_reduce", "ring_reduce_scatter", "ring_all_gather", "ring_all_reduce")
UNGRADABLE = "cannot be graded"

# Wrong, and in no way hostile: what a cheat tries to get marks for.
WRONG = "def {name}(comm, tensor):\n    pass\n"


@dataclass
class Work:
    """What a student hands in.

    Attributes:
        folder: the folder that is handed in. It exists; the notebook is written into it at the end.
        notebook: the released notebook with right answers.
        name: the notebook's file name; None for no notebook.
        text: if not None, the bytes of the notebook's file, instead of `notebook`.
    """

    folder: Path
    notebook: NotebookNode
    name: str | None = f"{ASSIGNMENT}.ipynb"
    text: bytes | None = None

    def cell(self, grade_id: str) -> NotebookNode:
        """The cell that nbgrader knows by a name."""
        return next(
            cell for cell in self.notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id
        )

    def index(self, grade_id: str) -> int:
        """Where that cell is."""
        return self.notebook.cells.index(self.cell(grade_id))

    def answer(self, name: str, text: str) -> None:
        """Put a text into a function's cell."""
        self.cell(name).source = text

    def spoil(self, name: str, before: str = "") -> None:
        """Answer a function wrongly: it does nothing. `before`: what stands above it in its cell."""
        self.answer(name, before + WRONG.format(name=name))

    def insert(self, text: str, before: str) -> None:
        """Put a code cell of the student's own before a named cell."""
        cell = nbformat.v4.new_code_cell(text)
        self.notebook.cells.insert(self.index(before), cell)

    def as_text(self) -> str:
        """The notebook as a file holds it. Nothing is validated."""
        return nbformat.writes(self.notebook, version=nbformat.NO_CONVERT)

    def write(self) -> None:
        """Write the notebook's file."""
        if self.name is not None:
            data = self.as_text().encode() if self.text is None else self.text
            (self.folder / self.name).write_bytes(data)


@dataclass(frozen=True)
class HostileSubmission:
    """One file of tests/hostile.

    Attributes:
        name: of the file, without .py.
        path: of the file.
    """

    name: str
    path: Path

    @property
    def deserves(self) -> tuple[str, ...] | None:
        """The functions that deserve their marks; None if it can't be graded."""
        first = self.path.read_text().splitlines()[0]
        found = re.fullmatch(r"# Deserves: (everything|cannot be graded)(?: but ([a-z_, ]+))?", first)
        assert found, f"{self.name}: unexpected first line {first!r}"
        if found[1] == UNGRADABLE:
            return None
        exceptions = found[2].split(", ") if found[2] else []
        assert set(exceptions) <= set(FUNCTIONS), self.name
        return tuple(name for name in FUNCTIONS if name not in exceptions)

    def hand_in(self, folder: Path, released: NotebookNode, answers: Mapping[str, str]) -> None:
        """Make the submission.

        Args:
            folder: where the submission goes; made if it is missing.
            released: the notebook that students get. It is changed.
            answers: right answers by function.
        """
        folder.mkdir(parents=True, exist_ok=True)
        work = Work(folder, released)
        for name, text in answers.items():
            work.answer(name, text)
        runpy.run_path(str(self.path))["hand_in"](work)
        work.write()


def read_hostile() -> list[HostileSubmission]:
    """All of them, by name."""
    return [HostileSubmission(path.stem, path) for path in sorted(FOLDER.glob("*.py"))]


def right_answers() -> dict[str, str]:
    """The solutions of the assignment, by function."""
    notebook = nbformat.read(ROOT / "solutions" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", as_version=4)
    marked = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell.source for cell in notebook.cells}
    return {name: marked[name] for name in FUNCTIONS}


def released_notebook() -> NotebookNode:
    """What students get, as a fresh value."""
    return nbformat.read(ROOT / "exercises" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", as_version=4)
