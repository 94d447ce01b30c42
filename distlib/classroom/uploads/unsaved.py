"""Is the file what the student sees? A notebook that is not saved is handed in as it was before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from distlib.classroom.grader.submission import HandedCell
from distlib.classroom.uploads.bindings import bindings


def run_differently(cells: Sequence[HandedCell], functions: Sequence[str], ran: Sequence[str]) -> list[str]:
    """The functions, and what they use, whose text as the kernel ran it last is in no cell of the saved notebook.

    What a function uses are helpers, constants, classes and imports, and what those use in turn.

    Args:
        cells: of the saved notebook.
        functions: names.
        ran: the text of every cell that the kernel has run, in that order; empty in a terminal.
    """
    saved = [each for cell in cells if cell.kind == "code" for each in bindings(cell.source)]
    texts = {each.text for each in saved}
    last = {name: each for text in ran for each in bindings(text) for name in each.names}
    names = list(functions)
    for name in names:  # grows meanwhile
        found = [last[name]] if name in last else [each for each in saved if name in each.names]
        needed = sorted({need for each in found for need in each.needs} - set(names))
        names += [need for need in needed if need in last or any(need in each.names for each in saved)]
    return [name for name in names if name in last and last[name].text not in texts]


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
