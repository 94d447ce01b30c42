"""Making the copies that are missing, and bringing new versions of the course to the others.

A copy names, in its metadata, the version that it was made from; that version is kept in `.originals`. So the student's
own changes are known whatever happens to a copy in between: renamed and renamed back, restored from a backup, saved
once more by a tab that was still open.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from distlib.classroom.student_copies.copy_paths import (
    BACKUPS,
    EXERCISES,
    FOLDER,
    FOR_ASSISTANTS,
    LESSONS,
    ORIGINALS,
    as_copy,
    copies,
    linked_files,
)
from distlib.classroom.student_copies.merge import is_untouched, merge
from distlib.classroom.student_copies.notebook_json import (
    Notebook,
    fingerprint,
    read_notebook,
    write_notebook,
)
from distlib.whole_file import make_private, write_file


@dataclass(frozen=True)
class Brought:
    """What was done to one copy.

    Attributes:
        copy: its path.
        what: "made": it was missing. "replaced": nobody had written in it. "merged": with what was written in it.
            "unreadable": left alone, because it is no notebook. "broken": left alone, because the course's is none.
        backup: of a merged one, the copy as it was before.
    """

    copy: Path
    what: Literal["made", "replaced", "merged", "unreadable", "broken"]
    backup: Path | None = None


def bring(course: Path) -> list[Brought]:
    """Make the missing copies and bring new versions to the others. Returns what was changed.

    Args:
        course: the course's folder.

    Raises:
        OSError: the folder can't be written.
    """
    make_private(course / FOLDER)
    brought = [done for copy, original in copies(course).items() for done in _bring(course, copy, original)]
    if not (course / FOLDER / FOR_ASSISTANTS.name).exists():
        write_file(course / FOLDER / FOR_ASSISTANTS.name, FOR_ASSISTANTS.read_bytes())
    return brought


def _bring(course: Path, copy: Path, original: Path) -> Iterator[Brought]:
    notebook = _readable(original)
    if notebook is None:
        yield Brought(copy, "broken")
        return
    new = as_copy(notebook, _folder(course, copy))
    version = fingerprint(new)
    new["metadata"] = {**new["metadata"], "distlib": {"version": version}}
    for link in linked_files(original, notebook):
        _write_if_new(copy.parent / link, (original.parent / link).read_bytes())
    if not _original(course, version).exists():
        write_notebook(_original(course, version), new)
    if not copy.exists():
        write_notebook(copy, new)
        yield Brought(copy, "made")
        return
    mine = _readable(copy)
    if mine is None:
        yield Brought(copy, "unreadable")
    elif version_of(mine) != version:
        yield from _update(course, copy, mine, new)


def _update(course: Path, copy: Path, mine: Notebook, new: Notebook) -> Iterator[Brought]:
    old = _readable(_original(course, version_of(mine)))
    if old is None:  # such as one fetched from nbgrader's exchange, with the links of the course
        mine = as_copy(mine, _folder(course, copy))
    untouched = is_untouched(old or new, mine)
    backup = None if untouched else back_up(course, copy)
    write_notebook(copy, merge(old, mine, new))
    if not untouched or old is not None:
        yield Brought(copy, "replaced" if untouched else "merged", backup)


def _folder(course: Path, copy: Path) -> str:
    return EXERCISES if copy.is_relative_to(course / EXERCISES) else LESSONS


def version_of(copy: Notebook) -> str:
    """The version of the course that a copy was made from; empty if it does not say."""
    said = copy["metadata"].get("distlib")
    return str(said.get("version", "")) if isinstance(said, dict) else ""


def course_version(original: Notebook, copy: str) -> str:
    """The version that a fresh copy would be made from.

    Args:
        original: a notebook of the course.
        copy: the path of its copy in the folder of copies.
    """
    return fingerprint(as_copy(original, _folder(Path(), Path(FOLDER) / copy)))


def _original(course: Path, version: str) -> Path:
    return course / ORIGINALS / f"{version or 'unknown'}.ipynb"


def _readable(path: Path) -> Notebook | None:
    try:
        return read_notebook(path)
    except (FileNotFoundError, ValueError):
        return None


def back_up(course: Path, copy: Path) -> Path:
    """Copy a notebook to a name in the folder of backups that is still free. Returns the backup's path."""
    stem = f"{copy.stem}_{time.strftime('%Y-%m-%d_%H-%M-%S')}"
    folder, number = course / BACKUPS, 1
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}.ipynb"
    while path.exists():
        number += 1
        path = folder / f"{stem}_{number}.ipynb"
    shutil.copy2(copy, path)
    return path


def _write_if_new(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        write_file(path, content)
