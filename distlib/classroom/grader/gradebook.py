"""Marks in nbgrader's gradebook, as `nbgrader autograde` puts them there: all of one student's, or none.

nbgrader's own steps decide what a cell is worth, what is to be looked at by hand, and the penalty for being late. They
commit after every cell; here they run inside one transaction. Marks given by hand are never touched.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy
from nbformat import NotebookNode
from nbgrader.api import Gradebook, InvalidEntry, MissingEntry
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from sqlalchemy.exc import DatabaseError, SAWarning
from sqlalchemy.orm import scoped_session, sessionmaker

from distlib.classroom.grader.course import Course, CourseError
from distlib.classroom.grader.private_nbgrader import allowed_penalty
from distlib.classroom.grader.source import Source
from distlib.classroom.register.class_register import read_register


@dataclass(frozen=True)
class Mark:
    """One test cell of one student.

    Attributes:
        score: what counts; 0 as long as nobody has given marks.
        full: what can be had.
        auto: what the tests have given, None if they have not.
        by_hand: whether an instructor's mark counts instead.
    """

    score: float
    full: float
    auto: float | None
    by_hand: bool

    @property
    def is_open(self) -> bool:
        """Whether it waits for a mark by hand: the tests give none, and nobody has given one."""
        return self.auto is None and not self.by_hand


def late_costs_points(course: Course) -> bool:
    """Whether being late costs points, by the class's own rule or by one in nbgrader_config.py.

    Raises:
        CourseError: class.json can't be read.
    """
    return read_register(course).late_rule is not None or _has_penalty(course.config)


def _has_penalty(config: Any) -> bool:
    plugin = config.AssignLatePenalties.get("plugin_class", LateSubmissionPlugin)
    usual = plugin is LateSubmissionPlugin or str(plugin).startswith("nbgrader.")
    return not usual or config.LateSubmissionPlugin.get("penalty_method", "none") != "none"


def is_late_unknown(submission: Any) -> bool:
    """Whether there is a due date, and nobody knows if this was handed in before. submission: of the gradebook."""
    return submission.timestamp is None and submission.assignment.duedate is not None


def all_due_dates(course: Course) -> dict[str, datetime]:
    """When each exercise is due that has a date, in UTC and without a time zone; none without a gradebook.

    Raises:
        GradebookError: it can't be read.
    """
    url = course.settings.db_url
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).is_file():
        return {}
    try:
        with Gradebook(url, course.settings.course_id) as gradebook:
            return {str(each.name): each.duedate for each in gradebook.assignments if each.duedate}
    except DatabaseError as error:
        raise GradebookError(_explained(error)) from None


class GradebookError(Exception):
    """The gradebook can't be written. The message says why."""


