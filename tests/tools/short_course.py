"""A course with one exercise of which some functions are left out: what is told by two of them takes half the time."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.answer_verdicts import KINDS


def short_course(root: Path, folder: Path, assignment: str, functions: Sequence[str]) -> Path:
    """Copy an exercise of the course in `root` into a new course, with the answers and tests of `functions` only.

    The parts of an exercise are graded independently of each other, so nothing changes for those that are left.

    Returns:
        The new course's folder, `folder`.
    """
    source = Path("solutions") / assignment / f"{assignment}.ipynb"
    notebook = json.loads((root / source).read_text(encoding="utf-8"))
    kept = {*functions, *(f"{function}_{kind}" for function in functions for kind in KINDS)}
    notebook["cells"] = [cell for cell in notebook["cells"] if not _is_graded(cell) or _name(cell) in kept]
    assert kept == {_name(cell) for cell in notebook["cells"] if _is_graded(cell)}
    (folder / source).parent.mkdir(parents=True)
    (folder / source).write_text(json.dumps(notebook), encoding="utf-8")
    shutil.copy(root / "nbgrader_config.py", folder)
    return folder


def _is_graded(cell: dict) -> bool:  # type: ignore[type-arg]
    mark = cell["metadata"].get("nbgrader", {})
    return cell["cell_type"] == "code" and bool(mark.get("solution") or mark.get("grade"))


def _name(cell: dict) -> str:  # type: ignore[type-arg]
    return str(cell["metadata"]["nbgrader"]["grade_id"])
