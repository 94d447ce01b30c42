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
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nbgrader.exchange.default import ExchangeCollect
from nbgrader.utils import parse_utc

MOST_BYTES = 100 << 20  # of a submission
MOST_FILES = 1000
MOST_SUBMISSIONS = 100  # of a student to an assignment: the latest count
_TIME, _SECRET = "timestamp.txt", "submission_secret.txt"
_SUBMITTING = timedelta(minutes=1)  # what `nbgrader submit` may take
_DAMAGES = (OSError, ValueError, TypeError, OverflowError)  # the last two: dateutil, of what is no time


class CollectFromBoxes(ExchangeCollect):
    """`nbgrader collect`, and Collect in the formgrader. What can't be copied is named and left out."""

    def start(self) -> None:
        inbound = Path(self.root) / self.coursedir.course_id / "inbound"
        with tempfile.TemporaryDirectory(prefix="distlib-collect-") as place:
            copies = Path(place) / self.coursedir.course_id / "inbound"
            copies.mkdir(parents=True)
            for box in sorted(inbound.glob(self.coursedir.student_id or "*")):
                self._copy_box(box, copies)
            self.set_trait("root", place)
            self.set_trait("check_owner", False)  # all boxes have the same owner
            super().start()

    def _copy_box(self, box: Path, copies: Path) -> None:
        for number, submission in enumerate(_submissions(box, self.coursedir.assignment_id)):
            copy = copies / f"{box.name}-{number}"
            try:
                time = copy_submission(submission, copy).strftime(self.timestamp_format)
            except _DAMAGES as error:
                self.log.error("Not collected: %s of %s: %s", ascii(submission.name), box.name, ascii(str(error)))
                continue
            (copy / _TIME).write_text(time)
            copy.rename(copies / f"{box.name}+{self.coursedir.assignment_id}+{time}+{number}")


def copy_submission(source: Path, target: Path) -> datetime:
    """Copies what was handed in; a new secret, if there is none that nbgrader can use.

    Returns when it was handed in: as it says itself, unless the system saw the last change at another time.

    Raises:
        OSError, ValueError, TypeError, OverflowError: it can't be copied, or has no time; what was begun stays.
    """
    said = parse_utc(source.name.split("+")[2]).replace(tzinfo=UTC)
    changed = datetime.fromtimestamp(copy_plain_files(source, target), UTC)
    secret = target / _SECRET
    if not secret.is_file() or not re.fullmatch(rb"\w{32,256}", secret.read_bytes()):
        secret.write_text(secrets.token_hex(64))
    return said if abs(changed - said) < _SUBMITTING else changed


def copy_plain_files(source: Path, target: Path) -> float:
    """Copies a folder that somebody else may change meanwhile. Returns the time of the last change that the system saw.

    Raises:
        OSError: something in it can't be read, such as a link instead of a file.
        ValueError: it is no folder, or it is too large.
    """
    changed, files, left = 0.0, 0, MOST_BYTES
    for folder, _, names, descriptor in os.fwalk(source, onerror=_raise):
        place = target / Path(folder).relative_to(source)
        place.mkdir()
        changed = max(changed, os.stat(descriptor).st_ctime)
        for name in names:
            content, time = _read(name, descriptor, left)
            (place / name).write_bytes(content)
            changed, files, left = max(changed, time), files + 1, left - len(content)
            if files > MOST_FILES or left < 0:
                raise ValueError(f"it has more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB")
    if not target.is_dir():
        raise ValueError("it is not a folder")
    return changed


def _read(name: str, folder: int, most: int) -> tuple[bytes, float]:
    """What a file holds, at most one byte more than `most`, and when it was changed."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with open(descriptor, "rb") as file:
        state = os.stat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise ValueError(f"{name} is not a file")
        return file.read(most + 1), state.st_ctime


def _submissions(box: Path, assignment: str) -> Iterator[Path]:
    """What a box holds for an assignment: STUDENT+ASSIGNMENT+TIME+RANDOM, the latest first."""
    found = [path for path in box.iterdir() if path.name.split("+")[1:2] == [assignment]]
    by_time = sorted((path for path in found if path.name.count("+") >= 2), key=lambda path: path.name.split("+")[2])
    yield from by_time[: -MOST_SUBMISSIONS - 1 : -1]


def _raise(error: OSError) -> None:
    raise error
