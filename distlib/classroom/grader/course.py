"""The course that is graded: its folders and its nbgrader configuration (nbgrader_config.py)."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

from nbgrader.apps import NbGrader

from distlib.classroom.grader.source import Source, read_source
from distlib.classroom.uploads.upload_names import full_name, lesson_alone


class CourseError(Exception):
    """Nothing can be graded. The message says why, and what to do."""


@dataclass(frozen=True)
class Course:
    """A course's folder and what nbgrader_config.py says. Make one with `open_course`.

    Attributes:
        root: the folder.
        config: nbgrader's configuration.
        settings: nbgrader's `CourseDirectory`.
    """

    root: Path
    config: Any
    settings: Any

    def folder(self, step: str, student: str, assignment: str) -> Path:
        """Where nbgrader keeps a student's assignment. step: "submitted", "autograded" or "feedback"."""
        directory = getattr(self.settings, f"{step}_directory")
        return Path(self.settings.format_path(directory, student, assignment))

    def students(self, assignment: str) -> list[str]:
        """Who has handed something in."""
        directory, structure = self.settings.submitted_directory, self.settings.directory_structure
        folders = glob(
            structure.format(nbgrader_step=directory, student_id="*", assignment_id=assignment), root_dir=self.root
        )
        pattern = self.settings.format_path(directory, "(?P<student>[^/]+)", re.escape(assignment), escape=True)
        found = (re.fullmatch(pattern, str(self.root / folder)) for folder in folders)
        return sorted(match["student"] for match in found if match)

    def full_name(self, name: str) -> str:
        """The assignment that "2", "02" or "02_all" stands for; the name itself if it is none."""
        return full_name(name, self.assignments())

    def source(self, assignment: str) -> Source:
        """The instructor's notebook.

        Raises:
            CourseError: there is none, or nbgrader does not accept it.
        """
        path = self.source_folder(assignment) / f"{assignment}.ipynb"
        if not path.is_file():
            there = self.assignments()
            missing = (there and lesson_alone(assignment, [self.root])) or f"there is no {self.name(path)}"
            raise CourseError(f"{missing}; assignments: {', '.join(there) or 'none'}")
        try:
            return read_source(path, self.config)
        except Exception as error:
            raise CourseError(f"{self.name(path)}: {error}") from None

    def assignments(self) -> list[str]:
        """The names of all assignments that the instructor has: folders with a notebook of their name."""
        folders = self.source_folder(".").glob("*")
        return sorted(folder.name for folder in folders if (folder / f"{folder.name}.ipynb").is_file())

    def source_folder(self, assignment: str) -> Path:
        """Where the instructor's files of an assignment are."""
        return Path(os.path.normpath(self.settings.format_path(self.settings.source_directory, ".", assignment)))

    def records(self, assignment: str) -> Path:
        """Where we keep what is known about each submission, and the report."""
        submitted = Path(self.settings.format_path(self.settings.submitted_directory, ".", "."))
        return Path(os.path.normpath(submitted.parent / "graded")) / assignment

    def name(self, path: Path) -> str:
        """A path as messages show it: from the course's folder, where it is inside."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)


def course_above(start: Path) -> Path:
    """The nearest folder with an nbgrader_config.py, from `start` upwards; `start` if there is none."""
    return next((folder for folder in [start, *start.parents] if (folder / "nbgrader_config.py").exists()), start)


def open_course(folder: Path) -> Course:
    """The course in a folder.

    Raises:
        CourseError: there is no nbgrader_config.py.
    """
    root = folder.resolve()
    if not (root / "nbgrader_config.py").is_file():
        raise CourseError(f"{folder} is no course: there is no nbgrader_config.py; use --course FOLDER")
    with contextlib.chdir(root):  # the configuration has relative paths
        app = NbGrader()
        app.initialize(["--log-level=ERROR"], root=str(root))
    app.config.Application.log_level = "ERROR"
    if app.coursedir.groupshared:
        _open_to_group(root / Path(app.coursedir.submitted_directory).parent)
    return Course(root, app.config, app.coursedir)


def _open_to_group(folder: Path) -> None:
    """Let those who grade together, nbgrader's `groupshared`, into a folder that was made for one user alone."""
    with contextlib.suppress(OSError):  # another one of the group has made it, and so has done this
        mode = folder.stat().st_mode & 0o7777
        if mode == 0o700:
            folder.chmod(0o2770)
