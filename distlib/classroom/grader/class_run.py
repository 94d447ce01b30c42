"""Grading a class: every submission to its marks, and every student into a state that is said.

    graded                 the marks are in the gradebook, the notebook is in autograded/
    graded, with remarks   the same, and something for the instructor to know
    could not be graded    and why; the gradebook has no mark of the tests, nor one of an earlier submission

What came of a submission is noted in a record (classroom/graded/ASSIGNMENT/students/STUDENT/record.json), after its
marks are in the gradebook. A submission is graded again only if it, the instructor's notebook or what judges has
changed, or the gradebook does not have the marks of the record. So a run that was interrupted, however that came about,
goes on where it was; what was half done is done again. If it is the same submission, only those test cells are judged
again whose verdict can change, see `verdicts`.

The inputs of the tests are drawn anew in each run, the same for everybody who is graded in it. So what a student has
learned about them from the feedback is of no use for handing in again. A notebook that was graded before gets the same
inputs as before: its marks change only if the tests have.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from distlib.classroom.grader.autograded import Autograded
from distlib.classroom.grader.check_message import Told, split_message
from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.grader.examine import PATIENCE, Examined, Examinee, OpenJudge, examine_all
from distlib.classroom.grader.gradebook import GradebookError, Mark, MarksBook
from distlib.classroom.grader.refused import Refused, read_refused
from distlib.classroom.grader.source import Source
from distlib.classroom.grader.spreadsheet import spreadsheet
from distlib.classroom.grader.submission import CannotGrade, find_notebook, fingerprint, read_timestamp, why_no_time
from distlib.classroom.grader.verdicts import hash_of, judging_code
from distlib.classroom.register.class_register import read_register
from distlib.classroom.register.due_dates import DueDates, due_dates
from distlib.classroom.register.teams import TeamWork, share_in_teams
from distlib.whole_file import write_file

_PATTERN = "nbgrader generate_feedback does not take the folder's name (line break, *, ? or [); better rename it"

STUDENTS = "students"
LATE_PENALTY = "late_penalty"  # in the place of a test cell's name, and as the name of a column


@dataclass(frozen=True)
class Record:
    """What came of one submission.

    Attributes:
        student: the name of the folder.
        problem: why it could not be graded; "" if it was.
        remarks: what the instructor should know.
        marks: what the tests gave, by test cell; None for a cell that is marked by hand.
        told: what the failed ones say, by test cell.
        seconds: how long it took to judge all of it.
        took: how long it took now, when perhaps only some of it was judged again.
        older: the locked cells and tests that the instructor has changed since this student got them.
        version: of submission, instructor's notebook and grader.
        times: how many times as much time as others it may take; that is kept for the next run.
        work: a hash of the notebook that was handed in.
        seed: of the inputs with which it was graded.
    """

    student: str
    problem: str = ""
    remarks: list[str] = field(default_factory=list)
    marks: dict[str, float | None] = field(default_factory=dict)
    told: dict[str, Told] = field(default_factory=dict)
    seconds: float = 0.0
    took: float = 0.0
    older: list[str] = field(default_factory=list)
    version: str = ""
    times: float = 1.0
    work: str = ""
    seed: str = ""

    @property
    def state(self) -> str:
        """How far the submission's grading is, in words."""
        if self.problem:
            return "could not be graded"
        return "graded, with remarks" if self.remarks else "graded"


@dataclass(frozen=True)
class Change:
    """A mark of a student that was graded before, or what the student loses for being late.

    Attributes:
        student, cell: whose, and of which test cell; LATE_PENALTY for being late.
        before, after: points; None if the submission could not be graded.
    """

    student: str
    cell: str
    before: float | None
    after: float | None

    @property
    def what(self) -> str:
        """What has changed, for a reader."""
        return "points lost for being late" if self.cell == LATE_PENALTY else self.cell


@dataclass(frozen=True)
class _Basis:
    """What the marks of a student come from: see `Record`."""

    version: str
    work: str
    seed: str


