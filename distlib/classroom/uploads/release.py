"""The course for students: complete by itself, without solutions, tests, and whatever speaks of them.

AGENTS.md                asks an assistant to tutor, and not to solve
README.md, Makefile      without the parts between lines that hold >>> not for students, and <<< not for students
course/                  the lessons; their text sources stay here
exercises/               as they are generated, checked against the solutions
distlib/                 the package
docker/, .devcontainer/, .binder/    images of all this
graded_with.txt          the Python that grades: hand-in reads answers with its grammar
due_dates.json           when exercises are due, and what being late costs
colab/                   with an address: the notebooks with a cell on top that gets the course there
and what installing it needs
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from distlib.classroom.grader.course import Course
from distlib.classroom.grader.submission import CannotGrade, read_submission
from distlib.classroom.register.due_dates import dates_of_term
from distlib.classroom.register.term_dates import DUE_DATES, text_of
from distlib.classroom.student_copies.copy_paths import FOR_ASSISTANTS
from distlib.classroom.uploads.graded_with import GRADED_WITH, line_of_release
from distlib.classroom.uploads.published import AddressError, published
from distlib.classroom.uploads.recognize import normal

_FOR_STUDENTS = ("README.md", "ANYWHERE.md", "Makefile", "docker/README.md")
_AS_THEY_ARE = (".dockerignore", "LICENSE", "LICENSE-prose", "pyproject.toml", "constraints.txt", "distlib_backend.py")
_WHOLE = ("distlib", "docker", ".devcontainer", ".binder")
_LEFT_BEHIND = ("__pycache__", "Thumbs.db")
_BEGIN, _END = ">>> not for students", "<<< not for students"
_DAY = (2000, 1, 1, 0, 0, 0)  # the same files make the same zip file


class ReleaseError(Exception):
    """Nothing was released. The message says why, and what to do."""


def release(course: Course, target: Path, address: str = "", python: str = "") -> int:
    """Write the course for students. Returns the number of files.

    Args:
        course: the instructor's.
        target: a zip file (.zip), which is replaced; or a folder, new or empty.
        address: where it will be published, as `git clone` wants it; "" for nowhere.
        python: the version that grades, such as "3.12"; "" for this one.

    Raises:
        ReleaseError: a file must not go to students, the folder is not empty, or the address or version can't be one.
        OSError: it can't be written.
    """
    files = release_files(course, python)
    if address:
        try:
            files = dict(sorted((files | published(files, address)).items()))
        except AddressError as error:
            raise ReleaseError(str(error)) from None
    if target.suffix.lower() == ".zip":
        _write_zip(files, target)
    elif target.is_dir() and any(target.iterdir()) or target.is_file():
        raise ReleaseError(f"{target} is not a new or empty folder, nor does its name end in .zip")
    else:
        for name, content in files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(content)
    return len(files)


def release_files(course: Course, python: str = "") -> dict[str, bytes]:
    """What students get, by path. python: as of `release`.

    Raises:
        ReleaseError: a file must not go to students, or the version can't be one.
    """
    root = course.root
    files = {name: (root / name).read_bytes() for name in _AS_THEY_ARE}
    try:
        files[GRADED_WITH] = line_of_release(python).encode()
    except ValueError as error:
        raise ReleaseError(str(error)) from None
    files[DUE_DATES] = text_of(dates_of_term(course)).encode()
    files[FOR_ASSISTANTS.name] = FOR_ASSISTANTS.read_bytes()
    files |= {name: for_students((root / name).read_text(encoding="utf-8")).encode() for name in _FOR_STUDENTS}
    lessons = sorted(root.glob("course/*.ipynb"))
    for path in lessons:
        _check_no_outputs(path, course)
    exercises = list(_files(root / "exercises"))
    for path in exercises:
        _check_exercise(path, course)
    pictures = [path for path in _files(root / "course") if path.parent != root / "course"]
    whole = [path for name in _WHOLE for path in _files(root / name)]
    for path in [*lessons, *pictures, *exercises, *whole]:
        files.setdefault(path.relative_to(root).as_posix(), path.read_bytes())
    return dict(sorted(files.items()))


def for_students(text: str) -> str:
    """A text without its parts that are not for students.

    Raises:
        ReleaseError: such a part does not end.
    """
    kept, inside = [], False
    for line in text.splitlines(keepends=True):
        if _BEGIN in line or _END in line:
            inside = _BEGIN in line
        elif not inside:
            kept.append(line)
    if inside:
        raise ReleaseError(f"a part begins with '{_BEGIN}', and no line with '{_END}' ends it")
    return "".join(kept)


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder, without what tools leave behind."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        left_behind = any(part.startswith(".") or part in _LEFT_BEHIND for part in parts) or path.suffix == ".pyc"
        if path.is_file() and not left_behind:
            yield path


def _check_no_outputs(path: Path, course: Course) -> None:
    """A lesson that was run shows the answers of its predictions."""
    if '"output_type"' in path.read_text(encoding="utf-8"):
        raise ReleaseError(f"{course.name(path)} holds outputs: run make notebooks")


def _check_exercise(path: Path, course: Course) -> None:
    """A file of an exercise must be what the instructor's files give: no answer, no hidden test, nothing stale."""
    name = path.relative_to(course.root / "exercises").parts[0]
    if path.suffix == ".py":
        raise ReleaseError(f"{course.name(path)} could hold solutions: take it away")
    if path.suffix != ".ipynb":
        return
    released = course.source(name).released
    try:
        texts = [cell.source for cell in read_submission(path).cells]
    except CannotGrade as error:
        raise ReleaseError(f"{course.name(path)}: {error}") from None
    if path.stem != name or [normal(text) for text in texts] != [normal(text) for text in released]:
        raise ReleaseError(
            f"{course.name(path)} is not what solutions/{name} gives: it holds answers, or is not up to date. "
            "Move it away and run make exercises"
        )


def _write_zip(files: Mapping[str, bytes], target: Path) -> None:
    """Write a zip file with all files in one folder, named as it is."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.new")
    with zipfile.ZipFile(new, "w") as archive:
        for name, content in files.items():
            member = zipfile.ZipInfo(f"{target.stem}/{name}", _DAY)
            member.external_attr = 0o644 << 16
            archive.writestr(member, content, zipfile.ZIP_DEFLATED)
    new.replace(target)
