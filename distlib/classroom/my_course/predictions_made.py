"""Which predictions of a lesson were committed, before the run that answers them.

A form that was committed to says so in the output of its cell. A cell that runs again in a new kernel forgets it, so
what was seen is kept, as a hash of the cell, in `work/progress/predictions.json`:

{"format": 1, "lessons": {"lessons/lesson_02_all_reduce.ipynb": ["1f0c2a…", …]}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from distlib.classroom.my_course.kept_files import KeptFileError, read_kept, write_kept
from distlib.classroom.student_copies.copy_paths import FOLDER
from distlib.classroom.student_copies.notebook_json import Cell, Notebook, text_of
from distlib.draw.predictions.prediction import COMMITTED

PREDICTIONS = "predictions.json"
_ASKS = re.compile(r"^\w+ = predict\(", re.MULTILINE)


@dataclass(frozen=True)
class PredictionsMade:
    """Of a lesson's predictions, those that were committed.

    Attributes:
        asked: a hash for each question of the lesson.
        committed: likewise; some may be of an earlier version of the lesson.
    """

    asked: frozenset[str] = frozenset()
    committed: frozenset[str] = frozenset()

    @property
    def number(self) -> int:
        """How many were committed, of those that the lesson asks."""
        return min(len(self.committed), len(self.asked))

    @property
    def share(self) -> float:
        """How many of them were committed, from 0 to 1."""
        return self.number / len(self.asked) if self.asked else 0.0


def predictions_made(original: Notebook, mine: Notebook | None, before: frozenset[str]) -> PredictionsMade:
    """What a lesson asks, and what was committed, now or before.

    Args:
        original: the lesson as students get it.
        mine: the student's copy; None if there is none.
        before: hashes of what was kept.
    """
    asked = frozenset(_hash(cell) for cell in _questions(original))
    now = frozenset(_hash(cell) for cell in _questions(mine or {"cells": []}) if COMMITTED in _shown(cell))
    return PredictionsMade(asked, before | now)


def _questions(notebook: Notebook) -> Iterator[Cell]:
    return (cell for cell in notebook["cells"] if cell.get("cell_type") == "code" and _ASKS.search(text_of(cell)))


def _hash(cell: Cell) -> str:
    return sha256(text_of(cell).strip().encode()).hexdigest()[:20]


def _shown(cell: Cell) -> str:
    """The HTML that a cell shows."""
    outputs = cell.get("outputs")
    entries = outputs if isinstance(outputs, list) else []
    data = [entry.get("data") for entry in entries if isinstance(entry, dict)]
    return "\n".join(_text(each.get("text/html")) for each in data if isinstance(each, dict))


def _text(data: Any) -> str:
    return "".join(map(str, data)) if isinstance(data, list) else data if isinstance(data, str) else ""


def kept_predictions(course: Path) -> tuple[dict[str, frozenset[str]], str]:
    """By a notebook's path in `work/`: what was kept of it. And a sentence, if what was kept can't be read."""
    try:
        kept = read_kept(course, PREDICTIONS).get("lessons")
    except KeptFileError as error:
        return {}, str(error)
    pairs = kept.items() if isinstance(kept, dict) else ()
    return {name: frozenset(map(str, each)) for name, each in pairs if isinstance(each, list)}, ""


def keep_predictions(course: Path, made: Mapping[str, PredictionsMade]) -> str:
    """Keep what was committed, where it is not kept already. Returns what a student should know; "" for nothing.

    Raises:
        OSError: the folder can't be written.
    """
    before, _ = kept_predictions(course)
    now = {name: each.committed for name, each in sorted(made.items()) if each.committed}
    if {**before, **now} == before or not (course / FOLDER).is_dir():
        return ""
    lessons = {name: sorted(each) for name, each in {**before, **now}.items()}
    return write_kept(course, PREDICTIONS, {"lessons": lessons})
