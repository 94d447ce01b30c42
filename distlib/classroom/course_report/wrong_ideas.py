"""What students take for true and is not: the usual causes that checks have named, with the number who read each.

A check's message ends with what usually causes it. Students who read the same sentence about the same function have had
the same idea, whatever their numbers. What counts is the last grading of each student: an idea that was given up since
is not there any more. Where a check knows no cause, the first sentence of what it saw stands for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from distlib.classroom.grader.check_message import Told, function_of, parts_of
from distlib.classroom.grader.class_run import ClassRun
from distlib.classroom.grader.mistakes import cause_of, graded


@dataclass(frozen=True)
class WrongIdea:
    """An idea, and who had it.

    Attributes:
        exercise, function: about which.
        words: the cause, or what was seen, as the first of them read it.
        is_cause: whether a check has named it as a cause.
        students: who had it.
        of: how many have written this function.
    """

    exercise: str
    function: str
    words: str
    is_cause: bool
    students: list[str]
    of: int


def wrong_ideas(runs: Iterable[ClassRun]) -> list[WrongIdea]:
    """All ideas, those that most students had first; causes before what was only seen."""
    found = [idea for run in runs for idea in _of_exercise(run)]
    return sorted(
        found, key=lambda idea: (-len(idea.students), not idea.is_cause, idea.exercise, idea.function, idea.words)
    )


def _of_exercise(run: ClassRun) -> list[WrongIdea]:
    ideas: dict[tuple[str, str], WrongIdea] = {}
    written: dict[str, int] = {}
    for student in graded(run):
        told = _by_function(run.records[student].told)
        for function in dict.fromkeys(map(function_of, run.cells)):
            messages = told.get(function, {})
            if any(message.is_unwritten for message in messages.values()):
                continue
            written[function] = written.get(function, 0) + 1
            for cause, message in messages.items():
                words = message.cause or parts_of(message.seen).first_sentence
                idea = WrongIdea(run.assignment, function, words, bool(message.cause), [], 0)
                ideas.setdefault((function, cause), idea).students.append(student)
    return [replace(idea, of=written[idea.function]) for idea in ideas.values()]


def _by_function(told: dict[str, Told]) -> dict[str, dict[str, Told]]:
    """The messages of each function; those that say the same, once."""
    found: dict[str, dict[str, Told]] = {}
    for cell, message in told.items():
        found.setdefault(function_of(cell), {}).setdefault(cause_of(message), message)
    return found
