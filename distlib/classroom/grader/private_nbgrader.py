"""All private names of nbgrader that this package uses. A new version may take any of them away without notice.

Whoever needs another adds it here: `tests/test_private_names.py` says which is gone, and lets no other file use one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def allowed_penalty(step: Any, notebook: Any, penalty: float) -> float:
    """A penalty for being late, at least 0 and at most the notebook's score. step: nbgrader's `AssignLatePenalties`."""
    allowed: float = step._check_late_penalty(notebook, penalty)
    return allowed


def folders_of(converter: Any, assignment: str, student: str) -> tuple[Path, Path]:
    """The folder of a student's work that a converter of nbgrader's reads, and the one that it writes."""
    return Path(converter._format_source(assignment, student)), Path(converter._format_dest(assignment, student))
