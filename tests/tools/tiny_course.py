"""A course with one small assignment, and a simple judge, for tests of what is around judging."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output

from distlib.authoring.notebook import notebook_from_text
from distlib.checks.training_scores import KEY
from distlib.classroom.grader.examine import Judge
from tests.tools.nbgrader_process import nbgrader

ROOT = Path(__file__).parents[2]
# What a release takes along besides folders.
DOCUMENTS = (
    *(".dockerignore", "README.md", "ANYWHERE.md", "LICENSE", "LICENSE-prose"),
    *("Makefile", "pyproject.toml", "constraints.txt", "distlib_backend.py"),
)
NAME = "01_tiny"
CELLS = ("double_visible", "double_hidden", "negate_visible", "negate_hidden")
TEXT = '''
# %% [markdown]
# # Tiny

# %% readonly="setup"
unit = 1


# %% solution="double"
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION


# %%
print(double(3))

# %% test="double_visible" points=1
assert double(2) == 4 * unit, "double(2) is wrong"

# %% test="double_hidden" points=2
# Hidden tests of double.
### BEGIN HIDDEN TESTS
### What this tests: a large number.
secret_number = 123456
assert double(secret_number) == 246912, "double is wrong for a large number"
### END HIDDEN TESTS


# %% solution="negate"
def negate(x):
    """The negative of x."""
    ### BEGIN SOLUTION
    return -x
    ### END SOLUTION


# %% test="negate_visible" points=1
assert negate(2) == -2, "negate(2) is wrong"

# %% test="negate_hidden" points=2
### BEGIN HIDDEN TESTS
assert negate(-7) == 7
### END HIDDEN TESTS

# %% [markdown] answer="why" points=2
# Because.
'''.lstrip()
TRAINED = "# trained"  # a comment of a student whose training the judge has measured
TRAINING = {"setting": "two alike", "seconds": 1.5, "par": 2.0, "goal": 0.27, "curve": [[0.0, 2.3], [1.5, 0.25]]}
RIGHT = {"double": "def double(x):\n    return x + x", "negate": "def negate(x):\n    return 0 - x"}


@dataclass(frozen=True)
class Judged:
    """What `simple_judge` returns."""

    notebook: NotebookNode
    remarks: list[str] = field(default_factory=list)


def simple_judge(notebook: NotebookNode, seed: str, times: float = 1, only: Collection[str] | None = None) -> Judged:
    """Runs a notebook in this process, in one namespace. What a student writes may do harm to it: see the constants.

    The seed is a remark where a student's comment asks for it.
    """
    done, namespace = copy.deepcopy(notebook), {"print": lambda *words: None}
    for number, cell in enumerate((cell for cell in done.cells if cell.cell_type == "code"), 1):
        mark = cell.metadata.get("nbgrader", {})
        if only is not None and mark.get("grade") and mark["grade_id"] not in only:
            continue
        cell.execution_count = number
        obey(cell.source)
        try:
            exec(cell.source, namespace)
            if TRAINED in notebook.cells[2].source and mark.get("grade_id") == "negate_hidden":
                told = {KEY: [TRAINING]}
                cell.outputs = [new_output("display_data", {"text/plain": "trained"}, metadata=told)]
        except Exception as error:
            lines = f"{type(error).__name__}: {error}".splitlines()
            cell.outputs = [new_output("error", ename=type(error).__name__, evalue=str(error), traceback=lines)]
    remarks = {"# slow": "it was slow", "# seed": f"seed {seed}"}
    found = [remark for sign, remark in remarks.items() if sign in notebook.cells[2].source]
    return Judged(done, found + ([f"{times:g} times as much time"] if times > 1 else []))


def simple_judges(notebook: NotebookNode) -> AbstractContextManager[Judge]:
    """The same judge for each submission."""
    return nullcontext(simple_judge)


DIES, HANGS, KILLS_THE_GRADER = "# dies", "# hangs", "# kills the grader unless "


def obey(source: str) -> None:
    """Do what a student's comment says."""
    if DIES in source:
        os._exit(3)
    if HANGS in source:
        time.sleep(1000)
    if KILLS_THE_GRADER in source:
        marker = Path(source.split(KILLS_THE_GRADER)[1].splitlines()[0])
        grader = multiprocessing.parent_process()
        if not marker.exists() and grader is not None and grader.pid is not None:
            marker.touch()
            os.kill(grader.pid, signal.SIGKILL)
            time.sleep(1000)


@dataclass(frozen=True)
class TinyCourse:
    """A course in a folder. Make one with `make_tiny_course`, and copies of it."""

    root: Path

    def copy_to(self, folder: Path) -> TinyCourse:
        shutil.copytree(self.root, folder)
        return TinyCourse(folder)

    def released(self) -> dict[str, Any]:
        notebook: dict[str, Any] = json.loads((self.root / "exercises" / NAME / f"{NAME}.ipynb").read_text())
        return notebook

    def folder(self, student: str, step: str = "submitted") -> Path:
        return self.root / "classroom" / step / student / NAME

    def hand_in(self, student: str, answers: Mapping[str, str], timestamp: str = "") -> Path:
        """Hand in the released notebook with some answers. Returns the folder."""
        notebook = self.released()
        for cell in notebook["cells"]:
            cell["source"] = answers.get(cell["id"], "".join(cell["source"]))
        folder = self.folder(student)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NAME}.ipynb").write_text(json.dumps(notebook))
        if timestamp:
            (folder / "timestamp.txt").write_text(timestamp)
        return folder

    def autograded(self, student: str) -> NotebookNode:
        return nbformat.read(self.folder(student, "autograded") / f"{NAME}.ipynb", as_version=4)

    def nbgrader(self, command: str, *options: str) -> str:
        return nbgrader(self.root, command, *options)

    @property
    def gradebook(self) -> Path:
        return self.root / "classroom" / "gradebook.db"

    @property
    def gradebook_url(self) -> str:
        return f"sqlite:///{self.gradebook}"


def write_answers(folder: Path, answers: Mapping[str, str]) -> None:
    """The exercise in a folder of an instructor's own, with answers to it: texts by function/answer."""
    notebook = folder / "solutions" / NAME / f"{NAME}.ipynb"
    notebook.parent.mkdir(parents=True)
    notebook.write_text(notebook_from_text(TEXT, f"{NAME}.py", graded=True))
    for name, text in answers.items():
        path = folder / "tests" / "answers" / NAME / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip())


def make_tiny_course(folder: Path) -> TinyCourse:
    """A course whose assignment is released; nobody has handed in."""
    source = folder / "solutions" / NAME
    source.mkdir(parents=True)
    (source / f"{NAME}.ipynb").write_text(notebook_from_text(TEXT, "tiny.py", graded=True))
    (source / "data.csv").write_text("1,2,3")
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    course = TinyCourse(folder)
    course.nbgrader("generate_assignment", NAME)
    return course
