"""A run of a lesson, from top to bottom in a fresh kernel: which is then stored, see stored_runs."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from distlib.authoring.cells import AuthoringError

_SECONDS = 600  # for a cell, and for the kernel's start; lessons take a fraction of it


def run_lesson(path: Path) -> NotebookNode:
    """A lesson with the outputs of a run of it. The file stays as it is.

    Raises:
        AuthoringError: a cell fails, or the kernel does.
    """
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=_SECONDS, startup_timeout=_SECONDS, resources=where)
    try:
        return client.execute()
    except Exception as error:
        raise AuthoringError(f"{path.stem} fails: {error}") from None
