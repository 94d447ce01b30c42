"""A class in a folder: hand in notebooks, run the real nbgrader with the shipped configuration, read the marks.

    folder/nbgrader_config.py        as in the project
           solutions/02_all_reduce/  the notebook with solutions and hidden tests
           exercises/02_all_reduce/  what students get
           classroom/                nbgrader's products: submitted, autograded, feedback, gradebook

For the demonstration of a graded class, and for tests that put answers into a notebook and have them graded.
nbgrader is imported only when a class is made.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import nbformat

_PATIENCE = 1_800  # seconds for one command of nbgrader


@dataclass(frozen=True)
class Classroom:
    """One assignment, its students and their marks. Make one with `open_classroom`.

    Attributes:
        folder: the folder that everything is in.
        assignment: the assignment's name, such as "02_all_reduce".
    """

    folder: Path
    assignment: str

    def hand_in(self, student: str, answers: Mapping[str, str], *, only_graded: bool = False) -> None:
        """Hand in the released notebook with the text of some solution cells replaced.

        Args:
            student: a made-up name.
            answers: from the name of a function to the text of its cell. Other cells stay as released.
            only_graded: leave out the code cells in which a student tries things, to save time.

        Raises:
            ValueError: the notebook has no solution cell of such a name.
        """
        notebook = nbformat.read(self._notebook("exercises"), as_version=4)
        cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell for cell in notebook.cells}
        for name, text in answers.items():
            if name not in cells or not cells[name].metadata.nbgrader.solution:
                raise ValueError(f"{self.assignment} has no solution cell {name!r}")
            cells[name].source = text
        if only_graded:
            notebook.cells = [
                cell for cell in notebook.cells if cell.cell_type != "code" or "nbgrader" in cell.metadata
            ]
        path = self.folder / "classroom" / "submitted" / student / self.assignment / f"{self.assignment}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)

    def solutions(self) -> dict[str, str]:
        """The text of each solution cell in the instructor's notebook, by the name of its function."""
        notebook = nbformat.read(self._notebook("solutions"), as_version=4)
        marked = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("solution")]
        return {cell.metadata.nbgrader.grade_id: cell.source for cell in marked}

    def nbgrader(self, command: str, *options: str) -> str:
        """Run one of nbgrader's commands in the folder, and return what it prints.

        Raises:
            RuntimeError: it failed; the message is what it printed.
        """
        return self._run("nbgrader", command, *options)

    def grade(self, *options: str) -> str:
        """Grade every submission with `distlib grade`, and return what it prints.

        Raises:
            RuntimeError: it failed, or somebody could not be graded; the message is what it printed.
        """
        return self._run("distlib.cli", "grade", self.assignment, *options)

    def _run(self, module: str, *words: str) -> str:
        command = [sys.executable, "-m", module, *words]
        done = subprocess.run(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_PATIENCE
        )
        if done.returncode:
            raise RuntimeError(f"{module} {words[0]} failed with status {done.returncode}:\n{done.stdout.strip()}")
        return done.stdout

    def autograde(self, *groups: str) -> None:
        """Run every submission, and put the marks into the gradebook.

        Args:
            groups: patterns of students' names, such as "left-*"; each group is graded by a process of its own, side by
                side. Without any, one process grades everybody.

        Raises:
            RuntimeError: a submission could not be graded.
        """
        with ThreadPoolExecutor(max(1, len(groups))) as pool:
            started = [pool.submit(self.nbgrader, "autograde", self.assignment, "--student", name) for name in groups]
        if not groups or any(done.exception() for done in started):
            # Kernels of two graders may choose the same port; whoever was not graded for that is graded now.
            self.nbgrader("autograde", self.assignment)

    def marks(self, student: str) -> dict[str, float]:
        """What a student got in each test cell, by the cell's name. What is marked by hand is not in it."""
        with self._gradebook() as gradebook:
            notebook = gradebook.find_submission_notebook(self.assignment, self.assignment, student)
            return {grade.name: grade.score for grade in notebook.grades if grade.cell.cell_type == "code"}

    def full_marks(self) -> dict[str, float]:
        """What can be had in each test cell, by the cell's name. What is marked by hand is not in it."""
        with self._gradebook() as gradebook:
            notebook = gradebook.find_notebook(self.assignment, self.assignment)
            return {cell.name: cell.max_score for cell in notebook.grade_cells if cell.cell_type == "code"}

    def graded_notebook(self, student: str) -> nbformat.NotebookNode:
        """A student's notebook with the outputs it had while it was graded."""
        path = self.folder / "classroom" / "autograded" / student / self.assignment / f"{self.assignment}.ipynb"
        return nbformat.read(path, as_version=4)

    def _notebook(self, of: str) -> Path:
        return self.folder / of / self.assignment / f"{self.assignment}.ipynb"

    def _gradebook(self):  # type: ignore[no-untyped-def]  # nbgrader has no types
        from nbgrader.api import Gradebook

        return Gradebook(f"sqlite:///{self.folder / 'classroom' / 'gradebook.db'}")


def open_classroom(project: Path, folder: Path, assignment: str, kind: type[Classroom] = Classroom) -> Classroom:
    """Make a class in `folder` (new or empty) with one assignment of `project`, as an instructor would.

    Args:
        kind: `Classroom`, or a class of it that runs nbgrader in a way of its own.

    Raises:
        RuntimeError: nbgrader could not make the release.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(project / "nbgrader_config.py", folder)
    notebooks = shutil.ignore_patterns("*.py", ".ipynb_checkpoints", "__pycache__")
    shutil.copytree(project / "solutions" / assignment, folder / "solutions" / assignment, ignore=notebooks)
    classroom = kind(folder.resolve(), assignment)
    classroom.nbgrader("generate_assignment", assignment)
    return classroom


def marks_table(classroom: Classroom, students: Sequence[str]) -> str:
    """The marks of some students by function, as text: a line a student, "4 / 4" where all is right."""
    full = _by_function(classroom.full_marks())
    lines = [["", *full, "all"]]
    for student in students:
        got = _by_function(classroom.marks(student))
        cells = [f"{got[name]:g} / {full[name]:g}" for name in full]
        lines.append([student, *cells, f"{sum(got.values()):g} / {sum(full.values()):g}"])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _by_function(marks: Mapping[str, float]) -> dict[str, float]:
    """From marks by test cell to marks by function: <name>_visible and <name>_hidden together."""
    together: dict[str, float] = {}
    for cell, points in marks.items():
        name = cell.removesuffix("_visible").removesuffix("_hidden")
        together[name] = together.get(name, 0.0) + points
    return together
