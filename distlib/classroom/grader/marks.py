"""Adding up the marks of test cells: by function and all together, as tables show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from distlib.classroom.grader.check_message import Told, function_of
from distlib.classroom.grader.class_run import ClassRun
from distlib.classroom.grader.gradebook import Mark
from distlib.classroom.grader.handed_in_time import EXAMPLE
from distlib.classroom.grader.point_sum import WAITS, PointSum
from distlib.classroom.register.due_dates import in_words
from distlib.classroom.words import count, have, joined, not_in_the_table, points, was

_NOTHING = Told("")


def functions(run: ClassRun) -> list[str]:
    """The graded functions, in the notebook's order."""
    return list(dict.fromkeys(function_of(cell) for cell in run.cells))


def of(marks: Mapping[str, Mark], function: str) -> list[Mark]:
    """The marks of one function's test cells."""
    return [mark for cell, mark in marks.items() if function_of(cell) == function]


def judged_again(run: ClassRun) -> list[str]:
    """Which test cells were judged again, where verdicts of an earlier run stay: a sentence for each such set."""
    by_hand = {cell for record in run.records.values() for cell, mark in record.marks.items() if mark is None}
    tests = len(set(run.cells) - by_hand)
    sets = Counter(tuple(cells) for cells in run.judged.values() if len(cells) < tests)
    return [
        f"{count(number, 'submission')} {was(number)} graded again: "
        + (f"only {joined(cells)} {was(len(cells))} judged" if cells else "nothing had to be judged")
        + (", all other verdicts stay." if cells else ", the verdicts stay.")
        for cells, number in sets.items()
    ]


def late(run: ClassRun) -> list[str]:
    """The head of a column for penalties, if anybody has one, or might have one."""
    return ["late"] if any(run.penalties.values()) or run.without_time else []


def lost(run: ClassRun, student: str, marks: Mapping[str, Mark]) -> str:
    """What a student loses for being late: "−2", "–" for nothing, "?" where no time of handing in is known."""
    if marks and student in run.without_time:
        return "?"
    penalty = run.penalties.get(student, 0.0)
    return f"−{points(penalty)}" if marks and penalty else "–"


def notes(run: ClassRun) -> list[str]:
    """What is to be known about the class as a whole: sentences."""
    told = [*_lost_by_all(run), *judged_again(run), *_older(run), *_without_time(run), *_feedback(run)]
    strangers = [not_in_the_table(run.strangers)] if run.strangers else []
    return [*told, *waiting(run), *_due(run), *(team.words for team in run.teams), *strangers]


def _due(run: ClassRun) -> list[str]:
    """When it was due, and who has more time."""
    if run.due.date is None:
        return []
    later = [f"{student} ({in_words(more)})" for student, more in run.due.extensions.items()]
    return [f"Due {run.due.date:%Y-%m-%d %H:%M} UTC." + f" More time for {joined(later)}." * bool(later)]


def _lost_by_all(run: ClassRun) -> list[str]:
    """Tests that fail with everybody's answer: then the test may be wrong, not the class."""
    graded = [record for record in run.records.values() if not record.problem]
    written = {cell: [r for r in graded if not r.told.get(cell, _NOTHING).is_unwritten] for cell in run.cells}
    lost = [cell for cell, records in written.items() if len(records) > 1 and all(cell in r.told for r in records)]
    if not lost:
        return []
    which = "this test" if len(lost) == 1 else "these tests"
    return [
        f"Everybody who has written an answer fails {joined(lost)}. Does your own pass? To see that, run {which} in "
        "the notebook with the solutions."
    ]


def _older(run: ClassRun) -> list[str]:
    """Tests that the instructor has changed since students got them."""
    found = Counter(cell for record in run.records.values() if not record.problem for cell in record.older)
    if not found:
        return []
    number = max(found.values())
    return [
        f"Changed in your notebook since it was released: {joined(list(found))}. {count(number, 'submission')} still "
        f"{have(number)} the earlier text; yours was used."
    ]


def _without_time(run: ClassRun) -> list[str]:
    """Students of whom nobody knows whether they are late."""
    if not run.without_time:
        return []
    file = f"classroom/submitted/STUDENT/{run.assignment}/timestamp.txt"
    return [
        f"No time of handing in is known for {joined([f'{who} ({why})' for who, why in run.without_time.items()])}: "
        f"nothing was taken off for being late. If you know when they handed in, write it into {file}, such as "
        f"{EXAMPLE}, and grade again."
    ]


def _feedback(run: ClassRun) -> list[str]:
    """Feedback that is gone because it was about an earlier grading."""
    if not run.outdated:
        return []
    return [
        f"The feedback of {joined(run.outdated)} was about the earlier grading and was removed. To write it again: "
        f"nbgrader generate_feedback {run.assignment} --force"
    ]


def sums(marks: Iterable[Mark]) -> PointSum:
    """The points, those that can be had, and those that wait for a mark by hand."""
    return sum((PointSum.of_mark(mark.score, mark.full, mark.is_open) for mark in marks), PointSum())


def fraction(marks: Iterable[Mark], penalty: float = 0.0) -> str:
    """ "3 / 4", or "–" without marks; see `PointSum.words`."""
    marks = list(marks)
    star = " *" if any(mark.by_hand for mark in marks) else ""
    return sums(marks).less(penalty).words(star=star) if marks else "–"


def waiting(run: ClassRun) -> list[str]:
    """Which functions wait for a mark by hand, and how many students': sentences."""
    graded = [run.marks.get(record.student, {}) for record in run.records.values() if not record.problem]
    numbers = {
        function: sum(bool(sums(of(marks, function)).waiting) for marks in graded) for function in functions(run)
    }
    return [
        f"{function} {WAITS} in {count(number, 'submission')}. Until then it counts in no sum and no mean."
        for function, number in numbers.items()
        if number
    ]