@dataclass(frozen=True)
class ClassRun:
    """A class after a run.

    Attributes:
        assignment: its name.
        cells: the names of the test cells, in their order.
        records: of every student that has a record, by student.
        marks: as the gradebook has them now, by student and test cell.
        penalties: for handing in late, by student.
        unchanged: students whose record is of an earlier run.
        missing: students of the gradebook that have not handed in; only if everybody was graded.
        changes: marks that are not what they were before this run.
        judged: of students that were graded before and again now, the test cells that were judged.
        refused: uploads that `distlib collect` did not collect.
        without_time: of students of whom it is not known when they handed in, where being late costs points: why not.
        outdated: students whose feedback was about an earlier grading, and was removed.
        due: when it is due, and for whom later.
        teams: what teams have handed in.
    """

    assignment: str
    cells: list[str]
    records: dict[str, Record]
    marks: dict[str, dict[str, Mark]]
    penalties: dict[str, float]
    unchanged: list[str]
    missing: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    judged: dict[str, list[str]] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    without_time: dict[str, str] = field(default_factory=dict)
    outdated: list[str] = field(default_factory=list)
    due: DueDates = field(default_factory=DueDates)
    teams: list[TeamWork] = field(default_factory=list)


def grade_class(
    course: Course,
    assignment: str,
    open_judge: OpenJudge,
    *,
    students: Sequence[str] = (),
    jobs: int = 1,
    again: bool = False,
    patience: float = PATIENCE,
    times: Mapping[str, float] | None = None,
    seed: str = "",
    tell: Callable[[Record, int], None] = lambda record, total: None,
) -> ClassRun:
    """Grade the submissions of an assignment.

    Args:
        course: the course.
        assignment: its name.
        open_judge: gives a judge for each submission, see `examine_all`.
        students: only these; everybody without it.
        jobs: how many submissions at a time.
        again: also grade what has not changed, and judge everything.
        patience: seconds for one submission, in case that its judge hangs.
        times: by student, how many times as much time as others they may take.
        seed: of the inputs of the tests. Without it one is drawn, which no student can know before.
        tell: called after each student with what came of it, and how many there are to grade.

    Raises:
        CourseError: nothing can be graded.
    """
    with _alone(course, assignment):
        grader = _Grader(course, assignment, open_judge, times or {}, seed or secrets.token_hex(16))
        there = course.students(assignment)  # copies for the students of a team are among them
        who = grader.with_team_mates(list(dict.fromkeys(students))) or there
        if not who:
            raise CourseError(f"nobody has handed in {assignment}; it should be in {grader.expected('STUDENT')}")
        for student in [student for student in who if student not in there]:
            raise CourseError(f"{student} has not handed in {assignment}; it should be in {grader.expected(student)}")
        for student in set(times or {}) - set(who):
            raise CourseError(f"{student} is to have more time, and is not among those to be graded")
        return grader.run(who, jobs, again, patience, tell)


