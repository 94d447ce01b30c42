"""Which Python a class is graded with, as the students' copies know it: a line in a file that the release writes.

Where the instructor's notebooks are, it is this one. Elsewhere, without the file, nobody knows.
"""

from __future__ import annotations

import platform
from pathlib import Path

from distlib.python_text import Version, here, version_in

GRADED_WITH = "graded_with.txt"  # in the course's folder


def graded_with(course: Path) -> Version | None:
    """The version of the Python that grades; None if it is not known.

    Args:
        course: the course's folder.
    """
    try:
        return version_in((course / GRADED_WITH).read_text(encoding="utf-8").removeprefix("Python "))
    except (OSError, UnicodeDecodeError):
        return here() if (course / "solutions").is_dir() else None


def line_of_release(version: str = "") -> str:
    """The file's text. version: of the Python that grades, such as "3.12"; "" for this one.

    Raises:
        ValueError: it is no version.
    """
    if version_in(version or platform.python_version()) is None:
        raise ValueError(f"a version of Python is like 3.12, got {version!r}")
    return f"Python {version or platform.python_version()}\n"
