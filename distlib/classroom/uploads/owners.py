"""Whose upload it is, by the names of files and folders. A name that the learning platform gave counts before any name
that a student can choose.

    Moodle   Ada Lovelace_1204_assignsubmission_file/work.ipynb     a folder per student; or the same in front of a file
    Canvas   lovelaceada_LATE_1204_77_work.ipynb                    a file per student: name, user, upload
    ours     02_all_reduce--ada-lovelace.ipynb                      from `distlib hand-in`
    others   ada/work.ipynb, ada.ipynb                              a folder or a file named after the student
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from distlib.classroom.register.known_students import rows_of_table, ways_of_writing
from distlib.classroom.uploads.files import Upload, stem_of
from distlib.classroom.uploads.upload_names import key_of, read_upload_name, student_name, without_copy

_MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_[a-z]+(?:_.*)?", re.DOTALL)
_CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<number>\d+)_(?P<upload>\d+)_.+", re.DOTALL)


@dataclass(frozen=True)
class Owner:
    """A student, as a name of a file or folder says.

    Attributes:
        name: as it is written there.
        number: of the student at the learning platform, "" without one.
        upload: a number that grows with each upload, 0 without one.
    """

    name: str
    number: str = ""
    upload: int = 0


def owners(uploads: Sequence[Upload], assignment: str) -> list[Owner | None]:
    """The owner of each upload of one folder or zip file; None where no name says it.

    Args:
        uploads: all that the folder or zip file holds.
        assignment: such as "02_all_reduce".
    """
    paths = [upload.parts for upload in uploads]
    while _is_wrapped(paths, assignment):
        paths = [path[1:] for path in paths]
    return [_owner(path, assignment) for path in paths]


def _owner(path: Sequence[str], assignment: str) -> Owner | None:
    first = stem_of(path[0])
    if platform := _of_platform(path[0]):
        return platform
    if claimed := read_upload_name(first):
        return Owner(claimed[1])
    stem = without_copy(first)[0]
    return Owner(stem) if stem != assignment else None


def _of_platform(name: str) -> Owner | None:
    if found := _MOODLE.fullmatch(name):
        return Owner(found["name"], found["number"])
    if found := _CANVAS.fullmatch(name):
        return Owner(found["name"], found["number"], int(found["upload"][:18]))
    return None


def _is_wrapped(paths: Sequence[Sequence[str]], assignment: str) -> bool:
    """Whether all lie in one folder that is not a student's: then what stands for students is inside of it."""
    if len({path[0] for path in paths}) != 1 or any(len(path) == 1 for path in paths) or _of_platform(paths[0][0]):
        return False
    inside = {path[1] for path in paths}
    named = [name for name in inside if _of_platform(name) or read_upload_name(stem_of(name))]
    return bool(named) or (len(inside) > 1 and all(_owner([name], assignment) for name in inside))


class Roster:
    """The names by which students are known here, so that one student has one folder, however the upload came.

    Args:
        entries: of each student the name of the folder, and other ways in which the name may be written.
    """

    def __init__(self, entries: Iterable[tuple[str, Sequence[str]]] = ()) -> None:
        found = {(key_of(way), known) for known, ways in entries for way in (known, *ways)}
        meanings = Counter(key for key, _ in found)
        self._known = {key: known for key, known in found if meanings[key] == 1}

    def folder(self, name: str) -> str:
        """The name of a student's folder, for a name as it is written in uploads."""
        return self._known.get(key_of(name)) or student_name(name)


def read_roster(table: Path, folders: Iterable[str]) -> Roster:
    """The roster of a class.

    Args:
        table: with the columns id, first_name, last_name; it need not be there.
        folders: names of students' folders.

    Raises:
        OSError, ValueError, csv.Error: the table can't be read.
    """
    entries: list[tuple[str, Sequence[str]]] = []
    for row in rows_of_table(table):
        if (known := row.get("id", "")).strip("."):
            entries.append((known if "/" not in known else student_name(known), ways_of_writing(row)))
    known_ids = {known for known, _ in entries}
    return Roster([*entries, *((name, ()) for name in folders if name not in known_ids)])
