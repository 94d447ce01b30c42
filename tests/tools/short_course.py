"""A course with one exercise of which some functions and cases are left out.

Two functions show as much of a grader as four, in half the time, and a few cases as much as fifty.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.answer_verdicts import KINDS

# What to replace in the test cells of 02_all_reduce, and of OverlappedDDP in 05_ddp.
FEWER_CASES = {
    "world_sizes=(1, 2, 3, 4, 5, 9), ": "world_sizes=(2, 5), ",
    "(torch.float32, torch.float64, torch.int64, torch.bfloat16": "(torch.float64, torch.int64",
    'layouts=("block", "transposed", "strided")': 'layouts=("strided",)',
}
FEWER_TRAININGS = {
    "world_sizes=(1, 2, 4),": "world_sizes=(2,),",
    "world_sizes=(2, 3),": "world_sizes=(3,),",
    "world_sizes=(2, 4),\n    trainings=": "world_sizes=(2,),\n    trainings=",
    "assert all(hidden_share_of(report[number]) > 0.5 for number in (1, 2))\n": "",
}


def short_course(
    root: Path, folder: Path, assignment: str, functions: Sequence[str], smaller: Mapping[str, str] | None = None
) -> Path:
    """Copy an exercise of the course in `root` into a new course, with the answers and tests of `functions` only.

    The parts of an exercise are graded independently of each other, so nothing changes for those that are left.

    Args:
        smaller: what to replace in all test cells, so that they have fewer cases. Each text must be there. How many
            cases there are is not asserted then.

    Returns:
        The new course's folder, `folder`.
    """
    source = Path("solutions") / assignment / f"{assignment}.ipynb"
    notebook = json.loads((root / source).read_text(encoding="utf-8"))
    kept = {*functions, *(f"{function}_{kind}" for function in functions for kind in KINDS)}
    notebook["cells"] = [cell for cell in notebook["cells"] if not _is_graded(cell) or _name(cell) in kept]
    assert kept == {_name(cell) for cell in notebook["cells"] if _is_graded(cell)}
    tests = [cell for cell in notebook["cells"] if _is_graded(cell) and _name(cell) not in functions]
    for old, new in (smaller or {}).items():
        assert any(old in "".join(cell["source"]) for cell in tests), old
        for cell in tests:
            cell["source"] = "".join(cell["source"]).replace(old, new)
    for cell in tests if smaller else ():
        cell["source"] = re.sub(r"(?m)^assert len\(report\) == \d+\n", "", "".join(cell["source"]))
    (folder / source).parent.mkdir(parents=True)
    (folder / source).write_text(json.dumps(notebook), encoding="utf-8")
    shutil.copy(root / "nbgrader_config.py", folder)
    return folder


def _is_graded(cell: dict) -> bool:  # type: ignore[type-arg]
    mark = cell["metadata"].get("nbgrader", {})
    return cell["cell_type"] == "code" and bool(mark.get("solution") or mark.get("grade"))


def _name(cell: dict) -> str:  # type: ignore[type-arg]
    return str(cell["metadata"]["nbgrader"]["grade_id"])
