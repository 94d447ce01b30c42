"""nbgrader's exchange, where the student's machine has one: a folder that instructors collect from."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from nbgrader.apps import NbGrader
from nbgrader.exchange.default import Exchange as Settings

_PATIENCE = 120  # seconds for `nbgrader submit`


class ExchangeFails(Exception):
    """`nbgrader submit` failed. The message is its own."""


@dataclass(frozen=True)
class Exchange:
    """An exchange that takes an assignment. course: its name there; folder: where nbgrader's configuration is."""

    course: str
    folder: Path

    def submit(self, folder: Path, assignment: str) -> None:
        """Submit what is in folder/assignment, as `nbgrader submit` does.

        Raises:
            ExchangeFails: it was not submitted.
        """
        where = [f"--Exchange.assignment_dir={folder}", "--Exchange.path_includes_course=False"]
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", "submit", assignment, f"--course={self.course}", *where],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_PATIENCE,
        )
        if done.returncode:
            raise ExchangeFails(_message(done.stdout))


def _message(printed: str) -> str:
    """What nbgrader gives as the reason: its first line about an error, else its last line."""
    lines = [line for line in printed.splitlines() if line.strip()] or ["no message"]
    found = (re.fullmatch(r"\[\w+ \| (?:CRITICAL|ERROR)\] (.*)", line) for line in lines)
    return next((match[1] for match in found if match), lines[-1])


def find_exchange(folder: Path, assignment: str) -> Exchange | None:
    """The exchange that nbgrader's configuration names, if the assignment has been released there; else None.

    Args:
        folder: where nbgrader_config.py may be, besides Jupyter's own places.
        assignment: such as "02_all_reduce".
    """
    with contextlib.chdir(folder):
        app = NbGrader()
        app.initialize(["--log-level=CRITICAL"], root=str(folder))
        course, root = app.coursedir.course_id, Path(Settings(config=app.config).root)
    released = root / course / "outbound" / assignment
    return Exchange(course, folder) if course and released.is_dir() else None
