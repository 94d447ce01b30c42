"""From a student's folder to the value that it shows. Only reads; `note_work` keeps what would be forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from distlib.classroom.grader.file_kind import kind_of
from distlib.classroom.grader.point_sum import PointSum
from distlib.classroom.my_course.evidence import WrittenText, chosen_by_hand
from distlib.classroom.my_course.last_check import read_check
from distlib.classroom.my_course.lesson_promise import promise_of
from distlib.classroom.my_course.marks_back import marks_back
from distlib.classroom.my_course.notebooks_seen import (
    SeenNotebook,
    keep_seen,
    kept_before,
    look_at,
    worked_last,
)
from distlib.classroom.my_course.own_course import OwnCourse, OwnExercise, OwnLesson, exercise_alone
from distlib.classroom.my_course.predictions_made import (
    PredictionsMade,
    keep_predictions,
    kept_predictions,
    predictions_made,
)
from distlib.classroom.my_course.written_functions import WrittenFunction, written_functions, written_texts
from distlib.classroom.register.term_dates import term_dates
from distlib.classroom.student_copies.bring import course_version, version_of
from distlib.classroom.student_copies.copy_paths import EXERCISES, FOLDER, copies, exercise_copy, lesson_of
from distlib.classroom.student_copies.notebook_json import Notebook, parse_notebook, read_notebook
from distlib.classroom.uploads.upload_folder import UploadFolder
from distlib.games import BestPlay, PlaysUnreadable, best_plays
from distlib.ordinary_file import read_ordinary
from distlib.printable import printable


@dataclass
class _Found:
    """What is in the folder, by the path of each copy in `work/`."""

    originals: dict[str, Notebook] = field(default_factory=dict)
    mine: dict[str, Notebook] = field(default_factory=dict)
    seen: dict[str, SeenNotebook] = field(default_factory=dict)
    functions: dict[str, list[WrittenFunction]] = field(default_factory=dict)
    texts: dict[str, list[WrittenText]] = field(default_factory=dict)
    predictions: dict[str, PredictionsMade] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def read_course(course: Path) -> OwnCourse:
    """What a student has done. What can't be read is left out, and named in the remarks.

    Args:
        course: the course's folder, which holds `work/`.
    """
    return _own_course(course, _find(course))


def note_work(course: Path) -> str:
    """Keep what ran in the notebooks, and when they were worked on. Returns what a student should know; "" for nothing.

    Call it before anything changes them but the student. A folder that can't be written keeps nothing.
    """
    return _keep(course, _find(course))


def read_and_note(course: Path) -> tuple[OwnCourse, str]:
    """What `read_course` returns, and what `note_work` does, from one look at the notebooks."""
    found = _find(course)
    return _own_course(course, found), _keep(course, found)


def _own_course(course: Path, found: _Found) -> OwnCourse:
    marks = marks_back(course)
    _tell_of_versions(found)
    exercises = {
        (own := _exercise(course, name, found, marks)).name: own for name in found.originals if _is_exercise(name)
    }
    lessons = [
        OwnLesson(stem, promise_of(notebook), found.seen[name], exercises.get(stem), found.predictions[name])
        for name, notebook in found.originals.items()
        if not _is_exercise(name) and (stem := lesson_of(name))
    ]
    names = {lesson.name for lesson in lessons}
    lessons += [exercise_alone(each) for name, each in exercises.items() if name not in names]
    lessons.sort(key=lambda lesson: lesson.name)
    games = _games(course, found.remarks)
    return OwnCourse(lessons, worked_last(found.seen), found.remarks, games)


def _keep(course: Path, found: _Found) -> str:
    try:
        return " ".join(filter(None, [keep_seen(course, found.seen), keep_predictions(course, found.predictions)]))
    except OSError as error:
        return f"{FOLDER}/ can't be written ({error.strerror or error}), so what you did is not kept there."


def _find(course: Path) -> _Found:
    found = _Found()
    before, unreadable = kept_before(course)
    committed, torn = kept_predictions(course)
    found.remarks += [told for told in (unreadable, torn) if told]
    if not (course / FOLDER).is_dir():
        found.remarks.append(
            f"There is no folder {FOLDER}/ yet. distlib lab makes it, with your copies of all notebooks."
        )
    for copy, original in copies(course).items():
        name = copy.relative_to(course / FOLDER).as_posix()
        try:
            found.originals[name] = read_notebook(original)
        except (OSError, ValueError):
            found.remarks.append(f"The course's own {original.name} is broken. Get it again: distlib update")
            continue
        _find_copy(found, name, copy, before.get(name))
        kept = committed.get(name, {})
        found.predictions[name] = predictions_made(found.originals[name], found.mine.get(name), kept)
    return found


def _find_copy(found: _Found, name: str, copy: Path, before: SeenNotebook | None) -> None:
    """Read a student's copy of a notebook, if there is one."""
    original = found.originals[name]
    try:
        data = read_ordinary(copy)
        found.mine[name] = parse_notebook(data, copy)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        found.remarks.append(_unreadable(name, copy, error))
    mine = found.mine.get(name)
    if _is_exercise(name):
        found.functions[name], found.texts[name] = written_functions(original, mine), written_texts(original, mine)
    if mine is None:
        found.seen[name] = before or SeenNotebook(0, 0, "", "")
    else:
        is_written = any(each.source for each in found.functions.get(name, ()))
        is_written = is_written or any(each.text for each in found.texts.get(name, ()))
        found.seen[name] = look_at(copy, data, mine, before, is_written=is_written)


def _unreadable(name: str, copy: Path, error: Exception) -> str:
    shown = printable(f"{FOLDER}/{name}")
    if isinstance(error, OSError):
        return f"{shown} can't be read: {error.strerror or error}."
    kind = printable(str(kind_of(read_ordinary(copy))))
    return f"{shown} is not a notebook any more ({kind}). Rename it, and distlib lab makes a fresh one."


def _tell_of_versions(found: _Found) -> None:
    """A remark, if copies were made from another version of the course than the one that is here."""
    old = [
        name
        for name, mine in found.mine.items()
        if version_of(mine) and version_of(mine) != course_version(found.originals[name], name)
    ]
    if old:
        which = lesson_of(old[0]) if len(old) == 1 else f"{len(old)} of your notebooks"
        verb = "is" if len(old) == 1 else "are"
        found.remarks.append(
            f"{which} {verb} of a different version of the course. distlib lab brings this one, with what you wrote."
        )


def _exercise(course: Path, name: str, found: _Found, marks: Mapping[str, PointSum]) -> OwnExercise:
    exercise = lesson_of(name)
    last, unreadable = read_check(course, exercise)
    found.remarks += [unreadable] if unreadable else []
    return OwnExercise(
        exercise,
        promise_of(found.originals[name]),
        found.functions[name],
        last,
        found.texts[name],
        _handed_in(course, exercise),
        marks.get(exercise),
        term_dates(course).due.get(exercise),
    )


def _games(course: Path, remarks: list[str]) -> Sequence[BestPlay]:
    """The best plays that the student has chosen; a remark more, if they can't be read."""
    try:
        return chosen_by_hand(best_plays(course / FOLDER))
    except PlaysUnreadable as error:
        remarks.append(f"{error}. Its scores are left out here.")
        return ()


def _handed_in(course: Path, exercise: str) -> datetime | None:
    last = UploadFolder(course / exercise_copy(exercise)).last(exercise)
    return datetime.fromisoformat(last.time) if last else None


def _is_exercise(name: str) -> bool:
    """Whether a path in `work/` is that of an exercise."""
    return f"{FOLDER}/{name}".startswith(f"{EXERCISES}/")
