"""A notebook as JSON: its cells, and what is in them. Unlike nbformat it loads in no time, and repairs nothing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from distlib.ordinary_file import read_ordinary
from distlib.whole_file import write_file

Notebook = dict[str, Any]
Cell = dict[str, Any]


def read_notebook(path: Path) -> Notebook:
    """Read a notebook.

    Raises:
        ValueError: the file is not a notebook.
        OSError: the file can't be read.
    """
    return parse_notebook(read_ordinary(path), path)


def parse_notebook(content: bytes, path: Path) -> Notebook:
    """A notebook whose file was read.

    Args:
        content: of the file.
        path: of the file, for the message.

    Raises:
        ValueError: the file is not a notebook.
    """
    notebook = json.loads(content.decode("utf-8"))
    if not isinstance(notebook, dict) or not isinstance(notebook.get("metadata"), dict):
        raise ValueError(f"{path} is not a notebook")
    if not all(isinstance(cell, dict) for cell in notebook.get("cells", [None])):
        raise ValueError(f"{path} is not a notebook of version 4")
    return notebook


def write_notebook(path: Path, notebook: Notebook) -> None:
    """Write a notebook at once: a reader sees the old file or the new one, never half of it."""
    write_file(path, (json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode())


def text_of(cell: Cell) -> str:
    """What is written in a cell."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(map(str, source)) if isinstance(source, list) else ""


def content_of(cell: Cell) -> tuple[str, str]:
    """The kind of a cell and what is written in it: cells with the same content say the same thing."""
    return str(cell.get("cell_type")), text_of(cell).rstrip()


def mark_of(cell: Cell) -> dict[str, Any]:
    """nbgrader's metadata of a cell; empty if it has none."""
    metadata = cell.get("metadata")
    mark = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return mark if isinstance(mark, dict) else {}


def name_of(cell: Cell) -> str:
    """nbgrader's grade_id of a cell; empty if it has none."""
    return str(mark_of(cell).get("grade_id", ""))


def is_answer(cell: Cell) -> bool:
    """Whether students write their answer into this cell."""
    return bool(mark_of(cell).get("solution") or mark_of(cell).get("task"))


def without_outputs(cell: Cell) -> Cell:
    """The cell as if it had never run."""
    return {**cell, "outputs": [], "execution_count": None} if cell.get("cell_type") == "code" else dict(cell)


def fingerprint(notebook: Notebook) -> str:
    """A text that two notebooks share if, and only if, their cells and metadata are the same."""
    return hashlib.sha256(json.dumps(notebook, sort_keys=True).encode()).hexdigest()[:20]
