"""The instructor's notebook: as it is graded, and as students got it.

It is made as `nbgrader generate_assignment` makes it, by the same preprocessors with the same configuration.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearHiddenTests,
    ClearMarkScheme,
    ClearOutput,
    ComputeChecksums,
    LockCells,
)

from distlib.classroom.grader.starting_text import ClearSolutionsToStart

_TO_GRADE = (LockCells, ClearSolutionsToStart, ClearOutput, CheckCellMetadata, ComputeChecksums)
_TO_RELEASE = (ClearHiddenTests, ClearMarkScheme)


@dataclass(frozen=True)
class Source:
    """One assignment's notebook.

    Attributes:
        notebook: with empty solution cells and with hidden tests, as the gradebook has it.
        released: the text of each of its cells as students got it.
    """

    notebook: NotebookNode
    released: list[str]


def read_source(path: Path, config: Any) -> Source:
    """The instructor's notebook file.

    Args:
        path: the notebook with solutions and hidden tests.
        config: nbgrader's configuration of the course.

    Raises:
        OSError, ValueError, RuntimeError: it can't be read, or nbgrader does not accept it.
    """
    return make_source(nbformat.read(path, as_version=4), config)


def make_source(notebook: NotebookNode, config: Any) -> Source:
    """Make a source from a notebook, which is not changed."""
    to_grade = _processed(copy.deepcopy(notebook), _TO_GRADE, config)
    released = _processed(copy.deepcopy(to_grade), _TO_RELEASE, config)
    return Source(to_grade, [cell.source for cell in released.cells])


def _processed(notebook: NotebookNode, steps: tuple[Any, ...], config: Any) -> NotebookNode:
    for step in steps:
        notebook, _ = step(config=config).preprocess(notebook, {})
    return notebook
