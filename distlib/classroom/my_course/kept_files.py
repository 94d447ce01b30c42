"""Readable JSON files in `work/progress/`. None holds an absolute path, so that the folder can move; none is ever sent.

Each says in which format it is: {"format": 1, …}. One that can't be read, or that a newer version has written, is never
written over: it is set aside, in `work/progress/set_aside/`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from distlib.classroom.student_copies.copy_paths import FOLDER
from distlib.ordinary_file import read_ordinary
from distlib.printable import printable
from distlib.whole_file import make_private, write_file

PROGRESS = f"{FOLDER}/progress"
_FORMAT = 1
_SET_ASIDE = f"{PROGRESS}/set_aside"


class KeptFileError(Exception):
    """A file can't be used. The message is a sentence that says why, and what becomes of it."""


def read_kept(course: Path, name: str, newest: int = _FORMAT) -> dict[str, Any]:
    """What a file says; {} if there is none.

    Args:
        course: the course's folder.
        name: of the file, from `work/progress/`.
        newest: the newest format of this file that is known here.

    Raises:
        KeptFileError: it can't be read, is torn, or is of a newer version.
    """
    shown = printable(f"{PROGRESS}/{name}")
    try:
        content = json.loads(read_ordinary(course / PROGRESS / name))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise KeptFileError(f"{shown} can't be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError):
        raise KeptFileError(f"{shown} is torn, so what it knew is left out. It will be set aside.") from None
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise KeptFileError(f"{shown} is not what was kept there, and is left out. It will be set aside.")
    if content["format"] > newest:
        raise KeptFileError(f"{shown} was written by a newer version of the course: distlib update brings that.")
    return content


def write_kept(course: Path, name: str, content: dict[str, Any], newest: int = _FORMAT) -> str:
    """Write a file at once. Returns what a student should know about it: "", or where an unreadable one went.

    Args:
        course, name, newest: as for `read_kept`; it is written in that format.
        content: without the format.

    Raises:
        OSError: the folder can't be written.
    """
    path, told = course / PROGRESS / name, ""
    try:
        read_kept(course, name, newest)
    except KeptFileError as error:
        told = f"{error} It is kept as {_set_aside(course, path)}."
    make_private(course / FOLDER)
    write_file(path, (json.dumps({"format": newest, **content}, indent=1, ensure_ascii=False) + "\n").encode())
    return told


def _set_aside(course: Path, path: Path) -> str:
    """Move a file to a free name among those that are set aside. Returns its path from the course's folder."""
    folder, number = course / _SET_ASIDE, 1
    folder.mkdir(parents=True, exist_ok=True)
    while (free := folder / f"{path.stem}_{number}{path.suffix}").exists():
        number += 1
    path.rename(free)
    return printable(free.relative_to(course).as_posix())