class MarksBook:
    """The gradebook of a course, for one assignment.

    Args:
        course: the course.
        assignment: the assignment's name.
        source: its notebook, which must be the one that the gradebook knows.
        granted: seconds by which it is due later, for students who may not have handed in yet.

    Raises:
        CourseError: the gradebook is missing, locked, damaged, another course's, or knows another notebook; or being
            late costs what a file of the instructor's says, which can't be imported.
    """

    def __init__(
        self, course: Course, assignment: str, source: Source, granted: Mapping[str, float] | None = None
    ) -> None:
        self._course, self._assignment, self._granted = course, assignment, granted or {}
        self._url, self._course_id = course.settings.db_url, course.settings.course_id
        self._file = Path(self._url.removeprefix("sqlite:///")) if self._url.startswith("sqlite:///") else None
        self._late_rule = read_register(course).late_rule
        self._check_file()
        self._check_plugin()
        try:
            with self._transaction() as gradebook:
                self._check_cells(gradebook, source)
        except GradebookError as error:
            raise CourseError(f"{self._shown}: {error}") from None

    def enroll(self, students: Sequence[str]) -> None:
        """Make known who has handed in. nbgrader lists students in the order in which it gets to know them.

        Raises:
            GradebookError: nothing was written.
        """
        with self._transaction() as gradebook:
            for student in students:
                gradebook.update_or_create_student(student)

    def record(self, student: str, timestamp: datetime | None, notebook: NotebookNode) -> dict[str, float | None]:
        """Put the marks of a notebook that has run into the gradebook. Returns what its tests have given, by test cell.

        Args:
            student: the student's name.
            timestamp: when it was handed in, in UTC; None if that is not known.
            notebook: with its outputs, which give the marks.

        Raises:
            GradebookError: nothing was written.
        """
        with self._transaction() as gradebook:
            self._submission(gradebook, student, timestamp)
            step = self._prepared(SaveAutoGrades(config=self._course.config), gradebook, student)
            for index, cell in enumerate(notebook.cells):
                step.preprocess_cell(cell, {}, index)
            self._assign_penalty(gradebook, student)
            noted = gradebook.find_submission_notebook(self._assignment, self._assignment, student)
            return {grade.name: grade.auto_score for grade in noted.grades}

    def record_failure(self, student: str, timestamp: datetime | None) -> None:
        """Note that a submission could not be graded: no mark of an earlier one stays, all wait for the instructor.

        Raises:
            GradebookError: nothing was written.
        """
        with self._transaction() as gradebook:
            submission = self._submission(gradebook, student, timestamp)
            for notebook in submission.notebooks:
                notebook.late_submission_penalty = None
                for grade in notebook.grades:
                    grade.auto_score, grade.needs_manual_grade = None, True

    def refresh_penalties(self, students: Sequence[str]) -> None:
        """Find the penalties for being late again: a due date, or a mark given by hand, may have changed.

        Raises:
            GradebookError: nothing was written.
        """
        with self._transaction() as gradebook:
            for student in students:
                self._assign_penalty(gradebook, student)

    def marks(self) -> dict[str, dict[str, Mark]]:
        """The marks of everybody who has handed in, by student and test cell.

        Raises:
            GradebookError: it can't be read.
        """
        with self._transaction() as gradebook:
            notebooks = gradebook.notebook_submissions(self._assignment, self._assignment)
            return {notebook.student.id: _marks_in(notebook) for notebook in notebooks}

    def students(self) -> list[str]:
        """Everybody whom the gradebook knows.

        Raises:
            GradebookError: it can't be read.
        """
        with self._transaction() as gradebook:
            return [str(student.id) for student in gradebook.students]

    def penalties(self) -> dict[str, float]:
        """What each student loses for being late."""
        with self._transaction() as gradebook:
            submissions = gradebook.notebook_submissions(self._assignment, self._assignment)
            return {notebook.student.id: notebook.late_submission_penalty or 0.0 for notebook in submissions}

    def without_time(self) -> list[str]:
        """Who may have to lose points for being late, if only it were known when they handed in."""
        if not late_costs_points(self._course):
            return []
        with self._transaction() as gradebook:
            return sorted(
                each.student.id for each in gradebook.assignment_submissions(self._assignment) if is_late_unknown(each)
            )

    def full_names(self) -> dict[str, str]:
        """First and last name of everybody whom the gradebook knows, "" where it has none, by student.

        Raises:
            GradebookError: it can't be read.
        """
        with self._transaction() as gradebook:
            return {str(s.id): " ".join(filter(None, [s.first_name, s.last_name])) for s in gradebook.students}

    def due_date(self) -> datetime | None:
        """When the assignment is due, in UTC and without a time zone.

        Raises:
            GradebookError: it can't be read.
        """
        with self._transaction() as gradebook:
            date: datetime | None = gradebook.find_assignment(self._assignment).duedate
            return date

    def set_due_date(self, date: datetime | None) -> None:
        """Set when the assignment is due, in UTC and without a time zone; None for never.

        Raises:
            GradebookError: nothing was written.
        """
        with self._transaction() as gradebook:
            gradebook.find_assignment(self._assignment).duedate = date

    def extensions(self) -> dict[str, timedelta]:
        """How much later it is due for some of those who have handed in.

        Raises:
            GradebookError: it can't be read.
        """
        with self._transaction() as gradebook:
            submissions = gradebook.assignment_submissions(self._assignment)
            return {str(each.student.id): each.extension for each in submissions if each.extension}

    def set_extensions(self, students: Sequence[str], more: timedelta | None) -> None:
        """Give more time to those of some students who have handed in; None takes it back.

        Raises:
            GradebookError: nothing was written.
        """
        with self._transaction() as gradebook:
            for submission in gradebook.assignment_submissions(self._assignment):
                if submission.student.id in students:
                    submission.extension = more

    # ── one transaction ──────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """nbgrader's gradebook; what is done with it happens at the end of the block, or not at all."""
        try:
            with warnings.catch_warnings(), Gradebook(self._url, self._course_id) as gradebook:
                warnings.simplefilter("ignore", SAWarning)  # of nbgrader's own code
                gradebook.db.remove()
                with gradebook.engine.connect() as connection, connection.begin():
                    if self._file:
                        connection.exec_driver_sql("BEGIN IMMEDIATE")  # nobody else writes meanwhile
                    # nbgrader's own commits reach the session only, not the connection's transaction.
                    make = sessionmaker(bind=connection, future=True, join_transaction_mode="rollback_only")
                    gradebook.db = scoped_session(make)
                    yield gradebook
                    gradebook.db.commit()
                    gradebook.db.remove()
        except (DatabaseError, InvalidEntry) as error:
            raise GradebookError(_explained(error)) from None

    def _submission(self, gradebook: Any, student: str, timestamp: datetime | None) -> Any:
        """What a student has handed in, with the extension that was granted before."""
        gradebook.update_or_create_student(student)
        submission = gradebook.update_or_create_submission(self._assignment, student, timestamp=timestamp)
        granted = self._granted.get(student)
        if granted and submission.extension is None:
            submission.extension = timedelta(seconds=granted)
        return submission

    def _prepared(self, step: Any, gradebook: Any, student: str) -> Any:
        """A step of nbgrader's that works on our gradebook instead of opening it again."""
        step.gradebook, step.db_url = gradebook, self._url
        step.notebook_id = step.assignment_id = self._assignment
        step.student_id = student
        return step

    def _assign_penalty(self, gradebook: Any, student: str) -> None:
        """By the class's rule, in all exercises, since slip days count in all; else as nbgrader itself does."""
        step = self._prepared(AssignLatePenalties(config=self._course.config), gradebook, student)
        if self._late_rule is None:
            self._assign_by_plugin(step, gradebook, student)
            return
        found = [each for each in gradebook.student_submissions(student) if each.assignment.duedate is not None]
        found.sort(key=lambda submission: (submission.assignment.duedate, submission.assignment.name))
        days = self._late_rule.days_charged([submission.total_seconds_late for submission in found])
        for submission, charged in zip(found, days, strict=True):
            for notebook in submission.notebooks:
                gradebook.db.refresh(notebook)
                penalty = notebook.score * self._late_rule.share_lost(charged)
                notebook.late_submission_penalty = allowed_penalty(step, notebook, penalty) if charged else None

    def _assign_by_plugin(self, step: Any, gradebook: Any, student: str) -> None:
        """As nbgrader's `AssignLatePenalties.preprocess` does."""
        step.init_plugin()
        submission = gradebook.find_submission(self._assignment, student)
        notebook = gradebook.find_submission_notebook(self._assignment, self._assignment, student)
        gradebook.db.refresh(notebook)
        notebook.late_submission_penalty = None
        late = submission.total_seconds_late
        if late > 0:
            penalty = step.plugin_inst.late_submission_penalty(student, notebook.score, late)
            if penalty is not None:
                notebook.late_submission_penalty = allowed_penalty(step, notebook, penalty)

    # ── is it the right one ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def _shown(self) -> str:
        return self._course.name(self._file) if self._file else sqlalchemy.make_url(self._url).render_as_string()

    @property
    def _generate(self) -> str:
        return f"run: nbgrader generate_assignment {self._assignment} --force"

    def _check_file(self) -> None:
        """A file of SQLite must be there, be a gradebook and be free, before nbgrader writes its tables into it."""
        if self._file is None:
            return
        if not self._file.is_file():
            raise CourseError(f"there is no gradebook {self._shown}; {self._generate}")
        try:
            with closing(sqlite3.connect(self._file, timeout=5)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
                connection.rollback()
        except sqlite3.Error as error:
            raise CourseError(f"{self._shown}: {_explained(error)}") from None
        if not {"assignment", "submitted_notebook", "grade"} <= tables:
            raise CourseError(f"{self._shown} is no gradebook of nbgrader's")

    def _check_plugin(self) -> None:
        """A rule of the instructor's own must be there before anything is graded."""
        try:
            AssignLatePenalties(config=self._course.config).init_plugin()
        except Exception as error:
            plugin = self._course.config.AssignLatePenalties.get("plugin_class", "")
            raise CourseError(
                f"nbgrader_config.py says that being late costs what {plugin} computes, and it can't be imported: "
                f"{error}. Nothing was graded. A rule that needs no file: distlib class late --per-day 10%"
            ) from None

    def _check_cells(self, gradebook: Any, source: Source) -> None:
        """The gradebook must know the cells and points of the instructor's notebook."""
        try:
            known = gradebook.find_notebook(self._assignment, self._assignment)
        except MissingEntry:
            others = ", ".join(assignment.name for assignment in gradebook.assignments) or "none"
            raise CourseError(
                f"{self._shown} does not know {self._assignment} (assignments in it: {others}). "
                f"Is it this course's? If so, {self._generate}"
            ) from None
        points = {cell.name: cell.max_score for cell in [*known.grade_cells, *known.task_cells]}
        theirs = {cell.name: (cell.checksum, points.get(cell.name)) for cell in known.source_cells}
        marks = [cell.metadata.nbgrader for cell in source.notebook.cells if "nbgrader" in cell.metadata]
        ours = {mark.grade_id: (mark.get("checksum"), mark.get("points")) for mark in marks}
        differing = sorted(name for name in ours | theirs if ours.get(name) != theirs.get(name))
        if differing:
            raise CourseError(
                f"{self._shown} knows another version of {self._assignment}; cells that differ: "
                f"{', '.join(differing[:6])}. Is it this course's? If so, {self._generate}"
            )


def _marks_in(notebook: Any) -> dict[str, Mark]:
    """The marks of a notebook of the gradebook, by test cell."""
    return {grade.name: mark_of(grade) for grade in notebook.grades}


def mark_of(grade: Any) -> Mark:
    """The mark of one cell of the gradebook."""
    return Mark(grade.score, grade.max_score, grade.auto_score, grade.manual_score is not None)


def _explained(error: Exception) -> str:
    """What a database's error means for an instructor."""
    text = str(getattr(error, "orig", None) or error)
    known = {
        "locked": "it is locked by another program; close that (another nbgrader?), then grade again",
        "full": "no space is left on the disk",
        "readonly": "it can't be written: no permission",
        "unable to open": "it can't be opened: no permission",
        "not a database": "it is damaged, or no gradebook",
        "malformed": "it is damaged",
        "no such column": "another version of nbgrader made it; run: nbgrader db upgrade",
    }
    return next((meaning for word, meaning in known.items() if word in text), text)
