"""What is noted of each submission after it was graded: classroom/graded/ASSIGNMENT/students/STUDENT/record.json."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distlib.classroom.grader.check_message import Told
from distlib.classroom.grader.course import Course

STUDENTS = "students"


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
        trainings: what tests have told of trainings, see `distlib.checks.training_scores`.
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
    trainings: list[dict[str, Any]] = field(default_factory=list)

    @property
    def state(self) -> str:
        """How far the submission's grading is, in words."""
        if self.problem:
            return "could not be graded"
        return "graded, with remarks" if self.remarks else "graded"


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
