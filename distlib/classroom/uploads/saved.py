"""Is the file what the student sees? A notebook that is not saved is handed in as it was before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from distlib.classroom.grader.submission import HandedCell
from distlib.classroom.uploads.recognize import cell_of, definitions, normal


def run_differently(cells: Sequence[HandedCell], functions: Sequence[str], ran: Sequence[str]) -> list[str]:
    """The functions whose text, as the kernel ran it last, is in no cell of the saved notebook; and their helpers.

    Args:
        cells: of the saved notebook.
        functions: names.
        ran: the text of every cell that the kernel has run, in that order; empty in a terminal.
    """
    saved = {normal(cell.source) for cell in cells}
    last = {name: text for text in ran for name in definitions(text)}
    answers = [cell for name in functions if (cell := cell_of(cells, name))]
    used = {word for cell in answers for word in re.findall(r"[^\W\d]\w*", cell.source)}
    names = [*functions, *(name for name in last if name in used and name not in functions)]
    known = {name for cell in cells if cell.kind == "code" for name in definitions(cell.source)}
    return [name for name in names if name in last and name in known and normal(last[name]) not in saved]


def newer_checkpoint(path: Path) -> datetime | None:
    """When Jupyter's checkpoint of a notebook was written, if that is newer than the notebook and differs; else None.

    Jupyter writes both when a notebook is saved. An older notebook has been replaced by something else.
    """
    checkpoint = path.parent / ".ipynb_checkpoints" / f"{path.stem}-checkpoint.ipynb"
    try:
        newer = checkpoint.stat().st_mtime > path.stat().st_mtime + 2
        if newer and checkpoint.read_bytes() != path.read_bytes():
            return datetime.fromtimestamp(checkpoint.stat().st_mtime).astimezone()
    except OSError:
        pass
    return None


def ran_in_this_kernel() -> list[str]:
    """The text of every cell that this notebook's kernel has run; empty outside of one."""
    from IPython import get_ipython

    shell = get_ipython()
    return [str(text) for text in shell.history_manager.input_hist_raw] if shell is not None else []
