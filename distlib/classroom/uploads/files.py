"""The notebooks among uploads: in folders, in zip files, and in the zip files that students put there.

Nothing is unpacked to where a zip file wants it. Each notebook is copied to a place with a name of ours, so that a name
can lead nowhere.
"""

from __future__ import annotations

import os
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from distlib.classroom.grader.file_kind import BEGIN, kind_of, looks_like_a_notebook

MOST_BYTES = 256 << 20  # of one notebook
MOST_BYTES_OF_A_ZIP = 1 << 30  # of all that a zip file within a zip file or a folder holds, and the zip files in it
MOST_MEMBERS = 10_000  # of these together
_MOST_DEPTH = 3  # zip files in zip files
_NOTEBOOKS = (".ipynb", ".ipynb.txt", ".ipynb.json")  # browsers and editors add an ending
_OTHER_ENDINGS = (".receipts.txt", ".json", ".txt")  # what is in such a file decides whether it is one
_DAMAGES = (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError, NotImplementedError)
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_NOT_WORK = {"timestamp.txt", "submission_secret.txt", "__MACOSX", "Thumbs.db", "desktop.ini"}


@dataclass(frozen=True)
class Upload:
    """A file among the uploads.

    Attributes:
        parts: its path from the folder or zip file that was named. A zip file within counts as a folder of its name.
        time: as the folder or the outermost zip file has it, without a time zone; None if it has none.
        copy: where its copy is; None if there is none.
        problem: why there is none; "" for a file that is not a notebook.
        kind: what such a file is, such as "a PDF file".
    """

    parts: tuple[str, ...]
    time: datetime | None
    copy: Path | None
    problem: str = ""
    kind: str = ""

    @property
    def name(self) -> str:
        """Its path, as the uploads have it."""
        return "/".join(self.parts)

    @property
    def stem(self) -> str:
        """Its name without an ending."""
        return stem_of(self.parts[-1])


def stem_of(name: str) -> str:
    """A file's name without the ending of a notebook or of a zip file."""
    ending = next((ending for ending in (*_NOTEBOOKS, ".zip", *_OTHER_ENDINGS) if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)]


def find_uploads(source: Path, copies: Path) -> list[Upload]:
    """The files in a folder or a zip file; or a notebook itself.

    Args:
        source: a folder, a zip file or a notebook.
        copies: an empty folder, for copies of the notebooks.

    Raises:
        OSError, ValueError: the source itself can't be read.
    """
    finder = _Finder(copies)
    if source.is_dir():
        return list(finder.in_folder(source))
    if not source.is_file():
        raise ValueError("there is no such file or folder")
    if source.name.lower().endswith(_NOTEBOOKS):
        with source.open("rb") as file:
            return [finder.keep((source.name,), _time_of(source.stat()), file)]
    with source.open("rb") as file:
        if looks_like_a_notebook(begin := file.read(BEGIN)):
            return [finder.keep((source.name,), _time_of(source.stat()), file, begin)]
        if not zipfile.is_zipfile(source):
            raise ValueError(f"it is not a folder, a zip file or a notebook: {kind_of(begin)}")
        return list(finder.in_zip(file, (), None, depth=0))


