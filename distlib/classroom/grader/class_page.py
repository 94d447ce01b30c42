"""The page about a class: what an instructor reads after grading.

the marks as bars, by function          who got all, some and none of the points
the marks in a table                    by student
what went wrong                         mistakes by cause, the most frequent first
who needs help                          no marks where most have some; nothing handed in
worth a look                            answers that resemble each other
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from distlib.classroom.grader.alike import Pair
from distlib.classroom.grader.class_run import ClassRun
from distlib.classroom.grader.gradebook import Mark
from distlib.classroom.grader.marks import fraction, functions, late, lost, notes, of, sums
from distlib.classroom.grader.mistakes import graded, left_behind, mistakes
from distlib.classroom.grader.student_record import Record
from distlib.classroom.grader.tenths import Tenth, tenths
from distlib.classroom.pages import render
from distlib.classroom.words import count, joined, points


@dataclass(frozen=True)
class _FunctionShare:
    """How a class did with a function.

    Attributes:
        function: its name.
        numbers: of students who got "all", "some" and "none" of the points.
        mean, full: points.
    """

    function: str
    numbers: dict[str, int]
    mean: float
    full: float


@dataclass(frozen=True)
class _MarkCell:
    """A cell of the table of marks, and its class in CSS."""

    text: str
    kind: str


def html_page(run: ClassRun, pairs: Sequence[Pair] = ()) -> str:
    """The page. Nothing in it is loaded from elsewhere, nothing runs.

    Args:
        run: the class.
        pairs: answers that resemble each other.
    """
    students = graded(run)
    return render(
        "class.html",
        title=f"{run.assignment}: the class",
        summary=_summary(run),
        notes=notes(run),
        changes=run.changes,
        failed=[record for record in run.records.values() if record.problem],
        refused=run.refused,
        records=run.records,
        by_function=[_share(run, students, function) for function in functions(run)] if students else [],
        number_graded=len(students),
        columns_of_points=_columns(run, students),
        full=sums(run.marks[students[0]].values())[1] if students else 0.0,
        **_marks_table(run),
        mistakes=mistakes(run.records.values()),
        need_help=_need_help(run),
        pairs=pairs,
        remarked=[record for record in run.records.values() if record.remarks and not record.problem],
    )


def _summary(run: ClassRun) -> str:
    done = [record for record in run.records.values() if not record.problem]
    marked = [student for student in (record.student for record in done) if student in run.marks]
    totals = [sums(run.marks[student].values()) for student in marked]
    left = sum(got for got, _ in totals) - sum(run.penalties.get(student, 0.0) for student in marked)
    mean = f" Mean: {left / len(totals):.1f} of {points(totals[0][1])} points." if totals else ""
    seconds = sum(record.seconds for record in run.records.values())
    submissions = count(len(run.records), "submission")
    took = f" Judging them took {seconds:.0f} s, one after another." if seconds >= 1 else ""
    return f"{submissions}, {len(done)} graded.{mean}{took}"


def _share(run: ClassRun, students: Sequence[str], function: str) -> _FunctionShare:
    both = [sums(of(run.marks[student], function)) for student in students]
    kinds = Counter("all" if got >= full else "some" if got > 0 else "none" for got, full in both)
    numbers = {kind: kinds[kind] for kind in ("all", "some", "none")}
    return _FunctionShare(function, numbers, sum(got for got, _ in both) / len(both), both[0][1])


def _columns(run: ClassRun, students: Sequence[str]) -> list[Tenth]:
    """How many students have how many points: a column for each tenth of them."""
    if not students:
        return []
    left = [(sums(run.marks[s].values())[0] - run.penalties.get(s, 0.0)) for s in students]
    return tenths(left, sums(run.marks[students[0]].values())[1])


def _marks_table(run: ClassRun) -> dict[str, Any]:
    """What the table of marks shows: its heads, with the class of each column, its rows, and a note."""
    names = ["student", *functions(run), *late(run), "all", "seconds", "state"]
    by_hand = any(mark.by_hand for marks in run.marks.values() for mark in marks.values())
    note = "Points, of those that can be had." + (" * includes a mark given by hand." if by_hand else "")
    return {
        "mark_heads": list(zip(names, ["", *["number"] * (len(names) - 2), ""], strict=True)),
        "marks": [(record.student, _mark_cells(run, record)) for record in run.records.values()],
        "marks_note": note + (" ?: no time of handing in is known." if run.without_time else ""),
    }


def _mark_cells(run: ClassRun, record: Record) -> list[_MarkCell]:
    student = record.student
    marks = {} if record.problem else run.marks.get(student, {})
    return [
        *(_mark_cell(of(marks, function)) for function in functions(run)),
        *(_MarkCell(lost(run, student, marks), "number") for _ in late(run)),
        _mark_cell(marks.values(), run.penalties.get(student, 0.0)),
        _MarkCell(f"{record.seconds:.1f}", "number"),
        _MarkCell(record.state, "state"),
    ]


def _mark_cell(marks: Iterable[Mark], penalty: float = 0.0) -> _MarkCell:
    marks = list(marks)
    got, full = sums(marks)
    return _MarkCell(fraction(marks, penalty), "number lost" if marks and got < full else "number")


def _need_help(run: ClassRun) -> list[tuple[str, str]]:
    """Students, and why they may need help."""
    number = len(functions(run))
    refused = {each.student: f"handed in what was not collected: {each.why}" for each in run.refused}
    return [
        *(
            (student, f"no marks in {joined(names)}" if len(names) < number else "no marks at all")
            for student, names in left_behind(run).items()
        ),
        *((student, refused.get(student, "has not handed in")) for student in run.missing),
    ]
