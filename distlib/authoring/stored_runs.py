"""Stored runs: each lesson as a notebook with the outputs of a real run, in a folder that git ignores.

A run carries two digests: of the lesson's text, and of the package that it ran with. With another text it can't be
shown, since its outputs belong to other cells. With another package it can be shown; it is out of date.
The site and the slides are made of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from distlib.authoring.lesson_run import run_lesson
from distlib.whole_file import write_file

_STAMP = "distlib_run"  # where a stored notebook's metadata has the two digests


@dataclass(frozen=True)
class StoredRuns:
    """The runs of the lessons of a course.

    Attributes:
        root: the course's folder, with course/ and distlib/.
        folder: where the runs are kept; None: root/.runs.
    """

    root: Path
    folder: Path | None = None

    def lessons(self) -> list[str]:
        """The names of the lessons, in the order of their numbers: 00_start_here, 01_messages, …"""
        return [path.stem for path in sorted(self.root.glob("course/[0-9]*.ipynb"))]

    def read(self, lesson: str) -> Any | None:
        """The stored notebook of a lesson; None when there is none, or its text has changed since."""
        run = self._stored(lesson)
        return run if run and run.metadata[_STAMP]["text"] == self._text_digest(lesson) else None

    def is_current(self, lesson: str) -> bool:
        """Whether there is a run of this text with this package."""
        run = self.read(lesson)
        return run is not None and package_of(run) == self.package_digest()

    def current(self, lesson: str) -> Any:
        """A run of this text with this package: the stored one, or a new one.

        Raises:
            AuthoringError: the lesson has to be run, and fails.
        """
        if not self.is_current(lesson):
            self.make(lesson)
        return self.read(lesson)

    def make(self, lesson: str) -> None:
        """Runs a lesson from top to bottom in a fresh kernel, and stores it.

        Raises:
            AuthoringError: it fails. What was stored before stays.
        """
        # Before the run: what changes meanwhile makes it out of date.
        stamp = {"text": self._text_digest(lesson), "package": self.package_digest()}
        run = run_lesson(self._source(lesson))
        run.metadata[_STAMP] = stamp
        write_file(self._path(lesson), nbformat.writes(run).encode())

    def package_digest(self) -> str:
        """What the package is: all of its files that a lesson can meet."""
        files = (path for path in (self.root / "distlib").rglob("*") if path.is_file())
        return _digest(
            path.relative_to(self.root).as_posix().encode() + path.read_bytes()
            for path in sorted(files)
            if path.suffix != ".pyc" and "authoring" not in path.parts
        )

    def _text_digest(self, lesson: str) -> str:
        return _digest([self._source(lesson).read_bytes()])

    def _stored(self, lesson: str) -> Any | None:
        """What is stored, whatever it belongs to; None also when it can't be read: it is made again."""
        try:
            run = nbformat.read(self._path(lesson), as_version=4)
        except (OSError, ValueError, AttributeError, nbformat.ValidationError):
            return None
        return run if _STAMP in run.metadata else None

    def _source(self, lesson: str) -> Path:
        return self.root / "course" / f"{lesson}.ipynb"

    def _path(self, lesson: str) -> Path:
        return (self.folder or self.root / ".runs") / f"{lesson}.ipynb"


def package_of(run: Any) -> str:
    """The digest of the package that a stored notebook ran with."""
    return str(run.metadata[_STAMP]["package"])


def _digest(pieces: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for piece in pieces:
        total.update(len(piece).to_bytes(8, "big") + piece)
    return total.hexdigest()[:16]
