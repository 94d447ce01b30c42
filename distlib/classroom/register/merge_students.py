"""`distlib class same OLD NEW`: two names are one student's. All of OLD becomes NEW's, in all exercises.

    submitted, autograded, replaced, graded     folders and records are moved; feedback, which shows a name, is removed
    gradebook                                   marks, comments, times and marks by hand change their owner
    class.json, pseudonyms.json, aliases.csv    teams, extensions, names on the board, and what OLD stands for

What each step does it can do again. The plan is noted before the first one: whoever is stopped in the middle types
the same command once more. Where both have work in an exercise, the instructor has to say whose counts; the other's
notebook goes to classroom/replaced/.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry, Student
from sqlalchemy.exc import DatabaseError

from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.grader.one_grader import one_grader
from distlib.classroom.grader.spreadsheet import spreadsheet
from distlib.classroom.grader.student_record import read_record, record_path
from distlib.classroom.grader.submission import CannotGrade, fingerprint
from distlib.classroom.register.aliases import alias_key, read_aliases, write_aliases
from distlib.classroom.register.class_register import ClassRegister, change_register, classroom_of, read_register
from distlib.classroom.register.merge_plan import MergePlan, plan_path, read_plan, write_plan
from distlib.classroom.register.roster import read_roster
from distlib.classroom.words import joined
from distlib.whole_file import write_file

_STEPS = ("submitted", "autograded", "feedback")


def merge_students(course: Course, old: str, new: str, keep: str = "") -> MergePlan:
    """Make two names one. Returns what was done.

    Args:
        course: the course.
        old: the name that goes.
        new: the name that stays.
        keep: of the two, whose work counts where both have some; "" if that has to be asked.

    Raises:
        CourseError: nothing was changed; or what was begun goes on with the same command.
    """
    with one_grader(course):
        plan = read_plan(course)
        if plan and (plan.old, plan.new) != (old, new):
            raise CourseError(f"{plan.command} was stopped in the middle: run it again first")
        if plan is None:
            plan = _planned(course, old, new, keep)
            write_plan(course, plan)
        merge = _Merge(course, plan)
        for assignment in plan.kept:
            merge.folders(assignment)
            merge.records(assignment)
        merge.marks()
        merge.tables()
        merge.empty_folders()
        plan_path(course).unlink()
    return plan


# ── what is to be done ───────────────────────────────────────────────────────────────────────────────────────────────


def _planned(course: Course, old: str, new: str, keep: str) -> MergePlan:
    """The plan, or why there is none: nothing has changed yet."""
    for name in (old, new):
        _check_is_one_folder(name)
    if old == new:
        raise CourseError(f"{old} and {new} are the same name")
    if old in read_roster(course).students and read_roster(course).is_closed:
        raise CourseError(f"{old} is in students.csv: if that is the wrong name, take its row away first")
    _check_teams(read_register(course), old, new)
    work = {name: _work_of(course, name) for name in (old, new)}
    if not work[old]:
        raise CourseError(f"{old} has no folder and no marks")
    both = sorted(work[old].keys() & work[new].keys())
    differ = [name for name in both if not work[old][name] or work[old][name] != work[new][name]]
    if differ and keep not in (old, new):
        raise CourseError(
            f"{old} and {new} both have work in {joined(differ)}. Whose counts? Add --keep {old} or --keep {new}; the "
            "other's notebook goes to classroom/replaced/, its marks go"
        )
    counts = dict.fromkeys(both, new) | dict.fromkeys(differ, keep)
    return MergePlan(old, new, {name: counts.get(name, old) for name in sorted(work[old])})


def _check_is_one_folder(name: str) -> None:
    """Stop at what would be all students' folders, or lead out of them: `distlib class same "$OLD" s1` without OLD."""
    if name in ("", ".", "..") or "/" in name:
        raise CourseError(f"{name!r} is no name of a student's folder; nothing was changed")


def _check_teams(register: ClassRegister, old: str, new: str) -> None:
    theirs = [team for team in (register.team_of(old), register.team_of(new)) if team]
    if len({*theirs}) == 2:
        raise CourseError(f"{old} is in team {theirs[0]}, {new} in {theirs[1]}: end one of them first, with --none")


