"""The folder of the course that a student works in."""

from __future__ import annotations

from pathlib import Path


def course_folder(start: Path) -> Path | None:
    """The course's folder: the nearest one, from `start` upwards, that holds exercises/ and the package."""
    return next((folder for folder in [start, *start.parents] if _is_course(folder)), None)


def _is_course(folder: Path) -> bool:
    return (folder / "exercises").is_dir() and (folder / "distlib" / "__init__.py").is_file()
