"""Collecting: from uploads to classroom/submitted/NAME/ASSIGNMENT/, where `distlib grade` looks.

Each file is either collected, or there is a reason why it is not: what is wrong with it, or whose it is has to be
asked. A student has one submission, the latest. What it replaces is kept in classroom/replaced/, and never comes back
by collecting the same uploads again. What has a number of a learning platform is replaced by nothing with another
number, or none, unless the instructor has said whose that is.
"""

from __future__ import annotations

import fcntl
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from distlib.classroom.grader.course import Course
from distlib.classroom.grader.handed_in_time import advice
from distlib.classroom.grader.refused import Refused, note_refused
from distlib.classroom.grader.submission import (
    CannotGrade,
    fingerprint,
    read_submission,
    read_timestamp,
    write_timestamp,
)
from distlib.classroom.register.aliases import alias_key, read_aliases
from distlib.classroom.register.merge_plan import check_nothing_is_half_done
from distlib.classroom.register.roster import Roster, read_roster
from distlib.classroom.register.table_file import TableError
from distlib.classroom.uploads.files import Upload, find_uploads, stem_of
from distlib.classroom.uploads.handed_in_times import HandedInTimes, TimesTable, alike, read_times, without_zone
from distlib.classroom.uploads.identities import Identities, Identity, settled, shown_name
from distlib.classroom.uploads.origins import Origin, read_origins, write_origins
from distlib.classroom.uploads.owners import Owner, owners
from distlib.classroom.uploads.recognize import Known, known_notebooks, normal, recognize
from distlib.classroom.uploads.upload_names import read_upload_name, without_copy
from distlib.classroom.words import joined
from distlib.games.handed_plays import ASSIGNMENT as GAMES, TEXT

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
        is_late: whether the learning platform says that it was handed in late, and nobody knows when.
    """

    file: str
    student: str
    state: str
    why: str = ""
    has_no_time: bool = False
    is_late: bool = False


@dataclass(frozen=True)
class _Candidate:
    upload: Upload
    owner: Owner
    identity: Identity
    problem: str = ""
    belongs_elsewhere: bool = False

    @property
    def student(self) -> str:
        """The name of the student's folder; "" if it is not known."""
        return self.identity.student

    @property
    def order(self) -> tuple[datetime, int, int, str]:
        """What is greater for a later upload."""
        copy = without_copy(self.upload.stem)[1]
        return self.upload.time or datetime.min, self.owner.upload, copy, self.upload.name


@dataclass(frozen=True)
class Collected:
    """What came of collecting.

    Attributes:
        outcomes: what became of each file.
        question: what the instructor has to decide about the uploads as a whole; "" for nothing.
    """

    outcomes: list[UploadOutcome]
    question: str = ""


def collect(
    course: Course,
    assignment: str,
    sources: Sequence[Path],
    *,
    time_zone: ZoneInfo | None = None,
    table: Path | None = None,
    believe_times: bool = False,
) -> Collected:
    """Collect the submissions of an assignment. Calling it again with the same uploads changes nothing.

    What is not collected is noted for the report of `distlib grade`.

    Args:
        course: the course.
        assignment: such as "02_all_reduce", or "games" for plays of the games.
        sources: folders, zip files and notebooks.
        time_zone: of the times in the uploads, if those are the times of handing in; None if they are not. With a
            table, of its times.
        table: with the times of handing in, see `handed_in_times`.
        believe_times: take the times of the uploads also if all are alike.

    Raises:
        CourseError, ValueError, OSError: a source or a table can't be read, or nothing can be written.
    """
    check_nothing_is_half_done(course)
    submitted = course.folder("submitted", "x", assignment).parents[1]
    submitted.mkdir(parents=True, exist_ok=True)
    roster = read_roster(course, [folder.name for folder in submitted.iterdir() if folder.is_dir()])
    said = _times_in(table, roster, time_zone) if table else None
    identities = Identities(roster, read_aliases(course), said.numbers if said else {})
    known = [*known_notebooks(course.root), _GAMES]
    with _unpacking_folder(submitted.parent) as folder:
        found = _owned(sources, folder, assignment, identities)
        outcomes = [_without_notebook(upload, owner, identities) for upload, owner in found if not upload.copy]
        nameless = [upload for upload, owner in found if upload.copy and not owner]
        outcomes += [UploadOutcome(upload.name, "", PROBLEM, _NAMELESS) for upload in nameless]
        by_student = defaultdict(list)
        for upload, owner in found:
            if upload.copy and owner:
                candidate = _examined(_Candidate(upload, owner, identities.of(owner)), assignment, known)
                by_student[candidate.student].append(candidate)
        times = HandedInTimes(time_zone, said, "" if believe_times else _alike(by_student))
        place = _Store(course, assignment, times)
        for candidates in by_student.values():
            outcomes += _decide(_told_apart(candidates), place)
    outcomes = _worth_saying(outcomes)
    refused = [Refused(each.file, each.student, each.why) for each in outcomes if each.state == PROBLEM]
    note_refused(course, assignment, sources, refused, {each.student for each in outcomes if each.state == COLLECTED})
    return Collected(outcomes, _about_times(times, said, time_zone))


