"""TensorFlow and JAX in a sandbox: which of them a notebook needs.

Importing one takes seconds, up to ten of the processor. So the sandbox's fork server imports it once, before it is
forked for a submission, and all ranks are forks that have it. Forking is safe as long as nothing has been computed:
neither starts a thread of its own, or opens a device, before its first use.

A set-up cell says what is needed: it imports it. At the judge's side such a cell does not run: test cells compute
nothing with a framework, that is the ranks' part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nbformat import NotebookNode

from distlib.frameworks.optional import is_there
from distlib.judge.remote.forkserver import CanNotGrade

FRAMEWORKS = ("tensorflow", "jax")
_IMPORT = re.compile(rf"^\s*(?:import|from)\s+({'|'.join(FRAMEWORKS)})\b", re.MULTILINE)


def frameworks_in(source: str) -> set[str]:
    """The frameworks that a cell imports."""
    return set(_IMPORT.findall(source))


def frameworks_of(notebook: NotebookNode) -> set[str]:
    """The frameworks that the locked cells of a notebook import."""
    locked = [cell.source for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("locked")]
    return frameworks_in("\n".join(locked))


def check_installed(frameworks: Iterable[str]) -> None:
    """Raise CanNotGrade for a framework that this Python lacks."""
    for name in sorted(frameworks):
        if not is_there(name):
            raise CanNotGrade(f"this exercise needs {name}, which is not installed: run `distlib fetch {name}`.")
