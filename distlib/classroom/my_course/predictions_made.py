"""Which predictions of a lesson were committed, before the run that answers them.

A form that was committed to says so in the output of its cell, also whether a run of the same kernel had told the
answer before. An earlier kernel's answer still stands below the form: while the cell that compares says that no
prediction was committed, what is committed above it comes too late. A cell that runs again in a new kernel forgets what
was committed, so what was seen is kept, by a hash of the cell, in `work/progress/predictions.json`:

{"format": 2, "lessons": {"lessons/lesson_02_all_reduce.ipynb": {"1f0c2a…": {"question": "…", "said": "24 MB"}}}}

Format 1 had lists of hashes. They are read, and evidence like the others; what was asked and said is not known.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from distlib.classroom.my_course.evidence import CommittedPrediction
from distlib.classroom.my_course.kept_files import KeptFileError, read_kept, write_kept
from distlib.classroom.student_copies.copy_paths import FOLDER
from distlib.classroom.student_copies.notebook_json import Cell, Notebook, text_of
from distlib.draw.predictions.prediction import COMMITTED, NOT_COMMITTED

PREDICTIONS = "predictions.json"
_FORMAT = 2
_ASKS = re.compile(r"^(\w+) = predict\(", re.MULTILINE)
_QUESTION = re.compile(r"<b>(.*?)</b>", re.DOTALL)
_SAID = re.compile(re.escape(COMMITTED) + r"(.*?)\.?\s*(?:To make a prediction|</p>)", re.DOTALL)

Committed = dict[str, CommittedPrediction]
"""By a hash of the cell that asks."""


@dataclass(frozen=True)
class PredictionsMade:
    """Of a lesson's predictions, those that were committed.

    Attributes:
        asked: a hash for each question of the lesson.
        committed: some may be of an earlier version of the lesson.
    """

    asked: tuple[str, ...] = ()
    committed: Committed = field(default_factory=dict)

    @property
    def counted(self) -> list[CommittedPrediction]:
        """What was committed, the lesson's own questions first; never more than it asks."""
        own = [self.committed[each] for each in self.asked if each in self.committed]
        others = [made for name, made in self.committed.items() if name not in self.asked]
        return [*own, *others][: len(self.asked)]

    @property
    def number(self) -> int:
        """How many were committed, of those that the lesson asks."""
        return len(self.counted)


def predictions_made(original: Notebook, mine: Notebook | None, before: Committed) -> PredictionsMade:
    """What a lesson asks, and what was committed, now or before.

    Args:
        original: the lesson as students get it.
        mine: the student's copy; None if there is none.
        before: what was kept.
    """
    asked = dict.fromkeys(_hash(cell) for cell in original["cells"] if _asks(cell))
    now = dict(_committed(mine or {"cells": []}))
    first = {name: made for name, made in before.items() if made.question or name not in now}
    return PredictionsMade(tuple(asked), {**now, **first})


def _committed(notebook: Notebook) -> Iterator[tuple[str, CommittedPrediction]]:
    """What is committed in a notebook, unless what stands below a form has told the answer before."""
    cells = [cell for cell in notebook["cells"] if cell.get("cell_type") == "code"]
    for place, cell in enumerate(cells):
        if (
            (found := _asks(cell))
            and COMMITTED in (page := _shown(cell))
            and not _was_told(found[1], cells[place + 1 :])
        ):
            question, said = _QUESTION.search(page), _SAID.search(page)
            yield (
                _hash(cell),
                CommittedPrediction(*(html.unescape(each[1]) if each else "" for each in (question, said))),
            )


def _was_told(name: str, below: list[Cell]) -> bool:
    """Whether the cell that compares a prediction still shows the answer to one that was not committed."""
    for cell in below:
        if (again := _asks(cell)) and again[1] == name:
            return False
        if f"{name}.compare(" in text_of(cell):
            return NOT_COMMITTED in _shown(cell)
    return False


def _asks(cell: Cell) -> re.Match[str] | None:
    return _ASKS.search(text_of(cell)) if cell.get("cell_type") == "code" else None


def _hash(cell: Cell) -> str:
    return sha256(text_of(cell).strip().encode()).hexdigest()[:20]


def _shown(cell: Cell) -> str:
    """The HTML and the text that a cell shows."""
    outputs = cell.get("outputs")
    entries = [each for each in outputs if isinstance(each, dict)] if isinstance(outputs, list) else []
    data = [each["data"] for each in entries if isinstance(each.get("data"), dict)]
    shown = [_text(each.get(kind)) for each in data for kind in ("text/html", "text/plain")]
    return "\n".join([*shown, *(_text(each.get("text")) for each in entries)])


def _text(data: Any) -> str:
    return "".join(map(str, data)) if isinstance(data, list) else data if isinstance(data, str) else ""


def kept_predictions(course: Path) -> tuple[dict[str, Committed], str]:
    """By a notebook's path in `work/`: what was kept of it. And a sentence, if what was kept can't be read."""
    try:
        kept = read_kept(course, PREDICTIONS, _FORMAT).get("lessons")
    except KeptFileError as error:
        return {}, str(error)
    pairs = kept.items() if isinstance(kept, dict) else ()
    return {name: dict(_kept(each)) for name, each in pairs}, ""


def _kept(entry: Any) -> Iterator[tuple[str, CommittedPrediction]]:
    """What was kept of one lesson; what somebody has changed beyond use is left out."""
    if isinstance(entry, list):
        yield from ((str(each), CommittedPrediction()) for each in entry)
    elif isinstance(entry, dict):
        for name, made in entry.items():
            if isinstance(made, dict):
                yield name, CommittedPrediction(str(made.get("question", "")), str(made.get("said", "")))


def keep_predictions(course: Path, made: Mapping[str, PredictionsMade]) -> str:
    """Keep what was committed, where it is not kept already. Returns what a student should know; "" for nothing.

    Raises:
        OSError: the folder can't be written.
    """
    before, _ = kept_predictions(course)
    now = {name: each.committed for name, each in sorted(made.items()) if each.committed}
    if {**before, **now} == before or not (course / FOLDER).is_dir():
        return ""
    lessons = {name: {key: asdict(each) for key, each in kept.items()} for name, kept in {**before, **now}.items()}
    return write_kept(course, PREDICTIONS, {"lessons": lessons}, _FORMAT)
