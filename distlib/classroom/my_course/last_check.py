"""What the last check of an exercise said, kept in `work/progress/checks/`.

{"format": 1, "checked": "2030-11-02T21:47:02+00:00", "functions": {"ring_all_gather": "passes", …},
 "cells": {"ring_all_gather": "1f0c2a…", …}}

A cell stands there as a hash of its text, so that it can be told whether it has changed since.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from distlib.classroom.my_course.evidence import LastCheck, hash_of
from distlib.classroom.my_course.kept_files import KeptFileError, read_kept, write_kept
from distlib.classroom.self_check.results import FAILS, PASSES, FunctionRow, Results


def read_check(course: Path, exercise: str) -> tuple[LastCheck, str]:
    """What the last check of an exercise said; and a sentence, if what was kept can't be read.

    Args:
        course: the course's folder.
        exercise: such as "02_all_reduce".
    """
    try:
        kept = read_kept(course, _file(exercise))
        checked = datetime.fromisoformat(kept["checked"]) if kept else None
        return LastCheck(checked, _texts(kept, "functions"), _texts(kept, "cells")), ""
    except KeptFileError as error:
        return LastCheck(), f"{error} To know it again: distlib check {exercise}"
    except (KeyError, TypeError, ValueError, AttributeError):
        return LastCheck(), f"What the last check of {exercise} said was changed by hand. Run: distlib check {exercise}"


def keep_check(course: Path, results: Results) -> str:
    """Keep what a check said. Returns what a student should know; "" for nothing.

    Raises:
        OSError: the folder can't be written.
    """
    content = {
        "checked": datetime.now(UTC).isoformat(timespec="seconds"),
        "functions": {row.function: _state(row) for row in results.rows},
        "cells": {row.function: hash_of(row.source) for row in results.rows if row.source},
    }
    return write_kept(course, _file(results.name), content)


def _texts(kept: dict[str, Any], key: str) -> dict[str, str]:
    return {str(name): str(text) for name, text in kept.get(key, {}).items()}


def _state(row: FunctionRow) -> str:
    """Of a function whose hidden test fails, that; else what the visible test said."""
    return FAILS if row.hidden.state == FAILS else row.visible.state if not row.passes else PASSES


def _file(exercise: str) -> str:
    return f"checks/{exercise}.json"