class _Grader:
    def __init__(
        self, course: Course, assignment: str, open_judge: OpenJudge, times: Mapping[str, float], seed: str
    ) -> None:
        self._course, self._assignment, self._open_judge = course, assignment, open_judge
        self._times, self._seed = dict(times), seed
        self._source = course.source(assignment)
        self._register = read_register(course)
        granted = self._register.extensions.get(assignment, {})
        self._book = MarksBook(course, assignment, self._source, granted)
        self._teams = _shared(course, assignment, self._register.teams)
        self._version = _version(self._source)
        self._before: dict[str, dict[str, Mark]] = {}
        self._penalties_before: dict[str, float] = {}
        self._changes: list[Change] = []
        self._judged: dict[str, list[str]] = {}
        self._outdated: list[str] = []
        self._known: dict[str, Record] = {}  # of earlier runs
        self._by_hand = {
            cell.metadata.nbgrader.grade_id
            for cell in self._source.notebook.cells
            if cell.cell_type != "code" and cell.metadata.get("nbgrader", {}).get("grade")
        }

    def run(
        self, who: Sequence[str], jobs: int, again: bool, patience: float, tell: Callable[[Record, int], None]
    ) -> ClassRun:
        records, marks = read_records(self._course, self._assignment), self._marks()
        self._known = dict(records)
        self._times = {**{student: record.times for student, record in records.items()}, **self._times}
        self._before, self._penalties_before = marks, self._penalties()
        bases = self._same_seeds({student: self._basis(student, records.get(student)) for student in who})
        unchanged = [] if again else [s for s in who if self._is_done(s, bases[s], records.get(s), marks.get(s, {}))]
        with contextlib.suppress(GradebookError):  # locked for a moment? Each student has another chance below.
            self._book.enroll([student for student in who if not problem_of_name(student)])
            self._book.refresh_penalties(unchanged)
        self._note_penalties()
        unusable = {student: why for student in who if (why := problem_of_name(student))}
        records.update({student: Record(student, why) for student, why in unusable.items()})
        befores = {} if again else {s: self._before_of(s, bases[s], records.get(s), marks.get(s, {})) for s in who}
        to_grade = [student for student in who if student not in {*unchanged, *unusable}]
        mates = self._judged_with(to_grade, bases)
        tasks = {s: self._task(s, bases[s], befores.get(s)) for s in mates}
        postponed: dict[str, Examined] = {}
        with contextlib.closing(examine_all(tasks, self._open_judge, jobs, patience)) as finished:
            for first, examined in finished:
                for student in mates[first]:
                    try:
                        records[student] = self._settle(student, examined, bases[student])
                        tell(records[student], len(to_grade))
                    except GradebookError:
                        postponed[student] = examined
        for student, examined in postponed.items():  # perhaps it is free by now
            records[student] = self._settle_or_say_why_not(student, examined, bases[student])
            tell(records[student], len(to_grade))
        self._note_penalties()
        there = {*who, *self._course.students(self._assignment)}
        records = {student: record for student, record in sorted(records.items()) if student in there}
        return ClassRun(
            self._assignment,
            graded_cells(self._source),
            records,
            self._marks(),
            self._penalties(),
            unchanged,
            [student for student in self._enrolled() if student not in there],
            self._changes,
            {student: cells for student, cells in self._judged.items() if befores.get(student)},
            read_refused(self._course, self._assignment),
            {student: self._why_no_time(student) for student in self._without_time() if student in records},
            sorted(self._outdated),
            self._due(),
            self._teams,
        )

    def with_team_mates(self, students: Sequence[str]) -> list[str]:
        """Students, and those who share a notebook with one of them."""
        sharing = [{each.by, *each.students} for each in self._teams]
        return list(dict.fromkeys([*students, *(s for team in sharing if team & {*students} for s in sorted(team))]))

    def expected(self, student: str) -> str:
        """Where a student's notebook should be."""
        folder = self._course.folder("submitted", student, self._assignment)
        return self._course.name(folder / f"{self._assignment}.ipynb")

    def _task(self, student: str, basis: _Basis, before: Path | None) -> Examinee:
        folder = self._course.folder("submitted", student, self._assignment)
        times = self._times.get(student, 1.0)
        return Examinee(folder, self._assignment, self._source, basis.seed, times, judging_code(), before)

    def _same_seeds(self, bases: dict[str, _Basis]) -> dict[str, _Basis]:
        """The bases, with the seed of the student who has handed in for all who have a copy of that notebook."""
        for team in self._teams:
            first = bases.get(team.by)
            sharing = [s for s in team.students if first and s in bases and bases[s].work == first.work]
            bases |= {student: replace(bases[student], seed=first.seed) for student in sharing if first}
        return bases

    def _judged_with(self, students: Sequence[str], bases: Mapping[str, _Basis]) -> dict[str, list[str]]:
        """Who gets the verdict of one judgement, by the first of them: a team's notebook is judged once."""
        firsts: dict[tuple[str, str, str, float], str] = {}
        mates: dict[str, list[str]] = {}
        for student in students:
            team, basis = self._register.team_of(student), bases[student]
            same = (team, basis.work, basis.seed, self._times.get(student, 1.0))
            first = firsts.setdefault(same, student) if team and basis.work else student
            mates.setdefault(first, []).append(student)
        return mates

    def _before_of(self, student: str, basis: _Basis, record: Record | None, marks: Mapping[str, Mark]) -> Path | None:
        """The notebook in autograded/, if it is of the same submission, and its marks are those in the gradebook."""
        if record is None or record.problem or not basis.work or record.work != basis.work:
            return None
        return self._graded_notebook(student, record, marks)

    # ── one student ──────────────────────────────────────────────────────────────────────────────────────────────

    def _settle(self, student: str, examined: Examined, basis: _Basis) -> Record:
        """Bring one student to an end: files, gradebook, record, in this order.

        Raises:
            GradebookError: the gradebook can't be written now; nothing has changed.
        """
        folder = self._course.folder("submitted", student, self._assignment)
        timestamp, remarks = read_timestamp(folder)
        remarks += [_PATTERN] if any(sign in student for sign in "*?[\n") else []
        autograded = Autograded(self._course, self._assignment, student)
        remarks = [*examined.remarks, *remarks]
        record = Record(
            student,
            examined.problem,
            remarks,
            seconds=self._seconds(student, examined),
            took=examined.seconds,
            older=examined.older,
            work=basis.work,
            seed=basis.seed,
        )
        had_feedback = autograded.has_feedback()
        try:
            if not record.problem:
                record = self._publish(record, autograded, examined.notebook, timestamp, basis.version)
        except GradebookError:
            autograded.withdraw()
            raise
        except Exception as error:  # whatever is wrong with one student, the others are graded
            record = replace(record, problem=_why(error))
        if record.problem:
            self._book.record_failure(student, timestamp)
        if record.problem:
            autograded.discard()
        self._outdated += [student] if had_feedback else []
        self._note_changes(record)
        self._judged[student] = examined.judged
        return self._noted(record)

    def _seconds(self, student: str, examined: Examined) -> float:
        """How long judging all of it takes: where most verdicts stay, as long as it took before."""
        before = self._known.get(student)
        is_whole = bool(examined.problem) or set(graded_cells(self._source)) <= {*examined.judged, *self._by_hand}
        return examined.seconds if is_whole or before is None else max(before.seconds, examined.seconds)

    def _publish(
        self, record: Record, autograded: Autograded, text: str, timestamp: datetime | None, version: str
    ) -> Record:
        notebook = nbformat.reads(text, as_version=4)
        remarks = autograded.prepare(notebook, timestamp)
        self._book.record(record.student, timestamp, notebook)
        autograded.publish()
        marks = {cell: mark.auto for cell, mark in self._book.marks_of(record.student).items()}
        return replace(record, remarks=[*record.remarks, *remarks], marks=marks, told=_told(notebook), version=version)

    def _settle_or_say_why_not(self, student: str, examined: Examined, basis: _Basis) -> Record:
        try:
            return self._settle(student, examined, basis)
        except Exception as error:
            why = "; ".join(filter(None, [examined.problem, f"nothing was changed: {_why(error)}"]))
            return self._noted(Record(student, why, examined.remarks, seconds=examined.seconds, took=examined.seconds))

    def _note_changes(self, record: Record) -> None:
        """Keep which marks of the tests are not what they were, also in a file: this run may be stopped."""
        marks = self._before.get(record.student, {})
        if not _has_marks(self._before, record.student):  # not graded before
            return
        before = {cell: mark.auto for cell, mark in marks.items()}
        by_hand = [cell for cell, mark in marks.items() if mark.by_hand]  # that mark counts, now as before
        changed = [
            Change(record.student, cell, before.get(cell), record.marks.get(cell))
            for cell in dict.fromkeys([*before, *record.marks])
            if before.get(cell) != record.marks.get(cell) and cell not in by_hand
        ]
        self._keep_changes(changed)

    def _note_penalties(self) -> None:
        """Keep who has lost or got back points for being late: a due date or an extension changes sums without marks.

        Only of students whose tests gave marks before this run, and still do.
        """
        before, self._penalties_before = self._penalties_before, self._penalties()
        graded = self._marks()
        self._keep_changes(
            [
                Change(student, LATE_PENALTY, before.get(student, 0.0), now)
                for student, now in self._penalties_before.items()
                if now != before.get(student, 0.0) and _has_marks(self._before, student) and _has_marks(graded, student)
            ]
        )

    def _keep_changes(self, changed: Sequence[Change]) -> None:
        self._changes += changed
        if changed:
            now = datetime.now().astimezone().isoformat(timespec="seconds")
            rows = [[now, each.student, each.cell, _shown(each.before), _shown(each.after)] for each in changed]
            with contextlib.suppress(OSError), self._changes_file().open("a", encoding="utf-8", newline="") as file:
                file.write(spreadsheet(rows))

    def _changes_file(self) -> Path:
        """The table of all changes, with the names of its columns."""
        path = self._course.records(self._assignment) / "changes.csv"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(spreadsheet([["when", "student", "cell", "before", "after"]]), encoding="utf-8", newline="")
        return path

    # ── records ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _noted(self, record: Record) -> Record:
        """Write a record down, in one move."""
        record = replace(record, times=self._times.get(record.student, 1.0))
        path = record_path(self._course, self._assignment, record.student)
        try:
            write_file(path, json.dumps(asdict(record), indent=1).encode())
        except OSError as error:
            record.remarks.append(f"this is not noted down, and will be graded again: {error.strerror}")
        return record

    def _is_done(self, student: str, basis: _Basis, record: Record | None, marks: Mapping[str, Mark]) -> bool:
        """Whether the record is of this submission, and the gradebook and autograded/ have what it says."""
        if record is None or record.problem or not basis.version or record.version != basis.version:
            return False
        if record.times != self._times.get(student, 1.0):
            return False
        return self._graded_notebook(student, record, marks) is not None

    def _graded_notebook(self, student: str, record: Record, marks: Mapping[str, Mark]) -> Path | None:
        """The notebook in autograded/, if the gradebook has the marks that the record says."""
        autograded = Autograded(self._course, self._assignment, student)
        in_book = {cell: mark.auto for cell, mark in marks.items()}
        return autograded.notebook if in_book == record.marks and autograded.exists() else None

    def _basis(self, student: str, before: Record | None) -> _Basis:
        """`before`: what came of an earlier run. With nothing to grade, both hashes are ""."""
        folder = self._course.folder("submitted", student, self._assignment)
        try:
            path, _ = find_notebook(folder, self._assignment)
            work = hash_of([path.name, fingerprint(path)])
            version = hash_of([self._version, work, str(read_timestamp(folder)[0])])
        except CannotGrade:
            work = version = ""
        known = before.seed if before and work and before.work == work else ""
        return _Basis(version, work, known or self._seed)

    def _enrolled(self) -> list[str]:
        try:
            return self._book.students()
        except GradebookError:
            return []

    def _marks(self) -> dict[str, dict[str, Mark]]:
        try:
            return self._book.marks()
        except GradebookError:
            return {}

    def _due(self) -> DueDates:
        try:
            return due_dates(self._course, self._assignment, self._book)
        except (GradebookError, CourseError):
            return DueDates()

    def _without_time(self) -> list[str]:
        try:
            return self._book.without_time()
        except GradebookError:
            return []

    def _why_no_time(self, student: str) -> str:
        return why_no_time(self._course.folder("submitted", student, self._assignment)) or "not graded again yet"

    def _penalties(self) -> dict[str, float]:
        try:
            return self._book.penalties()
        except GradebookError:
            return {}


