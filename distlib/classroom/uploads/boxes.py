"""Collecting from an exchange in which each student has a box, a folder that no other student has: see docker/hub.

    exchange/COURSE/inbound/ada/ada+02_all_reduce+2030-11-02 21:50:00.123456 UTC+Xk3_/02_all_reduce.ipynb

The box says whose work it is, not the name in it. All that is in a box is its student's to change, also while it is
read. So plain files are copied, up to a limit, and no link is followed: it could lead to the work of others, or to the
solutions. nbgrader collects from that copy.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nbgrader.exchange.default import ExchangeCollect
from nbgrader.utils import parse_utc

MOST_ENTRIES = 1000  # files and folders of a submission; its bytes have nbgrader's limit, CourseDirectory.max_dir_size
DEEPEST = 20  # folders in folders
MOST_SUBMISSIONS = 20  # of a student to an assignment: the latest count
_TIME, _SECRET = "timestamp.txt", "submission_secret.txt"
_ROOM = 1000  # bytes for these two
_SUBMITTING = timedelta(minutes=1)  # what `nbgrader submit` may take
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # opening a pipe must not wait for somebody who writes into it
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY


class CollectFromBoxes(ExchangeCollect):
    """`nbgrader collect`, and Collect in the formgrader. What can't be copied is named and left out."""

    def start(self) -> None:
        inbound = Path(self.root) / self.coursedir.course_id / "inbound"
        with tempfile.TemporaryDirectory(prefix="distlib-collect-") as folder:
            copies = Path(folder) / self.coursedir.course_id / "inbound"
            copies.mkdir(parents=True)
            for box in sorted(inbound.glob(self.coursedir.student_id or "*")):
                try:
                    self._copy_box(box, copies)
                except OSError as error:
                    self.log.error("Not collected: the box of %s can't be read: %s", box.name, error.strerror)
            self.set_trait("root", folder)
            self.set_trait("check_owner", False)  # all boxes have the same owner
            super().start()

    def _copy_box(self, box: Path, copies: Path) -> None:
        most = 1000 * self.coursedir.max_dir_size - _ROOM  # nbgrader stops at what is larger, and collects nothing
        for number, submission in enumerate(_submissions(box, self.coursedir.assignment_id)):
            copy = copies / f"{box.name}-{number}"
            try:
                time = copy_submission(submission, copy, most).strftime(self.timestamp_format)
                (copy / _TIME).write_text(time)
            except Exception as error:  # whatever a student has thought of, the others' work is collected
                self.log.error("Not collected: %s of %s: %s", ascii(submission.name), box.name, ascii(str(error)))
                continue
            copy.rename(copies / f"{box.name}+{self.coursedir.assignment_id}+{time}+{number}")


def copy_submission(source: Path, target: Path, most: int) -> datetime:
    """Copies what was handed in; a new secret, if there is none that nbgrader can use.

    Returns when it was handed in: as it says itself, unless the system saw the last change at another time.

    Args:
        source, target: folders; the second is made.
        most: bytes.

    Raises:
        OSError, ValueError, TypeError, OverflowError: it can't be copied, or has no time; what was begun stays.
    """
    said = parse_utc(source.name.split("+")[2]).replace(tzinfo=UTC)
    changed = datetime.fromtimestamp(copy_plain_files(source, target, most), UTC)
    secret = target / _SECRET
    if not secret.is_file() or not re.fullmatch(rb"\w{32,256}", secret.read_bytes()):
        secret.write_text(secrets.token_hex(64))
    return said if abs(changed - said) < _SUBMITTING else changed


def copy_plain_files(source: Path, target: Path, most: int) -> float:
    """Copies a folder that somebody else may change meanwhile. Returns the time of the last change that the system saw.

    Args:
        source, target: folders; the second is made.
        most: bytes.

    Raises:
        OSError: it is no folder, or something in it can't be read, such as a link instead of a file.
        ValueError: it is too large.
    """
    copier = _Copier(most)
    with _opened(source, _FOLDER) as descriptor:
        copier.folder(descriptor, target)
    return copier.changed


class _Copier:
    """Copies files and folders that are open. changed: when the last of them was changed, as the system saw it."""

    def __init__(self, most: int) -> None:
        self.changed, self._entries, self._most, self._left = 0.0, 0, most, most

    def folder(self, descriptor: int, target: Path, depth: int = 0) -> None:
        """Copy a folder with all that is in it, except links to folders."""
        if depth > DEEPEST:
            raise ValueError(f"it has folders in folders, more than {DEEPEST} deep")
        target.mkdir()
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self._entries += 1
                if self._entries > MOST_ENTRIES:
                    raise ValueError(f"it has more than {MOST_ENTRIES} files and folders")
                if entry.is_dir(follow_symlinks=False):
                    with _opened(entry.name, _FOLDER, descriptor) as below:
                        self.folder(below, target / entry.name, depth + 1)
                elif not entry.is_dir():
                    with _opened(entry.name, _FILE, descriptor) as file:
                        self._file(file, target / entry.name)
        self._see(descriptor)

    def _file(self, descriptor: int, target: Path) -> None:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{target.name} is not a file")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(self._left + 1)
        self._see(descriptor)
        self._left -= len(content)
        if self._left < 0:
            raise ValueError(f"it has more than {self._most:,} bytes")
        target.write_bytes(content)

    def _see(self, descriptor: int) -> None:
        """Note the time of a change. After reading: whoever sees a file opened can still change it while it is read."""
        self.changed = max(self.changed, os.fstat(descriptor).st_ctime)


@contextmanager
def _opened(path: Path | str, how: int, folder: int | None = None) -> Iterator[int]:
    """A file or folder, opened where `folder` is, as a descriptor."""
    descriptor = os.open(path, how, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _submissions(box: Path, assignment: str) -> Iterator[Path]:
    """What a box holds for an assignment: STUDENT+ASSIGNMENT+TIME+RANDOM, the latest first."""
    found = [path for path in box.iterdir() if path.name.split("+")[1:2] == [assignment]]
    by_time = sorted((path for path in found if path.name.count("+") >= 2), key=lambda path: path.name.split("+")[2])
    yield from by_time[: -MOST_SUBMISSIONS - 1 : -1]
