"""Adding up the marks of test cells: by function and all together, as tables show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from distlib.checks.words import count
from distlib.classroom.grader.class_run import ClassRun
from distlib.classroom.grader.gradebook import Mark
from distlib.classroom.grader.messages import function_of


def functions(run: ClassRun) -> list[str]:
    """The graded functions, in the notebook's order."""
    return list(dict.fromkeys(function_of(cell) for cell in run.cells))


def of(marks: Mapping[str, Mark], function: str) -> list[Mark]:
    """The marks of one function's test cells."""
    return [mark for cell, mark in marks.items() if function_of(cell) == function]


def judged_again(run: ClassRun) -> list[str]:
    """Which test cells were judged again, where verdicts of an earlier run stay: a sentence for each such set."""
    sets = Counter(tuple(cells) for cells in run.judged.values() if len(cells) < len(run.cells))
    return [
        f"{count(number, 'submission')} graded again: "
        + (f"only {', '.join(cells)} judged, all other verdicts stay." if cells else "nothing to judge, verdicts stay.")
        for cells, number in sets.items()
    ]


def late(run: ClassRun) -> list[str]:
    """The head of a column for penalties, if anybody has one."""
    return ["late"] if any(run.penalties.values()) else []


def lost(marks: Mapping[str, Mark], penalty: float) -> str:
    """ "−2", or "–" where nothing is lost."""
    return f"−{penalty:g}" if marks and penalty else "–"


def sums(marks: Iterable[Mark]) -> tuple[float, float]:
    """The points, and those that can be had."""
    marks = list(marks)
    return sum(mark.score for mark in marks), sum(mark.full for mark in marks)


def fraction(marks: Iterable[Mark], penalty: float = 0.0) -> str:
    """ "3 / 4", or "–" without marks."""
    marks = list(marks)
    got, full = sums(marks)
    star = " *" if any(mark.by_hand for mark in marks) else ""
    return f"{got - penalty:g} / {full:g}{star}" if marks else "–"