def _shared(course: Course, assignment: str, teams: Mapping[str, Sequence[str]]) -> list[TeamWork]:
    try:
        return share_in_teams(course, assignment, teams)
    except OSError as error:
        raise CourseError(f"a team's notebook can't be copied: {error.strerror or error}") from None


@contextmanager
def _alone(course: Course, assignment: str) -> Iterator[None]:
    """Only one grader at a time in a course. The system frees the lock when a process ends."""
    path = course.records(assignment).parent / ".lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        raise CourseError(f"{course.name(path)} can't be written: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CourseError("another distlib grade is running in this course; wait for its end") from None
        yield


def problem_of_name(student: str) -> str:
    """Why a folder's name can't be a student's, in gradebook, files and feedback; "" if it can."""
    if student == student.encode("utf-8", "replace").decode():
        return ""
    return "its folder has a name that is no text; rename it"


def _has_marks(marks: Mapping[str, Mapping[str, Mark]], student: str) -> bool:
    """Whether tests have given a student marks."""
    return any(mark.auto is not None for mark in marks.get(student, {}).values())


def _why(error: Exception) -> str:
    if isinstance(error, GradebookError):
        return f"the gradebook: {error}"
    if isinstance(error, OSError):
        return f"its files can't be written: {error.strerror or error}"
    return f"{type(error).__name__}: {error}"


