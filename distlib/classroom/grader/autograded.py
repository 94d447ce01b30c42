"""A student's folder in nbgrader's autograded/: the notebook that has run, the time stamp, and other files.

What was handed in along with the notebook goes into a folder of its own, handed_in/. Next to the notebook a file could
stand in the way of a module, for whoever opens the notebook there. Links are not copied. The exchange's secret file
stays next to the notebook: `nbgrader release_feedback` looks for it there.
"""

from __future__ import annotations

import os
import shutil
import stat
from datetime import datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.utils import find_all_files

from distlib.classroom.grader.course import Course

OTHER_FILES = "handed_in"
SECRET = "submission_secret.txt"  # of `nbgrader submit`
MOST_BYTES_OF_FILES = 64 << 20


class Autograded:
    """The autograded folder of one student, first made next to its place, then put there in one move.

    Args:
        course, assignment, student: whose.
    """

    def __init__(self, course: Course, assignment: str, student: str) -> None:
        self._course, self._assignment = course, assignment
        self._submitted = course.folder("submitted", student, assignment)
        self._folder = course.folder("autograded", student, assignment)
        self._feedback = course.folder("feedback", student, assignment)
        self._new = self._folder.with_name(f"{self._folder.name}.new")

    def exists(self) -> bool:
        """Whether a graded notebook is there."""
        return self.notebook.is_file()

    @property
    def notebook(self) -> Path:
        """Where the graded notebook is, if there is one."""
        return self._folder / f"{self._assignment}.ipynb"

    def prepare(self, notebook: NotebookNode, timestamp: datetime | None) -> list[str]:
        """Write everything next to its place. Returns remarks.

        Args:
            notebook: the notebook that has run.
            timestamp: when it was handed in, in UTC, if that is known.

        Raises:
            OSError: it can't be written.
        """
        _remove(self._new)
        self._new.mkdir(parents=True)
        source = self._course.source_folder(self._assignment)
        for name in find_all_files(str(source), [*self._course.settings.ignore, "*.ipynb"]):
            _copy(Path(name), self._new / os.path.relpath(name, source))
        remarks = self._copy_handed_in()
        if timestamp is not None:
            (self._new / "timestamp.txt").write_text(timestamp.strftime("%Y-%m-%d %H:%M:%S.%f UTC\n"))
        nbformat.write(notebook, self._new / f"{self._assignment}.ipynb")
        for path in self._new.rglob("*"):
            if path.is_file():
                path.chmod(0o664 if self._course.settings.groupshared else 0o444)
        return remarks

    def publish(self) -> None:
        """Put what was prepared in the place of what was there. Feedback on what was there is removed."""
        _remove(self._folder)
        self._new.rename(self._folder)
        _remove(self._feedback)

    def has_feedback(self) -> bool:
        """Whether a page of feedback is there."""
        return (self._feedback / f"{self._assignment}.html").is_file()

    def withdraw(self) -> None:
        """Remove what was prepared; what was there stays."""
        _remove(self._new)

    def discard(self) -> None:
        """Remove everything: there is no graded notebook of this student, and no feedback."""
        for folder in (self._new, self._folder, self._feedback):
            _remove(folder)

    def _copy_handed_in(self) -> list[str]:
        """Copy the ordinary files that were handed in along with the notebook into a folder of their own."""
        files = [path for path in _ordinary_files(self._submitted) if path.suffix != ".ipynb"]
        files = [path for path in files if path != self._submitted / "timestamp.txt"]
        readable = [path for path in files if os.access(path, os.R_OK)]
        if sum(path.stat().st_size for path in readable) > MOST_BYTES_OF_FILES:
            return [f"more than {MOST_BYTES_OF_FILES >> 20} MiB of other files; they were not copied to autograded"]
        for path in readable:
            name = path.relative_to(self._submitted)
            _copy(path, self._new / (name if str(name) == SECRET else OTHER_FILES / name))
        return ["some other files can't be read"] if len(readable) < len(files) else []


def _ordinary_files(folder: Path) -> list[Path]:
    """The files below a folder that are neither links, nor below links, nor hidden."""
    found = []
    for directory, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        paths = (Path(directory, name) for name in sorted(files) if not name.startswith("."))
        found += [path for path in paths if stat.S_ISREG(path.lstat().st_mode)]
    return found


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
