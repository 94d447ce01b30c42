"""Notebooks as pages: a lesson with the outputs of its stored run, an exercise as students get it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from distlib.authoring.cells import FOLDED
from distlib.authoring.site.one_click import one_click_links
from distlib.authoring.site.page_outputs import PageOutputs
from distlib.authoring.stored_runs import StoredRuns
from distlib.classroom.student_copies.copy_paths import lesson_for
from distlib.folded_answers import is_answer

_NO_RUN = "No run of this lesson is stored, so this page has no outputs."


@dataclass(frozen=True)
class NotebookPage:
    """A notebook that Sphinx can read.

    Attributes:
        text: the .ipynb.
        images: name to content of the pictures that it shows.
    """

    text: str
    images: Mapping[str, bytes]


def lesson_page(runs: StoredRuns, lesson: str, repository: str) -> NotebookPage:
    """A lesson; without outputs where no run of this text is stored, and it says so.

    Args:
        runs: where the runs are.
        lesson: its name, such as "02_all_reduce".
        repository: "ACCOUNT/REPOSITORY" on GitHub, or "": then nothing opens it elsewhere.
    """
    path = runs.root / "course" / f"{lesson}.ipynb"
    run = runs.read(lesson)
    links = [_download(f"../notebooks/{path.name}"), *one_click_links(repository, lesson)]
    links = [*exercise_links(runs.root, lesson, "../"), *links]
    notes = [] if run else [_NO_RUN]
    return _page(run or nbformat.read(path, as_version=4), [" · ".join(links), *notes])


def exercise_page(path: Path) -> NotebookPage:
    """An exercise as it is released: with its stubs, without solutions and hidden tests."""
    lesson = lesson_for(path.stem, path.parents[2])
    links = [f"[the lesson](../../course/{lesson}.ipynb)", _download(f"../../notebooks/exercise_{path.name}")]
    return _page(nbformat.read(path, as_version=4), [" · ".join(links)])


def exercise_links(root: Path, lesson: str, back: str = "") -> list[str]:
    """Links to the exercises of a lesson: "the exercise", and those of its number that have no lesson: "exercise 17b".

    Args:
        root: the course's folder.
        lesson: its name.
        back: from the page to that folder, such as "../".
    """
    names = [
        path.stem for path in sorted(root.glob("exercises/*/[0-9]*.ipynb")) if lesson_for(path.stem, root) == lesson
    ]
    words = ["the exercise" if name == lesson else f"exercise {name.partition('_')[0]}" for name in names]
    return [f"[{said}]({back}exercises/{name}/{name}.ipynb)" for said, name in zip(words, names, strict=True)]


def other_page(path: Path) -> NotebookPage:
    """Any other notebook of course/, as it is."""
    return _page(nbformat.read(path, as_version=4), [_download(f"../notebooks/{path.name}")])


def _download(address: str) -> str:
    return f'<a href="{address}" download>the notebook</a>'


def _page(notebook: Any, below_the_title: list[str]) -> NotebookPage:
    outputs = PageOutputs(notebook)
    cells = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict(output) for output in outputs.of_cell(cell)]
            cell.metadata = nbformat.from_dict(_folding(cell))
        cells.append(cell)
    cells.insert(1, nbformat.v4.new_markdown_cell("\n\n".join(below_the_title), id="below-the-title"))
    notebook.cells = cells
    notebook.metadata = {name: notebook.metadata[name] for name in ("kernelspec", "language_info")}
    return NotebookPage(nbformat.writes(notebook), outputs.images)


def _folding(cell: Any) -> dict[str, Any]:
    """The metadata of a code cell. Folded, it shows the comment that is its first line, and what it has drawn or said.

    Of an answer nothing else is shown: its output says only that it has not run. The call that asks for a prediction is
    not shown above its form, which has the same question.
    """
    if cell.outputs and re.match(r"guess_\d+ = predict\(", cell.source):
        return {"tags": ["remove-input"]}
    if FOLDED not in cell.metadata.get("tags", ()):
        return {}
    title = cell.source.partition("\n")[0].removeprefix("# ")
    hidden = "hide-cell" if is_answer(cell.source) else "hide-input"
    return {"tags": [hidden], "mystnb": {"code_prompt_show": title, "code_prompt_hide": title}}
