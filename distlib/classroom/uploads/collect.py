"""Collecting: from uploads to classroom/submitted/NAME/ASSIGNMENT/, where `distlib grade` looks.

Each file is either collected, or there is a reason why it is not. A student has one submission, the latest. What it
replaces is kept in classroom/replaced/, and never comes back by collecting the same uploads again.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from distlib.classroom.grader.course import Course
from distlib.classroom.grader.handed_in_time import advice, implausible
from distlib.classroom.grader.refused import Refused, note_refused
from distlib.classroom.grader.submission import (
    CannotGrade,
    fingerprint,
    read_submission,
    read_timestamp,
    write_timestamp,
)
from distlib.classroom.uploads.files import Upload, find_uploads
from distlib.classroom.uploads.owners import Owner, Roster, owners, read_roster
from distlib.classroom.uploads.recognize import Known, known_notebooks, normal, recognize
from distlib.classroom.uploads.upload_names import read_upload_name, student_name, without_copy
from distlib.games.handed_plays import ASSIGNMENT as GAMES
from distlib.games.handed_plays import TEXT

COLLECTED, UNCHANGED, LEFT_OUT, PROBLEM = "collected", "unchanged", "left out", "not collected"
_SAFE_TIME = "%Y-%m-%d %H.%M.%S"


@dataclass(frozen=True)
class UploadOutcome:
    """What became of one file.

    Attributes:
        file: its name in the uploads.
        student: the name of the student's folder; "" if it is not known.
        state: COLLECTED, UNCHANGED, LEFT_OUT (nothing is wrong), or PROBLEM.
        why: more about it.
        has_no_time: whether it was collected without a time of handing in, though the uploads should have one.
    """

    file: str
    student: str
    state: str
    why: str = ""
    has_no_time: bool = False


@dataclass(frozen=True)
class _Candidate:
    upload: Upload
    owner: Owner
    student: str
    problem: str = ""
    belongs_elsewhere: bool = False

    @property
    def order(self) -> tuple[datetime, int, int, str]:
        """What is greater for a later upload."""
        copy = without_copy(self.upload.stem)[1]
        return self.upload.time or datetime.min, self.owner.upload, copy, self.upload.name


def collect(
    course: Course, assignment: str, sources: Sequence[Path], *, time_zone: ZoneInfo | None = None
) -> list[UploadOutcome]:
    """Collect the submissions of an assignment. Calling it again with the same uploads changes nothing.

    What is not collected is noted for the report of `distlib grade`.

    Args:
        course: the course.
        assignment: such as "02_all_reduce", or "games" for plays of the games.
        sources: folders, zip files and notebooks.
        time_zone: of the times in the uploads, if those are the times of handing in; None if they are not.

    Returns:
        What became of each file.

    Raises:
        ValueError, OSError: a source can't be read, or nothing can be written.
    """
    submitted = course.folder("submitted", "x", assignment).parents[1]
    submitted.mkdir(parents=True, exist_ok=True)
    here = [folder.name for folder in submitted.iterdir() if folder.is_dir()]
    roster = read_roster(submitted.parent / "students.csv", here)
    known = [*known_notebooks(course.root), _GAMES]
    with tempfile.TemporaryDirectory(prefix=".collecting-", dir=submitted.parent) as folder:
        found = _owned(sources, Path(folder), assignment)
        outcomes = [_without_notebook(upload, owner, roster) for upload, owner in found if not upload.copy]
        named = [(upload, owner) for upload, owner in found if upload.copy and owner]
        nameless = [upload for upload, owner in found if upload.copy and not owner]
        outcomes += [UploadOutcome(upload.name, "", PROBLEM, _NAMELESS) for upload in nameless]
        by_student = defaultdict(list)
        for candidate in _candidates(named, roster):
            by_student[candidate.student].append(_examined(candidate, assignment, known))
        for candidates in by_student.values():
            outcomes += _decide(candidates, course, assignment, time_zone)
    outcomes = _worth_saying(outcomes)
    refused = [Refused(each.file, each.student, each.why) for each in outcomes if each.state == PROBLEM]
    note_refused(course, assignment, sources, refused, {each.student for each in outcomes if each.state == COLLECTED})
    return outcomes


_GAMES = Known(GAMES, True, (), frozenset({f"text {normal(TEXT)}"}))
_OTHER_FILE = ", not a notebook"
_NAMELESS = "its name does not say whose it is: put it into a folder with the student's name"


# ── whose, and what ──────────────────────────────────────────────────────────────────────────────────────────────────


def _owned(sources: Sequence[Path], folder: Path, assignment: str) -> list[tuple[Upload, Owner | None]]:
    """The files of all sources with their owners. Notebooks that are named one by one are like one folder."""
    found: list[tuple[Upload, Owner | None]] = []
    single: list[Upload] = []
    for number, source in enumerate(sources):
        (folder / str(number)).mkdir()
        try:
            uploads = find_uploads(source, folder / str(number))
        except (OSError, ValueError) as error:
            raise ValueError(f"{source}: {error}") from None
        if source.is_dir() or source.suffix.lower() == ".zip":
            found += zip(uploads, owners(uploads, assignment), strict=True)
        else:
            single += uploads
    return found + list(zip(single, owners(single, assignment), strict=True))


def _candidates(named: Iterable[tuple[Upload, Owner]], roster: Roster) -> list[_Candidate]:
    """Each notebook with the folder of its student. Students of one name get the platform's number added."""
    found = [_Candidate(upload, owner, roster.folder(owner.name)) for upload, owner in named]
    numbers = defaultdict(set)
    for candidate in found:
        numbers[candidate.student].add(candidate.owner.number)
    return [
        replace(candidate, student=student_name(f"{candidate.student} {candidate.owner.number}"))
        if len(numbers[candidate.student] - {""}) > 1
        else candidate
        for candidate in found
    ]


