"""`nbgrader export`: the marks of everybody in all assignments, a row per student and assignment, for a spreadsheet.

The columns are those of nbgrader's own export, and a remark. nbgrader's own writes 0 for a submission that could not be
graded, and for whoever has handed in nothing. Here such a score is empty, and the remark says why. What it means for
the student is the instructor's decision.

nbgrader_config.py names this plugin.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins.export import ExportPlugin

from distlib.classroom.grader.course import Course
from distlib.classroom.grader.gradebook import is_late_unknown, late_costs_points
from distlib.classroom.grader.refused import Refused, read_refused
from distlib.classroom.grader.spreadsheet import spreadsheet
from distlib.classroom.grader.student_record import read_record, record_path
from distlib.classroom.rounding import rounded

_COLUMNS = (
    "assignment,duedate,timestamp,student_id,last_name,first_name,email,"
    "raw_score,late_submission_penalty,score,max_score,remark"
).split(",")


_NO_TIME = "no time of handing in is known: nothing was taken off for being late"


class MarksExport(ExportPlugin):
    """Writes a table of marks in which only what was graded has a score."""

    def export(self, gradebook: Gradebook) -> None:
        """Write the table to `self.to`, or grades.csv, in one move."""
        path = Path(self.to or "grades.csv")
        new = path.with_name(f"{path.name}.new")
        new.write_text(spreadsheet([_COLUMNS, *self._rows(gradebook)]), encoding="utf-8", newline="")
        os.replace(new, path)
        self.log.info("Exported the marks to %s", path)

    def _rows(self, gradebook: Gradebook) -> Iterator[list[str]]:
        course = Course(Path(self.parent.coursedir.root), self.config, self.parent.coursedir)
        is_costly = late_costs_points(course)
        for assignment in gradebook.assignments:
            if self.assignment and assignment.name not in map(str, self.assignment):
                continue
            handed_in = course.students(assignment.name)
            known = {*handed_in, *(student.id for student in gradebook.students)}
            for student in gradebook.students:
                if not self.student or student.id in map(str, self.student):
                    row = {**_about(assignment, student), **_marks(gradebook, assignment.name, student.id, is_costly)}
                    if row["score"] is None:
                        row["remark"] = _why_not(course, assignment.name, student.id, student.id in handed_in)
                    yield _texts(row)
            for each in read_refused(course, assignment.name):
                if each.student not in known and (not self.student or each.student in map(str, self.student)):
                    yield _texts({**_of(assignment), "student_id": each.student, "remark": _not_collected(each)})


def _texts(row: dict[str, Any]) -> list[str]:
    """A row, in the order of the columns. Times are in UTC, as nbgrader keeps them."""
    values = (row.get(name) for name in _COLUMNS)
    texts = (f"{value} UTC" if isinstance(value, datetime) else value for value in values)
    return ["" if text is None else str(text) for text in texts]


def _of(assignment: Any) -> dict[str, Any]:
    return {"assignment": assignment.name, "duedate": assignment.duedate, "max_score": assignment.max_score}


def _not_collected(upload: Refused) -> str:
    return f"not collected: {upload.file}: {upload.why}"


def _about(assignment: Any, student: Any) -> dict[str, Any]:
    names = {"last_name": student.last_name, "first_name": student.first_name, "email": student.email}
    return {**_of(assignment), "student_id": student.id, **names}


def _marks(gradebook: Gradebook, assignment: str, student: str, may_cost_points: bool) -> dict[str, Any]:
    """The score of one student; None if there is none. may_cost_points: whether being late does."""
    nothing = dict.fromkeys(("timestamp", "raw_score", "late_submission_penalty", "score", "remark"))
    try:
        submission = gradebook.find_submission(assignment, student)
    except MissingEntry:
        return nothing
    score = score_of(submission)
    if score is None:
        return {**nothing, "timestamp": submission.timestamp}
    is_open = may_cost_points and is_late_unknown(submission)
    remarks = ["waits for a mark by hand"] * submission.needs_manual_grade + [_NO_TIME] * is_open
    penalty = submission.late_submission_penalty
    return {
        "timestamp": submission.timestamp,
        "raw_score": float(rounded(submission.score)),
        "late_submission_penalty": None if is_open else float(rounded(penalty)),
        "score": float(rounded(score)),
        "remark": "; ".join(remarks) or None,
    }


def score_of(submission: Any) -> float | None:
    """What counts of a submission of the gradebook, after the penalty and not rounded; None if it was not graded."""
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    if any(_is_test(grade) and grade.auto_score is None and grade.manual_score is None for grade in grades):
        return None
    return max(0.0, submission.score - submission.late_submission_penalty)


def _is_test(grade: Any) -> bool:
    """Whether it is the mark of a test cell; those of free text are given by hand."""
    return bool(grade.cell.cell_type == "code")


def _why_not(course: Course, assignment: str, student: str, has_handed_in: bool) -> str:
    if not has_handed_in:
        refused = (_not_collected(each) for each in read_refused(course, assignment) if each.student == student)
        return next(refused, "has not handed in")
    record = read_record(record_path(course, assignment, student))
    return f"could not be graded: {record.problem}" if record and record.problem else "not graded yet"
