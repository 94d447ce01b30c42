"""What went wrong in a class: first messages by cause, and who is left behind.

Messages are the same if they differ in numbers only: on 2 ranks or 3, in chunk 0 or 1.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from distlib.classroom.grader.check_message import Told, function_of
from distlib.classroom.grader.class_run import ClassRun
from distlib.classroom.grader.marks import functions, of, sums
from distlib.classroom.grader.student_record import Record

_NUMBER = r"-?\d+(?:[.,]\d+)*(?:e[+-]?\d+)?"
_NUMBERS = re.compile(rf"{_NUMBER}(?:(?:, | and ){_NUMBER})*")
_CASE = re.compile(r"^[^:]{0,120}: ")  # "shift on 2 ranks, 8 float32: "


@dataclass(frozen=True)
class Mistake:
    """A message that students were given.

    Attributes:
        function: the function that it is about.
        told: the message, as the first of them read it.
        students: who got it.
    """

    function: str
    told: Told
    students: list[str]

    @property
    def is_unwritten(self) -> bool:
        """Whether nothing went wrong: there is no answer."""
        return self.told.is_unwritten


def mistakes(records: Iterable[Record]) -> list[Mistake]:
    """What went wrong, the most frequent first. A student's first message counts, once for each function.

    What is not written yet comes last: of that there is nothing to say in a lecture.
    """
    found: dict[tuple[str, str], Mistake] = {}
    for record in records:
        first = {function_of(cell): told for cell, told in reversed(record.told.items())}
        for function, told in first.items():
            mistake = found.setdefault((function, cause_of(told)), Mistake(function, told, []))
            mistake.students.append(record.student)
    return sorted(
        found.values(), key=lambda each: (each.is_unwritten, -len(each.students), each.function, each.told.seen)
    )


def cause_of(told: Told) -> str:
    """What two messages have in common that report the same mistake: the cause, else what was seen, without numbers."""
    return _NUMBERS.sub("N", told.cause or _CASE.sub("", told.seen))


def left_behind(run: ClassRun) -> dict[str, list[str]]:
    """Who has no marks in a function in which most of the others have some: the functions, by student.

    Of whoever has no marks at all, every function.
    """
    marks = {student: run.marks[student] for student in graded(run)}
    sums_of = {s: {f: sums(of(marks[s], f)) for f in functions(run)} for s in marks}
    usual = [f for f in functions(run) if 2 * sum(each[f].got > 0 for each in sums_of.values()) > len(sums_of)]
    found: dict[str, list[str]] = defaultdict(list)
    for student, each in sums_of.items():
        marked = [function for function in functions(run) if not each[function].is_open]
        missed = [function for function in marked if not each[function].got]
        counted = missed if len(missed) == len(marked) else [function for function in usual if function in missed]
        if counted:
            found[student] = counted
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def graded(run: ClassRun) -> list[str]:
    """Who has marks from the tests."""
    return [student for student in run.records if is_graded(run, student)]


def is_graded(run: ClassRun, student: str) -> bool:
    """Whether a student has marks from the tests."""
    return student in run.records and not run.records[student].problem and student in run.marks
