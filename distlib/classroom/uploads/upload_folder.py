"""The folder with what a student has handed in.

work/handed_in/02_all_reduce--ada-lovelace.ipynb         the file to upload: the notebook, byte for byte
               02_all_reduce--ada-lovelace.receipts.txt  a receipt for each time
               earlier/                                  files that a later one has replaced
               name.txt                                  the student's name
               .last/02_all_reduce.json                  what was handed in last, to tell whether there is anything new
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from distlib.classroom.uploads.receipt import Receipt
from distlib.classroom.uploads.upload_names import upload_name
from distlib.course_root import course_folder
from distlib.printable import printable
from distlib.whole_file import make_private


@dataclass(frozen=True)
class Last:
    """What was handed in last.

    Attributes:
        time, saved: when it was handed in, and when the notebook had been saved; ISO 8601, with a time zone.
        content: a hash of what is written in the notebook.
        sha256: of the file.
        file: its name; "" if it was submitted to an exchange.
        course: of the exchange.
    """

    time: str
    saved: str
    content: str
    sha256: str
    file: str
    course: str


class UploadFolder:
    """Where files to upload and receipts are kept: in the course's folder, else next to the notebook.

    Args:
        notebook: the student's notebook.

    Raises:
        OSError: here and below, it can't be written.
    """

    def __init__(self, notebook: Path) -> None:
        root = course_folder(notebook.parent)
        self.path = root / "work" / "handed_in" if root else notebook.parent / "handed_in"
        self._name = self.path / "name.txt"

    def student(self) -> str:
        """The student's name, as it was kept; "" if none was."""
        return self._name.read_text(encoding="utf-8").strip() if self._name.is_file() else ""

    def _make(self) -> None:
        make_private(self.path.parent)
        self.path.mkdir(exist_ok=True)

    def keep_student(self, name: str) -> None:
        """Keep the student's name for the next time."""
        self._make()
        self._name.write_text(f"{printable(name)}\n", encoding="utf-8")

    def write(self, notebook: Path, student: str) -> Path:
        """Put a copy of a notebook here, named for the collector. A different one of that name goes to earlier/.

        Args:
            notebook: named as the exercise.
            student: the student's name.
        """
        file = self.path / upload_name(notebook.stem, student)
        if file.exists() and file.read_bytes() != notebook.read_bytes():
            written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
            earlier = self.path / "earlier" / f"{file.stem} {written:%Y-%m-%d %H.%M.%S.%f}.ipynb"
            earlier.parent.mkdir(exist_ok=True)
            file.rename(earlier)
        self._make()
        shutil.copyfile(notebook, file)
        return file

    def last(self, assignment: str) -> Last | None:
        """What was handed in last of an exercise; None if nothing was, or nobody knows any more."""
        try:
            last = Last(**json.loads(self._last(assignment).read_text(encoding="utf-8")))
            datetime.fromisoformat(last.time), datetime.fromisoformat(last.saved)
        except (OSError, ValueError, TypeError):
            return None
        return last if not last.file or (self.path / last.file).is_file() else None

    def _last(self, assignment: str) -> Path:
        return self.path / ".last" / f"{assignment}.json"

    def keep_receipt(self, receipt: Receipt, content: str) -> None:
        """Add a receipt to those of the same exercise, and keep what was handed in. content: see `Last`."""
        file = receipt.file.name if receipt.file else ""
        times = receipt.time.isoformat(), receipt.saved.isoformat()
        self._make()
        last = self._last(receipt.assignment)
        last.parent.mkdir(exist_ok=True)
        last.write_text(json.dumps(asdict(Last(*times, content, receipt.sha256, file, receipt.course))))
        stem = receipt.file.stem if receipt.file else receipt.assignment
        with (self.path / f"{stem}.receipts.txt").open("a", encoding="utf-8") as kept:
            kept.write(f"{receipt}\n\n")