@contextmanager
def _unpacking_folder(classroom: Path) -> Iterator[Path]:
    """An empty folder, for one collecting at a time. What one that was killed has left in it goes."""
    folder = classroom / ".collecting"
    with (classroom / ".collect.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the system frees it when a process ends
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _times_in(table: Path, roster: Roster, time_zone: ZoneInfo | None) -> TimesTable:
    try:
        found = read_times(table, roster)
        if time_zone is None and (why := without_zone(found)):
            raise TableError(why)
    except (OSError, TableError) as error:
        raise ValueError(f"{table}: {getattr(error, 'strerror', None) or error}") from None
    return found


def _alike(by_student: Mapping[str, Sequence[_Candidate]]) -> str:
    """Why the times of the files are not believed; "" if they differ."""
    good = (each for candidates in by_student.values() for each in candidates if not each.problem)
    return alike([each.upload.time for each in good if each.upload.time])


def _about_times(times: HandedInTimes, said: TimesTable | None, time_zone: ZoneInfo | None) -> str:
    """What is to be decided about times."""
    if said and said.strangers:
        rows = joined([repr(each) for each in said.strangers], 3)
        return f"These rows of the table of times are nobody's, or those of several: {rows}."
    if said or time_zone is None or not times.alike:
        return ""
    return (
        f"No time of handing in was taken: {times.alike}. Add --times TABLE, such as Moodle's grading worksheet, or "
        "--believe-times if they are right."
    )


_GAMES = Known(GAMES, True, (), frozenset({f"text {normal(TEXT)}"}))
_OTHER_FILE = ", not a notebook"
_NAMELESS = "its name does not say whose it is: put it into a folder with the student's name"


# ── whose, and what ──────────────────────────────────────────────────────────────────────────────────────────────────


def _owned(
    sources: Sequence[Path], folder: Path, assignment: str, identities: Identities
) -> list[tuple[Upload, Owner | None]]:
    """The files of all sources with their owners. Notebooks that are named one by one are like one folder."""
    found: list[tuple[Upload, Owner | None]] = []
    single: list[Upload] = []
    for number, source in enumerate(sources):
        (folder / str(number)).mkdir()
        try:
            uploads = find_uploads(source, folder / str(number))
        except (OSError, ValueError) as error:
            raise ValueError(f"{source}: {error}") from None
        if source.is_dir():
            found += zip(uploads, owners(uploads, assignment, "", identities.is_student), strict=True)
        elif source.suffix.lower() == ".zip":
            found += zip(uploads, owners(uploads, assignment, stem_of(source.name), identities.is_student), strict=True)
        else:
            single += uploads
    return found + list(zip(single, owners(single, assignment), strict=True))


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
    return replace(candidate, problem=candidate.identity.question)


def _belongs_elsewhere(candidate: _Candidate, found: Known) -> bool:
    """Whether a notebook lies here because all exercises share a folder: its name says what it is, as it should.

    In a student's box of a learning platform nothing of another exercise should lie.
    """
    claimed = read_upload_name(candidate.upload.stem)
    name = claimed[0] if claimed else without_copy(candidate.upload.stem)[0]
    return found.is_exercise and name == found.name and not candidate.owner.number


def _without_notebook(upload: Upload, owner: Owner | None, identities: Identities) -> UploadOutcome:
    student = identities.of(owner).student if owner else ""
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


def _told_apart(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """The candidates of one name: asked about where a platform has given several numbers to it."""
    sources = {each.owner.source for each in candidates if not each.problem} - {("", "")}
    return [
        replace(each, identity=Identity(""), problem=_another(each, sources - {each.owner.source}))
        if not each.problem and not each.identity.is_sure and sources - {each.owner.source}
        else each
        for each in candidates
    ]


def _another(candidate: _Candidate, others: Iterable[tuple[str, str]]) -> str:
    """The question about an upload whose name is that of a student from whom there is another one."""
    there = " and ".join(f"{platform}'s {number}" for platform, number in sorted(others))
    why = f"{shown_name(candidate.owner)} would be {candidate.student}, and so is {there}"
    same = f"If it is: distlib class alias {alias_key(candidate.owner.name)} {candidate.student}. If not: "
    settle = settled(candidate.owner, with_number=True)
    return f"{why}. {settle if candidate.owner.source[1] else f'{same}{settle[0].lower()}{settle[1:]}'}"


def _decide(candidates: Sequence[_Candidate], place: _Store) -> list[UploadOutcome]:
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
    return [*outcomes, place.store(last)]


def _refused(candidate: _Candidate) -> UploadOutcome:
    state = LEFT_OUT if candidate.belongs_elsewhere else PROBLEM
    return UploadOutcome(candidate.upload.name, candidate.student, state, candidate.problem)


class _Store:
    """Where the submissions of an assignment are put."""

    def __init__(self, course: Course, assignment: str, times: HandedInTimes) -> None:
        self._course, self._assignment, self._times = course, assignment, times
        self._origins = read_origins(course, assignment)

    def store(self, candidate: _Candidate) -> UploadOutcome:
        """Put a notebook into its place, unless it is there, was there before, or would replace somebody else's."""
        assert candidate.upload.copy is not None
        folder = self._course.folder("submitted", candidate.student, self._assignment)
        digest, (time, odd) = fingerprint(candidate.upload.copy), self._times.of(candidate.upload, candidate.student)
        is_late = candidate.owner.is_late and time is None
        as_said = UploadOutcome(candidate.upload.name, candidate.student, COLLECTED, "", bool(odd), is_late)
        if folder.exists() and (question := self._somebody_else(candidate)):
            return UploadOutcome(candidate.upload.name, "", PROBLEM, question)
        if self._has(folder, digest):
            return self._unchanged(candidate, folder, time, replace(as_said, why=self._no_time(folder, candidate, odd)))
        if any(self._has(earlier, digest) for earlier in self._replaced(candidate).glob("*")):
            why = "it was collected before, and a later one has replaced it"
            return replace(as_said, state=LEFT_OUT, why=why, has_no_time=False)
        if folder.exists() and (question := self._less_sure(candidate)):
            return UploadOutcome(candidate.upload.name, "", PROBLEM, question)
        if time and (there := read_timestamp(folder)[0]) and time < there:
            why = f"one of {there:%Y-%m-%d %H:%M:%S} UTC, which is later, is there"
            return replace(as_said, state=LEFT_OUT, why=why)
        kept = self._put(candidate, folder, time)
        where = f"the earlier one is kept in {self._course.name(kept)}" if kept else ""
        why = ". ".join(filter(None, [self._no_time(folder, candidate, odd), where]))
        return replace(as_said, why=why)

    def _unchanged(
        self, candidate: _Candidate, folder: Path, time: datetime | None, as_said: UploadOutcome
    ) -> UploadOutcome:
        """The same notebook is there. Only its time may be new."""
        there = read_timestamp(folder)[0]
        self._note_origin(candidate)
        if time and time != there:
            write_timestamp(folder, time)
            return replace(as_said, state=UNCHANGED, why=f"time of handing in noted: {time:%Y-%m-%d %H:%M:%S} UTC")
        known = replace(as_said, has_no_time=False, is_late=False, why="") if there else as_said
        return replace(known, state=UNCHANGED)

    def _put(self, candidate: _Candidate, folder: Path, time: datetime | None) -> Path | None:
        """Put a notebook there in one move. Returns where the earlier one is kept, if there was one."""
        assert candidate.upload.copy is not None
        self._note_origin(candidate)
        kept = _keep_earlier(folder, self._replaced(candidate))
        new = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        shutil.move(candidate.upload.copy, new / f"{self._assignment}.ipynb")
        if time:
            write_timestamp(new, time)
        new.rename(folder)
        return kept

    def _replaced(self, candidate: _Candidate) -> Path:
        """Where submissions of a student are kept that a later one has replaced."""
        submitted = self._course.folder("submitted", candidate.student, self._assignment)
        return submitted.parents[2] / "replaced" / candidate.student / self._assignment

    def _has(self, folder: Path, digest: str) -> bool:
        """Whether the notebook with these bytes lies in a folder."""
        try:
            return fingerprint(folder / f"{self._assignment}.ipynb") == digest
        except CannotGrade:
            return False

    def _no_time(self, folder: Path, candidate: _Candidate, odd: str) -> str:
        """That no time of handing in is known, and what else is said about it."""
        if odd:
            odd = f"no time of handing in: {odd}; {advice(self._course.name(folder / 'timestamp.txt'))}"
        late = f"{candidate.owner.platform} says that it was handed in late" if candidate.owner.is_late else ""
        return "; ".join(filter(None, [late, odd]))

    # ── whose is what is there ───────────────────────────────────────────────────────────────────────────────────

    def _somebody_else(self, candidate: _Candidate) -> str:
        """The question if a platform has two numbers for one name: also two alike notebooks are of two students."""
        origin = self._origins.get(candidate.student, Origin())
        same = origin.source == candidate.owner.source or not (origin.platform and candidate.owner.source[0])
        return "" if same or candidate.identity.is_sure else _another(candidate, [origin.source])

    def _less_sure(self, candidate: _Candidate) -> str:
        """The question if a name that a student may have chosen would replace what is known better."""
        if candidate.owner.within:
            return (
                f'it lies in "{candidate.owner.within}", and would replace what {candidate.student} has handed in. If '
                "that is no student's folder, name it instead of the one around it"
            )
        origin = self._origins.get(candidate.student, Origin())
        is_known = candidate.identity.is_sure or not origin.platform or candidate.owner.source[0]
        return "" if is_known else _another(candidate, [origin.source])

    def _note_origin(self, candidate: _Candidate) -> None:
        """Before the notebook is there: a note too many asks, a note too few replaces."""
        origin = Origin(*candidate.owner.source, candidate.owner.is_late)
        if origin.platform and origin != self._origins.get(candidate.student):
            self._origins[candidate.student] = origin
            write_origins(self._course, self._assignment, self._origins)


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
