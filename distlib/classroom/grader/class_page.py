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
from distlib.classroom.grader.marks import fraction, functions, late, lost, notes, of, sums, waiting
from distlib.classroom.grader.mistakes import graded, left_behind, mistakes
from distlib.classroom.grader.point_sum import WAITS
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
        mean: of those who have marks; None while nobody has.
        full: what can be had.
        waiting: how many wait for a mark by hand.
    """

    function: str
    numbers: dict[str, int]
    mean: float | None
    full: float
    waiting: int


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
        names=run.names,
        records=run.records,
        by_function=[_share(run, students, function) for function in functions(run)] if students else [],
        number_graded=len(students),
        columns_of_points=_columns(run, students),
        full=_full(run, students),
        **_marks_table(run),
        mistakes=mistakes(run.records.values()),
        need_help=_need_help(run),
        pairs=pairs,
        remarked=[record for record in run.records.values() if record.remarks and not record.problem],
    )


def _summary(run: ClassRun) -> str:
    done = [record for record in run.records.values() if not record.problem]
    marked = [student for student in (record.student for record in done) if student in run.marks]
    mean = f" Mean: {_mean(run, marked):.1f} of {points(_full(run, marked))} points." if marked else ""
    seconds = sum(record.seconds for record in run.records.values())
    submissions = count(len(run.records), "submission")
    took = f" Judging them took {seconds:.0f} s, one after another." if seconds >= 1 else ""
    return f"{submissions}, {len(done)} graded.{mean}{took}"


def _share(run: ClassRun, students: Sequence[str], function: str) -> _FunctionShare:
    found = [sums(of(run.marks[student], function)) for student in students]
    marked = [each for each in found if not each.is_open]
    kinds = Counter("all" if each.got >= each.full else "some" if each.got > 0 else "none" for each in marked)
    numbers = {kind: kinds[kind] for kind in ("all", "some", "none")}
    mean = sum(each.got for each in marked) / len(marked) if marked else None
    full = marked[0].full if marked else found[0].waiting
    return _FunctionShare(function, numbers, mean, full, len(found) - len(marked))


def _mean(run: ClassRun, students: Sequence[str]) -> float:
    """The sum of the means of all functions, each of those who have marks in it, the mean penalty taken off."""
    penalty = sum(run.penalties.get(student, 0.0) for student in students) / len(students)
    return sum(_share(run, students, function).mean or 0.0 for function in functions(run)) - penalty


def _full(run: ClassRun, students: Sequence[str]) -> float:
    """What can be had in all functions in which anybody has marks."""
    shares = [_share(run, students, function) for function in functions(run)] if students else []
    return sum(share.full for share in shares if share.mean is not None)


def _columns(run: ClassRun, students: Sequence[str]) -> list[Tenth]:
    """How many students have how many points: a column for each tenth of them."""
    if not students:
        return []
    left = [sums(run.marks[s].values()).less(run.penalties.get(s, 0.0)).got for s in students]
    return tenths(left, _full(run, students))


def _marks_table(run: ClassRun) -> dict[str, Any]:
    """What the table of marks shows: its heads, with the class of each column, its rows, and a note."""
    names = ["student", *functions(run), *late(run), "all", "seconds", "state"]
    by_hand = any(mark.by_hand for marks in run.marks.values() for mark in marks.values())
    note = "Points, of those that can be had." + (" * includes a mark given by hand." if by_hand else "")
    note += f" Open: {WAITS}." if waiting(run) else ""
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
    found = sums(marks)
    return _MarkCell(fraction(marks, penalty), "number lost" if found.got < found.full else "number")


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
