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
import json
import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from distlib.checks import training_scores
from distlib.classroom.grader.autograded import Autograded
from distlib.classroom.grader.check_message import Told, split_message
from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.grader.examine import PATIENCE, Examined, Examinee, OpenJudge, examine_all
from distlib.classroom.grader.examinees import Basis, Examinees, problem_of_name
from distlib.classroom.grader.gradebook import GradebookError, Mark, MarksBook
from distlib.classroom.grader.one_grader import one_grader
from distlib.classroom.grader.refused import Refused, read_refused
from distlib.classroom.grader.share_results import ShareResults
from distlib.classroom.grader.source import Source
from distlib.classroom.grader.spreadsheet import spreadsheet
from distlib.classroom.grader.student_record import Record, record_path
from distlib.classroom.grader.submission import read_timestamp, why_no_time
from distlib.classroom.register.due_dates import DueDates, due_dates
from distlib.classroom.register.known_students import known_students
from distlib.classroom.register.merge_plan import check_nothing_is_half_done
from distlib.classroom.register.roster import read_roster
from distlib.classroom.register.teams import TeamWork, share_in_teams
from distlib.classroom.uploads.origins import Origin, read_origins
from distlib.whole_file import write_file

_PATTERN = "nbgrader generate_feedback does not take the folder's name (line break, *, ? or [); better rename it"

LATE_PENALTY = "late_penalty"  # in the place of a test cell's name, and as the name of a column


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
        taken_over: students who were judged by shares before, see `class_share`.
        not_taken_over: why not, of students whom a share has judged and who had to be judged again.
        names: the full names of the class, "" where none is known, by student.
        strangers: who has a folder or marks, and is not in students.csv.
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
    taken_over: list[str] = field(default_factory=list)
    not_taken_over: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)


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
    with one_grader(course):
        check_nothing_is_half_done(course)
        shares = ShareResults(course, assignment)
        seed = seed or shares.seed() or secrets.token_hex(16)
        examinees = Examinees(course, assignment, times or {})
        grader = _Grader(course, assignment, open_judge, examinees, shares, seed)
        there = course.students(assignment)  # copies for the students of a team are among them
        who = grader.with_team_mates(list(dict.fromkeys(students))) or there
        examinees.check(who, there, times or {})
        done = grader.run(who, jobs, again, patience, tell)
        if not students:
            shares.clear()
        return done