def _examined(candidate: _Candidate, assignment: str, known: Sequence[Known]) -> _Candidate:
    """The candidate with what is wrong with its notebook."""
    assert candidate.upload.copy is not None
    try:
        found = recognize(read_submission(candidate.upload.copy).cells, known)
    except CannotGrade as error:
        why = re.sub(rf"^{candidate.upload.copy.name} ", "it ", str(error))
        return replace(candidate, problem=why)
    if found is None:
        return replace(candidate, problem="it is a notebook, but nothing of this course")
    if found.name != assignment or not found.is_exercise:
        return replace(candidate, problem=f"it is {found}", belongs_elsewhere=_belongs_elsewhere(candidate, found))
    return candidate


def _belongs_elsewhere(candidate: _Candidate, found: Known) -> bool:
    """Whether a notebook lies here because all exercises share a folder: its name says what it is, as it should.

    In a student's box of a learning platform nothing of another exercise should lie.
    """
    claimed = read_upload_name(candidate.upload.stem)
    name = claimed[0] if claimed else without_copy(candidate.upload.stem)[0]
    return found.is_exercise and name == found.name and not candidate.owner.number


def _without_notebook(upload: Upload, owner: Owner | None, roster: Roster) -> UploadOutcome:
    student = roster.folder(owner.name) if owner else ""
    if upload.problem:
        return UploadOutcome(upload.name, student, PROBLEM, upload.problem)
    return UploadOutcome(upload.name, student, PROBLEM, f"it is {upload.kind}{_OTHER_FILE}")


def _worth_saying(outcomes: Sequence[UploadOutcome]) -> list[UploadOutcome]:
    """All but the other files of students whose notebook is there, such as pictures and receipts."""
    have = {outcome.student for outcome in outcomes if outcome.state != PROBLEM}
    return [
        replace(outcome, state=LEFT_OUT) if outcome.why.endswith(_OTHER_FILE) and outcome.student in have else outcome
        for outcome in outcomes
    ]


