"""What `distlib lab` and `distlib update` say about the student's copies of the course."""

from pathlib import Path

from distlib.classroom.grader.file_kind import kind_of
from distlib.classroom.my_course.course_reading import note_work
from distlib.classroom.student_copies.bring import Brought, bring
from distlib.classroom.student_copies.copy_paths import FOLDER, copies
from distlib.ordinary_file import read_ordinary
from distlib.printable import printable


def bring_copies(course: Path) -> bool:
    """Makes the copies that are missing, brings new versions to the others, and prints what has changed.

    course: the course's folder. Returns False, and prints why, if that is not possible.
    """
    note_work(course)  # what ran in them, before a newer version clears it
    try:
        brought = bring(course)
    except OSError as error:
        print(f"The copies that you work in, {course / FOLDER}, can't be made: {error}")
        print("Copy the course's folder to a place of your own, and start there.")
        return False
    for line in report(course, brought):
        print(line)
    return True


def report(course: Path, brought: list[Brought]) -> list[str]:
    """What a student should know about what was brought, as lines."""
    by: dict[str, list[Brought]] = {what: [] for what in ("made", "replaced", "merged", "unreadable", "broken")}
    for done in brought:
        by[done.what].append(done)
    lines = []
    if len(by["made"]) == len(copies(course)):
        lines.append(f"Your own copies of all lessons and exercises are in {course / FOLDER}.")
    elif by["made"]:
        lines.append(f"New: {_names(by['made'])}.")
    if by["replaced"]:
        lines.append(f"Newer versions of: {_names(by['replaced'])}.")
    if by["merged"]:
        lines.append("Newer versions, with everything that you have written in them, of:")
        lines += [f"    {done.copy.stem} (as it was: {_shown(course, done.backup)})" for done in by["merged"]]
    if by["replaced"] or by["merged"]:
        lines.append(
            "A tab that was open before still shows the old version: menu File, Reload Notebook from Disk. If it has"
        )
        lines.append(
            "changes that are not saved: save, choose Overwrite, run `distlib update` once more. It takes them over."
        )
    if by["broken"]:
        lines.append(f"The course's own notebooks of {_names(by['broken'])} are broken. Get them again: distlib update")
    for done in by["unreadable"]:
        lines.append(f"{_shown(course, done.copy)} is not a notebook any more, and was left alone:")
        lines.append(f"    {_kind(done.copy)}")
        lines.append("    To get a fresh copy: rename it and start again.")
    return lines


def _kind(path: Path) -> str:
    try:
        return printable(str(kind_of(read_ordinary(path))))
    except OSError as error:
        return f"it can't be read: {error.strerror}"


def _names(brought: list[Brought]) -> str:
    return ", ".join(done.copy.stem for done in brought)


def _shown(course: Path, path: Path | None) -> str:
    return path.relative_to(course).as_posix() if path else ""
