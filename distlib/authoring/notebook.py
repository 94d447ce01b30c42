"""One text source (py:percent) to one notebook: the same bytes at every build, no outputs, no trace of jupytext."""

import re
from pathlib import PurePath
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

from distlib.authoring.cells import (
    CHECK,
    FOLDED,
    AuthoringError,
    check_assignment,
    check_cell,
    nbgrader_metadata,
    text_of,
)
from distlib.classroom.self_check.hints import all_hints

NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook_from_text(text: str, filename: str, *, graded: bool) -> str:
    """Returns the .ipynb (JSON text) that a py:percent source stands for.

    filename: what messages call the source. graded: whether cells may be marked for nbgrader; in a lesson they may not.
    Raises AuthoringError, beginning with `filename:line`, when the source breaks a rule.
    """
    parsed = jupytext.reads(text, fmt="py:percent")
    lines = _cell_lines(text, filename, len(parsed.cells))
    cells, marked, hints = [], [], _hints_by_function(filename)
    for position, (cell, line) in enumerate(zip(parsed.cells, lines, strict=True)):
        try:
            metadata = nbgrader_metadata(cell)
            if metadata is not None and not graded:
                raise AuthoringError("a lesson has no graded cells: move the cell to solutions/")
            check_cell(cell, metadata)
            cell.source = text_of(cell, PurePath(filename).stem)
        except (AuthoringError, SyntaxError) as error:
            raise AuthoringError(f"{filename}:{line}: {error}") from None
        cells.append(_clean_cell(cell, metadata, position))
        if metadata is not None:
            marked.append(metadata)
        if metadata is not None and metadata["solution"] and metadata["grade_id"] in hints:
            cells.append(_hint_cell(metadata["grade_id"], hints))
    try:
        check_assignment(marked)
    except AuthoringError as error:
        raise AuthoringError(f"{filename}: {error}") from None
    return _serialize(cells)


def _cell_lines(text: str, filename: str, count: int) -> list[int]:
    """The line number of each cell's `# %%`. Everything but a YAML header must stand in a cell."""
    body = re.sub(r"\A# ---\n(?:#.*\n)*?# ---\n", lambda header: "\n" * header.group().count("\n"), text)
    lines = [number for number, line in enumerate(body.splitlines(), 1) if line.startswith("# %%")]
    if len(lines) != count:
        raise AuthoringError(f"{filename}:1: the first cell must begin with '# %%' or '# %% [markdown]'")
    return lines


def _clean_cell(cell: NotebookNode, metadata: dict[str, object] | None, position: int) -> NotebookNode:
    kept: dict[str, Any] = {"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {}
    if FOLDED in kept.get("tags", ()):
        # What such a cell draws or says is for readers, but for what a check of the text says.
        kept["jupyter"] = {"source_hidden": True, "outputs_hidden": cell.source.startswith(CHECK)}
    if metadata is not None:
        kept["nbgrader"] = metadata
    # A random id would change every notebook at every build.
    cell_id = str(metadata["grade_id"]) if metadata is not None else f"cell-{position}"
    make = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}.get(
        cell.cell_type, nbformat.v4.new_raw_cell
    )
    return make(cell.source, metadata=kept, id=cell_id)


def _hints_by_function(filename: str) -> dict[str, str]:
    """By function, the folded hints of the exercise that a file such as 02_all_reduce.py is."""
    number = PurePath(filename).stem.partition("_")[0]
    return {each.function: each.folded() for each in all_hints() if each.exercise == number}


def _hint_cell(function: str, hints: dict[str, str]) -> NotebookNode:
    """A cell below the function's. It has a name of its own, so that no other cell's id changes."""
    return nbformat.v4.new_markdown_cell(hints[function], id=f"{function}_hints")


def _serialize(cells: list[NotebookNode]) -> str:
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=NOTEBOOK_METADATA)
    nbformat.validate(notebook)
    return str(nbformat.writes(notebook, version=4)).rstrip("\n") + "\n"