class _Grader:
    def __init__(
        self,
        course: Course,
        assignment: str,
        open_judge: OpenJudge,
        examinees: Examinees,
        shares: ShareResults,
        seed: str,
    ) -> None:
        self._course, self._assignment, self._open_judge = course, assignment, open_judge
        self._examinees, self._shares, self._seed = examinees, shares, seed
        self._source = examinees.source
        granted = examinees.register.extensions.get(assignment, {})
        self._book = MarksBook(course, assignment, self._source, granted)
        self._roster, self._origins = read_roster(course), read_origins(course, assignment)
        self._teams = _shared(course, assignment, examinees.register.teams)
        self._before: dict[str, dict[str, Mark]] = {}
        self._penalties_before: dict[str, float] = {}
        self._changes: list[Change] = []
        self._judged: dict[str, list[str]] = {}
        self._outdated: list[str] = []
        self._by_hand = {
            cell.metadata.nbgrader.grade_id
            for cell in self._source.notebook.cells
            if cell.cell_type != "code" and cell.metadata.get("nbgrader", {}).get("grade")
        }

    def run(
        self, who: Sequence[str], jobs: int, again: bool, patience: float, tell: Callable[[Record, int], None]
    ) -> ClassRun:
        examinees, records, marks = self._examinees, dict(self._examinees.known), self._marks()
        self._before, self._penalties_before = marks, self._penalties()
        bases = self._same_seeds({student: examinees.basis(student, self._seed) for student in who})
        unchanged = [] if again else [s for s in who if examinees.is_done(s, bases[s], marks.get(s, {}))]
        with contextlib.suppress(GradebookError):  # locked for a moment? Each student has another chance below.
            self._book.enroll([student for student in who if not problem_of_name(student)])
            self._book.refresh_penalties(unchanged)
        self._note_penalties()
        unusable = {student: why for student in who if (why := problem_of_name(student))}
        records.update({student: Record(student, why) for student, why in unusable.items()})
        befores = {} if again else {s: examinees.before(s, bases[s], marks.get(s, {})) for s in who}
        to_grade = [student for student in who if student not in {*unchanged, *unusable}]
        mates = examinees.judged_with(to_grade, bases)
        tasks = {s: examinees.task(s, bases[s], befores.get(s)) for s in mates}
        wanted = {s: examinees.judged_from(task, bases[s], again) for s, task in tasks.items()}
        found = self._shares.taken_over(mates, wanted)
        postponed: dict[str, Examined] = {}
        with contextlib.closing(self._examined(tasks, found.examined, jobs, patience)) as finished:
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
            self._refused(),
            {student: self._why_no_time(student) for student in self._without_time() if student in records},
            sorted(self._outdated),
            self._due(),
            self._teams,
            sorted(student for first in found.examined for student in mates[first]),
            found.left,
            self._names(),
            self._roster.strangers([*there, *self._enrolled()]),
        )

    def _refused(self) -> list[Refused]:
        """What was not collected, but for students for whom a notebook of their team counts."""
        copies = {student for team in self._teams for student in team.students}
        return [each for each in read_refused(self._course, self._assignment) if each.student not in copies]

    def _names(self) -> dict[str, str]:
        try:
            return known_students(self._course, self._assignment, self._book)
        except GradebookError:
            return self._roster.names()

    def _examined(
        self, tasks: Mapping[str, Examinee], found: Mapping[str, Examined], jobs: int, patience: float
    ) -> Generator[tuple[str, Examined], None, None]:
        """What shares have found, then what is examined here."""
        yield from found.items()
        missing = {student: task for student, task in tasks.items() if student not in found}
        yield from examine_all(missing, self._open_judge, jobs, patience)

    def with_team_mates(self, students: Sequence[str]) -> list[str]:
        """Students, and those who share a notebook with one of them."""
        sharing = [{each.by, *each.students} for each in self._teams]
        return list(dict.fromkeys([*students, *(s for team in sharing if team & {*students} for s in sorted(team))]))

    def _same_seeds(self, bases: dict[str, Basis]) -> dict[str, Basis]:
        """The bases, with the seed of the student who has handed in for all who have a copy of that notebook."""
        for team in self._teams:
            first = bases.get(team.by)
            sharing = [s for s in team.students if first and s in bases and bases[s].work == first.work]
            bases |= {student: replace(bases[student], seed=first.seed) for student in sharing if first}
        return bases

    # ── one student ──────────────────────────────────────────────────────────────────────────────────────────────

    def _settle(self, student: str, examined: Examined, basis: Basis) -> Record:
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
            autograded.withdraw()  # also where the gradebook can't be written: what stays is whole
            self._book.record_failure(student, timestamp)
            autograded.discard()
        self._outdated += [student] if had_feedback else []
        self._note_changes(record)
        self._judged[student] = examined.judged
        return self._noted(record)

    def _seconds(self, student: str, examined: Examined) -> float:
        """How long judging all of it takes: where most verdicts stay, as long as it took before."""
        before = self._examinees.known.get(student)
        is_whole = bool(examined.problem) or set(graded_cells(self._source)) <= {*examined.judged, *self._by_hand}
        return examined.seconds if is_whole or before is None else max(before.seconds, examined.seconds)

    def _publish(
        self, record: Record, autograded: Autograded, text: str, timestamp: datetime | None, version: str
    ) -> Record:
        notebook = nbformat.reads(text, as_version=4)
        remarks = autograded.prepare(notebook, timestamp)
        marks = self._book.record(record.student, timestamp, notebook)
        autograded.publish()
        return replace(
            record,
            remarks=[*record.remarks, *remarks],
            marks=marks,
            told=_told(notebook),
            version=version,
            trainings=_trainings(notebook),
        )

    def _settle_or_say_why_not(self, student: str, examined: Examined, basis: Basis) -> Record:
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
        record = replace(record, times=self._examinees.times.get(record.student, 1.0))
        path = record_path(self._course, self._assignment, record.student)
        try:
            write_file(path, json.dumps(asdict(record), indent=1).encode())
        except OSError as error:
            record.remarks.append(f"this is not noted down, and will be graded again: {error.strerror}")
        return record

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
        origin = self._origins.get(student, Origin())
        if origin.is_late:
            return f"late, {origin.platform} says"
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


def _has_marks(marks: Mapping[str, Mapping[str, Mark]], student: str) -> bool:
    """Whether tests have given a student marks."""
    return any(mark.auto is not None for mark in marks.get(student, {}).values())


def _why(error: Exception) -> str:
    if isinstance(error, GradebookError):
        return f"the gradebook: {error}"
    if isinstance(error, OSError):
        return f"its files can't be written: {error.strerror or error}"
    return f"{type(error).__name__}: {error}"


def _told(notebook: NotebookNode) -> dict[str, Told]:
    """What the failed test cells say."""
    told = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
            errors = [output for output in cell.outputs if output.output_type == "error"]
            if errors:
                told[cell.metadata.nbgrader.grade_id] = split_message("\n".join(errors[0].traceback))
    return told


def _trainings(notebook: NotebookNode) -> list[dict[str, Any]]:
    """What the test cells tell of trainings. No other cell has such an output: the judge makes them."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [each for output in outputs for each in output.get("metadata", {}).get(training_scores.KEY, [])]


def graded_cells(source: Source) -> list[str]:
    """The names of the test cells, and of answers that are marked by hand, in their order."""
    marks = [cell.metadata.get("nbgrader", {}) for cell in source.notebook.cells]
    return [mark["grade_id"] for mark in marks if mark.get("grade")]


def _shown(score: float | None) -> str:
    return "" if score is None else f"{score:g}"