class _Finder:
    def __init__(self, copies: Path) -> None:
        self._copies, self._number = copies, 0
        self._bytes_left, self._members_left = 0, 0  # of what a student's zip file may hold

    def in_folder(self, folder: Path) -> Iterator[Upload]:
        for directory, folders, files in os.walk(folder):
            folders[:] = sorted(name for name in folders if _is_work(name))
            for name in sorted(filter(_is_work, files)):
                path = Path(directory, name)
                parts, status = path.relative_to(folder).parts, path.lstat()
                if not stat.S_ISREG(status.st_mode):
                    yield Upload(parts, None, None, "it is a link or a special file")
                    continue
                try:
                    with path.open("rb") as file:
                        yield from self._file(file, parts, _time_of(status), depth=0)
                except OSError as error:
                    yield Upload(parts, None, None, f"it can't be read: {error.strerror}")

    def in_zip(self, file: IO[bytes], parts: tuple[str, ...], time: datetime | None, depth: int) -> Iterator[Upload]:
        """The files in a zip file. depth: 0 for the one that the instructor has named; that may be of any size."""
        try:
            with zipfile.ZipFile(file) as archive:
                members = [member for member in archive.infolist() if not member.is_dir()]
                if depth and (problem := self._too_much(members)):
                    yield Upload(parts, time, None, problem)
                    return
                for member in members:
                    yield from self._member(archive, member, parts, time, depth)
        except _DAMAGES as error:
            if depth == 0:
                raise ValueError(f"it can't be unpacked: {error}") from None
            yield Upload(parts, time, None, f"it can't be unpacked: {error}")

    def _member(
        self,
        archive: zipfile.ZipFile,
        member: zipfile.ZipInfo,
        above: tuple[str, ...],
        time: datetime | None,
        depth: int,
    ) -> Iterator[Upload]:
        names = tuple(name for name in member.filename.replace("\\", "/").split("/") if name not in ("", "."))
        parts = (*above, *names)
        if not names or not all(map(_is_work, (name for name in names if name != ".."))):
            return
        if ".." in names or member.filename.startswith(("/", "\\")) or stat.S_ISLNK(member.external_attr >> 16):
            yield Upload(parts, time, None, "its name leads out of the zip file, or it is a link")
            return
        try:
            with archive.open(member) as file:
                yield from self._file(file, parts, time or _time_of_member(member), depth)
        except _DAMAGES as error:
            yield Upload(parts, time, None, f"it can't be unpacked: {error}")

    def _file(self, file: IO[bytes], parts: tuple[str, ...], time: datetime | None, depth: int) -> Iterator[Upload]:
        name = parts[-1].lower()
        if name.endswith(".zip"):
            if depth >= _MOST_DEPTH:
                yield Upload(parts, time, None, "it is a zip file in a zip file in a zip file")
                return
            if depth == 0:
                self._bytes_left, self._members_left = MOST_BYTES_OF_A_ZIP, MOST_MEMBERS
            with tempfile.TemporaryFile(dir=self._copies) as copy:  # in it one can jump; in a zip file only read on
                _copy(file, copy, MOST_BYTES_OF_A_ZIP + 1)
                if copy.tell() > MOST_BYTES_OF_A_ZIP:
                    yield Upload(parts, time, None, f"it has more than {MOST_BYTES_OF_A_ZIP >> 20} MiB")
                    return
                yield from self.in_zip(copy, (*parts[:-1], stem_of(parts[-1])), time, depth + 1)
        elif name.endswith(_NOTEBOOKS):
            yield self.keep(parts, time, file)
        else:
            begin = file.read(BEGIN)
            if looks_like_a_notebook(begin):
                yield self.keep(parts, time, file, begin)
            else:
                yield Upload(parts, time, None, kind=kind_of(begin).what)

    def keep(self, parts: tuple[str, ...], time: datetime | None, file: IO[bytes], begin: bytes = b"") -> Upload:
        """Copy a notebook. begin: its first bytes, if they have been read."""
        self._number += 1
        copy = self._copies / f"{self._number}.ipynb"
        with copy.open("wb") as target:
            target.write(begin)
            _copy(file, target, MOST_BYTES + 1 - len(begin))
        if copy.stat().st_size <= MOST_BYTES:
            return Upload(parts, time, copy)
        copy.unlink()
        return Upload(parts, time, None, f"it has more than {MOST_BYTES >> 20} MiB")

    def _too_much(self, members: Sequence[zipfile.ZipInfo]) -> str:
        self._members_left -= len(members)
        self._bytes_left -= sum(member.file_size for member in members)
        if self._members_left < 0:
            return f"it holds more than {MOST_MEMBERS:,} files"
        return f"it holds more than {MOST_BYTES_OF_A_ZIP >> 20} MiB" if self._bytes_left < 0 else ""


def _copy(source: IO[bytes], target: IO[bytes], most: int) -> None:
    """Copy the beginning of a file, at most `most` bytes."""
    while most > 0 and (data := source.read(min(1 << 20, most))):
        target.write(data)
        most -= len(data)


def _is_work(name: str) -> bool:
    """Whether a file or folder may be a student's work: not hidden, not left behind by a tool."""
    return not name.startswith(".") and name not in _NOT_WORK


def _time_of(status: os.stat_result) -> datetime:
    return datetime.fromtimestamp(status.st_mtime)


def _time_of_member(member: zipfile.ZipInfo) -> datetime | None:
    """As the zip file has it. The earliest time that it can have stands for none."""
    if tuple(member.date_time) == _NO_TIME:
        return None
    try:
        return datetime(*member.date_time)
    except ValueError:
        return None