def _work_of(course: Course, student: str) -> dict[str, str]:
    """The exercises of which a student has anything: a hash of the notebook, "" where there are marks only."""
    submitted = _step(course, "submitted")
    places = [*(_step(course, step) for step in _STEPS), classroom_of(course) / "replaced"]
    names = {path.name for place in places for path in (place / student).glob("*") if path.is_dir()}
    records = course.records("x").parent.glob(f"*/students/{escape(student)}/record.json")
    names |= {path.parents[2].name for path in records}
    found = {name: _hash(submitted / student / name / f"{name}.ipynb") for name in names}
    with _gradebook(course) as gradebook:
        for name in _graded(gradebook, student):
            found.setdefault(name, "")
    return found


def _step(course: Course, step: str) -> Path:
    """nbgrader's folder with a folder for each student."""
    return course.folder(step, "x", "x").parents[1]


@contextmanager
def _gradebook(course: Course) -> Iterator[Gradebook | None]:
    """nbgrader's gradebook, if there is one. What is not committed has not happened."""
    url = course.settings.db_url
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists():
        yield None
        return
    try:
        with Gradebook(url, course.settings.course_id) as gradebook:
            yield gradebook
    except DatabaseError as error:
        raise CourseError(f"the gradebook can't be used: {error.orig or error}") from None


def _hash(notebook: Path) -> str:
    try:
        return fingerprint(notebook)
    except CannotGrade:
        return ""


def _graded(gradebook: Gradebook | None, student: str) -> list[str]:
    try:
        return [each.assignment.name for each in gradebook.find_student(student).submissions] if gradebook else []
    except MissingEntry:
        return []