# ── one student ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _decide(
    candidates: Sequence[_Candidate], course: Course, assignment: str, time_zone: ZoneInfo | None
) -> list[UploadOutcome]:
    """Take the latest notebook of a student that can be taken."""
    outcomes = [_refused(candidate) for candidate in candidates if candidate.problem]
    good = sorted(
        (candidate for candidate in candidates if not candidate.problem), key=lambda candidate: candidate.order
    )
    if not good:
        return outcomes
    *earlier, last = good
    why = f"a later one of this student was taken: {last.upload.name}"
    outcomes += [UploadOutcome(candidate.upload.name, candidate.student, LEFT_OUT, why) for candidate in earlier]
    return [*outcomes, _store(last, course, assignment, time_zone)]


def _refused(candidate: _Candidate) -> UploadOutcome:
    state = LEFT_OUT if candidate.belongs_elsewhere else PROBLEM
    return UploadOutcome(candidate.upload.name, candidate.student, state, candidate.problem)


def _store(candidate: _Candidate, course: Course, assignment: str, time_zone: ZoneInfo | None) -> UploadOutcome:
    """Put a notebook into its place, unless it is there or was there before."""
    assert candidate.upload.copy is not None
    folder = course.folder("submitted", candidate.student, assignment)
    replaced = folder.parents[2] / "replaced" / candidate.student / assignment
    digest, (time, odd) = fingerprint(candidate.upload.copy), _time(candidate.upload, time_zone)
    notebook, there = folder / f"{assignment}.ipynb", read_timestamp(folder)[0]
    no_time = f"no time of handing in: {odd}; {advice(course.name(folder / 'timestamp.txt'))}" if odd else ""
    as_said = UploadOutcome(candidate.upload.name, candidate.student, COLLECTED, has_no_time=bool(odd))
    if _has(notebook, digest):
        if time and time != there:
            write_timestamp(folder, time)
            return replace(as_said, state=UNCHANGED, why=f"time of handing in noted: {time:%Y-%m-%d %H:%M:%S} UTC")
        known = replace(as_said, has_no_time=False) if there else replace(as_said, why=no_time)
        return replace(known, state=UNCHANGED)
    if any(_has(path, digest) for path in replaced.glob(f"*/{assignment}.ipynb")):
        why = "it was collected before, and a later one has replaced it"
        return replace(as_said, state=LEFT_OUT, why=why, has_no_time=False)
    if time and there and time < there:
        return replace(as_said, state=LEFT_OUT, why=f"one of {there:%Y-%m-%d %H:%M:%S} UTC, which is later, is there")
    kept = _keep_earlier(folder, replaced)
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    shutil.move(candidate.upload.copy, new / notebook.name)
    if time:
        write_timestamp(new, time)
    new.rename(folder)
    where = f"the earlier one is kept in {course.name(kept)}" if kept else ""
    return replace(as_said, why=". ".join(filter(None, [no_time, where])))


def _keep_earlier(folder: Path, replaced: Path) -> Path | None:
    """Move what is in a student's folder away. Returns where it is now; None if there was nothing."""
    if not folder.exists():
        return None
    now = datetime.now(UTC).strftime(_SAFE_TIME)
    candidates = (replaced / (f"{now} ({number})" if number else now) for number in range(1_000))
    kept = next(path for path in candidates if not path.exists())
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(folder, kept)
    return kept


def _has(path: Path, digest: str) -> bool:
    """Whether this is a file with these bytes."""
    try:
        return fingerprint(path) == digest
    except CannotGrade:
        return False


def _time(upload: Upload, time_zone: ZoneInfo | None) -> tuple[datetime | None, str]:
    """When it was handed in, in UTC and without a time zone, as nbgrader has it; None if that is not known.

    Also why it is not known, if it should be.
    """
    if time_zone is None:
        return None, ""
    if upload.time is None:
        return None, "the uploads have none for it"
    time = upload.time.replace(tzinfo=time_zone).astimezone(UTC).replace(tzinfo=None)
    why = implausible(time)
    return (None, f"the one in the uploads, {upload.time:%Y-%m-%d %H:%M}, {why}") if why else (time, "")
