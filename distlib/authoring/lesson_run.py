"""A run of a lesson, from top to bottom in a fresh kernel: which is then stored, see stored_runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

from distlib.authoring.cells import AuthoringError

_SECONDS = 600  # for a cell; lessons take a fraction of it
_PATIENCE = 200  # seconds for the kernel's start, and for what a cell has printed to come


def run_lesson(path: Path) -> NotebookNode:
    """A lesson with the outputs of a run of it. The file stays as it is.

    Raises:
        AuthoringError: a cell fails, or the kernel does.
    """
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    try:
        with kernel_without_ports() as settings:
            return NotebookClient(notebook, timeout=_SECONDS, resources=where, **settings).execute()
    except Exception as error:
        raise AuthoringError(f"{path.stem} fails: {error}") from None


@contextmanager
def kernel_without_ports() -> Iterator[dict[str, Any]]:
    """Settings of a NotebookClient that speaks with its kernel by files, which go at the end.

    Jupyter chooses a kernel's ports before the kernel takes them. Where much is under way, something else may take one
    meanwhile, and the kernel dies.
    """
    with tempfile.TemporaryDirectory(prefix="kernel-") as folder:
        by_files = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/socket"}})
        yield {"config": by_files, "startup_timeout": _PATIENCE, "iopub_timeout": _PATIENCE}