# ── doing it ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Merge:
    """The steps. Each leaves what is done as it is."""

    def __init__(self, course: Course, plan: MergePlan) -> None:
        self._course, self._old, self._new, self._kept = course, plan.old, plan.new, plan.kept

    def folders(self, assignment: str) -> None:
        """Notebooks as handed in and as graded; feedback shows a name, and is to be written again."""
        for step in _STEPS:
            old, new = (_step(self._course, step) / name / assignment for name in (self._old, self._new))
            if step == "feedback":
                _remove(old)
            elif old.exists() and self._kept[assignment] == self._new:
                self._away(old, step, assignment)
            elif old.exists():
                self._away(new, step, assignment)
                _move(old, new)
        if self._kept[assignment] == self._old:
            _remove(_step(self._course, "feedback") / self._new / assignment)
        for earlier in sorted((classroom_of(self._course) / "replaced" / self._old / assignment).glob("*")):
            _move(earlier, self._place_for_replaced(assignment, earlier.name))

    def _away(self, folder: Path, step: str, assignment: str) -> None:
        """Put a notebook that was handed in and does not count to those that were replaced; remove what came of it."""
        if folder.exists() and step == "submitted":
            now = datetime.now(UTC).strftime("%Y-%m-%d %H.%M.%S")
            _move(folder, self._place_for_replaced(assignment, now))
        else:
            _remove(folder)

    def _place_for_replaced(self, assignment: str, name: str) -> Path:
        folder = classroom_of(self._course) / "replaced" / self._new / assignment
        names = (name, *(f"{name} ({number})" for number in range(1_000)))
        return next(folder / name for name in names if not (folder / name).exists())

    def records(self, assignment: str) -> None:
        """What grading and collecting have noted."""
        folder = self._course.records(assignment)
        _remove(folder / "shares" / "students" / self._old)
        old, new = (record_path(self._course, assignment, name) for name in (self._old, self._new))
        if self._kept[assignment] == self._old and (record := read_record(old)):
            write_file(new, json.dumps(asdict(replace(record, student=self._new)), indent=1).encode())
        _remove(old.parent)
        counts = self._kept[assignment] == self._old
        _change_json(folder / "shared.json", lambda noted: self._renamed(noted, counts))
        _change_json(folder / "collected.json", lambda noted: self._renamed(noted, counts))
        _change_json(folder / "not_collected.json", self._renamed_refused)
        self._rename_changes(folder / "changes.csv")

    def _renamed(self, noted: dict[str, Any], counts: bool) -> dict[str, Any]:
        """What is noted by student: of OLD for NEW, if it counts."""
        mine = {self._new: noted[self._old]} if self._old in noted and (counts or self._new not in noted) else {}
        return {student: value for student, value in noted.items() if student != self._old} | mine

    def _renamed_refused(self, noted: dict[str, Any]) -> dict[str, Any]:
        return {
            origin: [[file, self._new if student == self._old else student, why] for file, student, why in uploads]
            for origin, uploads in noted.items()
        }

    def _rename_changes(self, table: Path) -> None:
        if not table.exists():
            return
        heads, *rows = csv.reader(io.StringIO(table.read_text(encoding="utf-8"), newline=""))
        mine = [[row[0], self._new, *row[2:]] if row[1:2] == [self._old] else row for row in rows]
        if mine != rows:
            write_file(table, spreadsheet([heads, *mine]).encode())

    def marks(self) -> None:
        """The gradebook, in one transaction."""
        with _gradebook(self._course) as gradebook:
            known = gradebook and gradebook.db.get(Student, self._old)
            if not gradebook or not known:
                return
            with gradebook.db.no_autoflush:
                other = gradebook.db.get(Student, self._new) or Student(id=self._new)
                gradebook.db.add(other)
                for name in ("first_name", "last_name", "email", "lms_user_id"):
                    setattr(other, name, getattr(other, name) or getattr(known, name))
                theirs = {each.assignment.name: each for each in other.submissions}
                for submission in list(known.submissions):
                    self._give(gradebook, submission, theirs.get(submission.assignment.name), other)
            gradebook.db.flush()
            gradebook.db.delete(known)
            gradebook.db.commit()

    def _give(self, gradebook: Gradebook, submission: Any, theirs: Any, other: Student) -> None:
        """Give one of OLD's submissions to NEW, or delete it if NEW's counts."""
        counts = self._kept.get(submission.assignment.name, self._old) == self._old
        if theirs and not counts:
            _delete(gradebook, submission)
            return
        if theirs:
            _delete(gradebook, theirs)
            gradebook.db.flush()  # before a second one of this student is there
        submission.student = other

    def tables(self) -> None:
        """Teams, extensions, pseudonyms, and what OLD stands for."""
        change_register(self._course, self._in_register)
        _change_json(classroom_of(self._course) / "pseudonyms.json", self._joined)
        aliases = {written: self._new if to == self._old else to for written, to in read_aliases(self._course).items()}
        roster = read_roster(self._course)
        if not roster.named(self._old) - {self._new, self._old}:  # a name of several is none to remember
            aliases[alias_key(self._old)] = self._new
        write_aliases(self._course, aliases)

    def _in_register(self, register: ClassRegister) -> ClassRegister:
        teams = {
            team: list(dict.fromkeys(self._new if student == self._old else student for student in students))
            for team, students in register.teams.items()
        }
        extensions = {name: self._renamed(dict(given), counts=False) for name, given in register.extensions.items()}
        pseudonyms = self._renamed(dict(register.pseudonyms), counts=False)
        return replace(register, teams=teams, extensions=extensions, pseudonyms=pseudonyms)

    def _joined(self, held: dict[str, Any]) -> dict[str, Any]:
        """The names on the board that OLD has had, behind those of NEW."""
        both = [*held.get(self._new, []), *held.get(self._old, [])]
        others = {student: had for student, had in held.items() if student != self._old}
        return {**others, self._new: list(dict.fromkeys(both))} if both else held

    def empty_folders(self) -> None:
        """Remove what is left of OLD, if nothing is in it."""
        places = [_step(self._course, step) for step in _STEPS] + [classroom_of(self._course) / "replaced"]
        for folder in [place / self._old for place in places]:
            for path in sorted(folder.glob("*")) + [folder]:
                with suppress(OSError):
                    path.rmdir()


def _change_json(path: Path, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """Change what a file says, in one move. A file that is not there or can't be read stays as it is."""
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        after = change(before)
    except (OSError, ValueError, TypeError, AttributeError):
        return
    if after != before:
        write_file(path, json.dumps(after, indent=1, ensure_ascii=False).encode())


def _delete(gradebook: Gradebook, submission: Any) -> None:
    """A submission with its marks and comments, as nbgrader does, but for its commits in between."""
    for notebook in list(submission.notebooks):
        for each in [*notebook.grades, *notebook.comments, notebook]:
            gradebook.db.delete(each)
    gradebook.db.delete(submission)


def _move(old: Path, new: Path) -> None:
    new.parent.mkdir(parents=True, exist_ok=True)
    old.rename(new)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