def record_path(course: Course, assignment: str, student: str) -> Path:
    """Where the record of a student is: in a folder of its own, so that nobody's name is that of another file."""
    return course.records(assignment) / STUDENTS / student / "record.json"


def read_records(course: Course, assignment: str) -> dict[str, Record]:
    """The records of earlier runs, by student."""
    read = (read_record(path) for path in (course.records(assignment) / STUDENTS).glob("*/record.json"))
    return {record.student: record for record in read if record}


def read_record(path: Path) -> Record | None:
    """A record; None if it can't be read, for then it is made again."""
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        told = {cell: Told(**words) for cell, words in values.pop("told").items()}
        return Record(**values, told=told)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _told(notebook: NotebookNode) -> dict[str, Told]:
    """What the failed test cells say."""
    told = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
            errors = [output for output in cell.outputs if output.output_type == "error"]
            if errors:
                told[cell.metadata.nbgrader.grade_id] = split_message("\n".join(errors[0].traceback))
    return told


def graded_cells(source: Source) -> list[str]:
    """The names of the test cells, and of answers that are marked by hand, in their order."""
    marks = [cell.metadata.get("nbgrader", {}) for cell in source.notebook.cells]
    return [mark["grade_id"] for mark in marks if mark.get("grade")]


def _version(source: Source) -> str:
    """Of the instructor's notebook and of what judges."""
    return hash_of([nbformat.writes(source.notebook), *source.released, *judging_code().values()])


def _shown(score: float | None) -> str:
    return "" if score is None else f"{score:g}"
